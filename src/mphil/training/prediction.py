"""Predictions of a method for many graphs, and their scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from mphil.benchmarks.base import Benchmark
from mphil.errors import UsageError
from mphil.graphs.loader import Loader
from mphil.graphs.split import PARTS, Part
from mphil.graphs.store import Batch
from mphil.methods.base import Method, evaluating
from mphil.task import Kind
from mphil.training.metrics import score


def gather(method: Method, batches: Iterable[Batch], output: Callable[[Batch], Tensor]) -> Tensor:
    """Apply `output` to every batch in evaluation mode and join the results on the CPU."""
    device = next(method.parameters()).device
    with evaluating(method):
        return torch.cat([output(batch.to(device)).cpu() for batch in batches])


def predict_logits(method: Method, batches: Iterable[Batch]) -> Tensor:
    """(n_graphs, n_outputs) logits, in the order of the batches."""
    return gather(method, batches, method.predict)


def probabilities(logits: Tensor, kind: Kind) -> Tensor:
    """Class probabilities for multi-class logits, probabilities of the positive label otherwise.

    Raises:
        UsageError: a regression has no classes.
    """
    if kind == "regression":
        raise UsageError("a regression predicts numbers, not classes with probabilities")
    return logits.softmax(1) if kind == "multiclass" else logits.sigmoid()


def score_parts(
    method: Method, benchmark: Benchmark, batch_size: int, parts: tuple[Part, ...] = PARTS
) -> dict[str, float | None]:
    """The metric of each part; None where a part is empty or has no label to score."""
    scores: dict[str, float | None] = dict.fromkeys(parts)
    for part in parts:
        graphs = benchmark.split[part]
        if len(graphs):
            logits = predict_logits(method, Loader(benchmark.store, graphs, batch_size))
            scores[part] = score(logits, benchmark.store.y[graphs], benchmark.task)
    return scores
