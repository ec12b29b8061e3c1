"""Runs and models side by side, and whether the rows could as well have said otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from mphil.errors import UsageError
from mphil.graphs.split import PARTS
from mphil.task import Task
from mphil.training.metrics import score


class HasResult(Protocol):
    @property
    def result(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, repr=False)
class Comparison:
    """Scores of several runs under one selection rule; it prints as a table."""

    metric: str
    selection: str
    rows: tuple[tuple[str, dict[str, float | None]], ...]

    def __repr__(self) -> str:
        names = [name for name, _ in self.rows]
        width = max(map(len, names))
        lines = [" " * width + "".join(f"{part:>10}" for part in PARTS)]
        for name, scores in self.rows:
            cells = ("-" if scores[part] is None else f"{scores[part]:.4f}" for part in PARTS)
            lines.append(f"{name:<{width}}" + "".join(f"{cell:>10}" for cell in cells))
        return "\n".join([*lines, f"{self.metric}, epoch chosen on {self.selection}"])


def compare(*runs: HasResult, selection: str = "ood_val") -> Comparison:
    """Put the scores of runs on the same benchmark into one table.

    Args:
        runs: finished runs.
        selection: the rule that chose the epoch, `ood_val` or `id_val`.
    """
    if not runs:
        raise UsageError("nothing to compare")
    results: Sequence[Mapping[str, Any]] = [run.result for run in runs]
    if len({(r["benchmark"], r["data_digest"], r["split_digest"]) for r in results}) > 1:
        names = ", ".join(sorted({r["benchmark"] for r in results}))
        raise UsageError(f"these runs do not share their data and split: {names}")
    rows = []
    for result in results:
        if selection not in result["selections"]:
            raise UsageError(f"{result['method']} has no epoch chosen on {selection}")
        name = f"{result['method']} (seed {result['seeds']['training']})"
        rows.append((name, result["selections"][selection]["scores"]))
    return Comparison(results[0]["metric"], selection, tuple(rows))


DRAWS = 500
LEVEL = 0.95
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """The metric of one model less that of another.

    Attributes:
        value: on all rows.
        low: lower end of the interval.
        high: upper end.
    """

    value: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.low > 0 or self.high < 0


def paired_difference(
    one: Floats, other: Floats, y: Floats, task: Task, *, draws: int = DRAWS, seed: int = 0
) -> Difference | None:
    """The difference of two models with a 95 % interval: rows are drawn with replacement, the same for both.

    Args:
        one: (n, outputs) logits of a model.
        other: (n, outputs) logits of another.
        y: (n, tasks) labels, NaN = missing.
        task: what is asked, with its metric.
        draws: how often rows are drawn.
        seed: of the draws.

    Returns:
        None where the metric is not defined.
    """
    pair, labels = [torch.from_numpy(logits) for logits in (one, other)], torch.from_numpy(y)
    whole = _difference(pair, labels, task)
    if whole is None:
        return None
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(draws):
        rows = torch.from_numpy(rng.integers(len(y), size=len(y)))
        gap = _difference([logits[rows] for logits in pair], labels[rows], task)
        if gap is not None:
            found.append(gap)
    low, high = np.quantile(found or [whole], ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return Difference(whole, float(low), float(high))


def _difference(pair: list[torch.Tensor], y: torch.Tensor, task: Task) -> float | None:
    first, second = (score(logits, y, task) for logits in pair)
    return None if first is None or second is None else first - second
