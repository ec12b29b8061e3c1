"""Runs side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mphil.errors import UsageError
from mphil.graphs.split import PARTS


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
