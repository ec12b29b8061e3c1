"""Small float64 methods on small graphs, and sums written out as loops to compare them with."""

from __future__ import annotations

from math import exp, inf, log
from typing import Any

import torch
from torch import Tensor, nn

from mphil.graphs.store import Batch
from mphil.methods import Method
from mphil.task import Kind, Task
from tests.graphs import TASKS, random_store, small_encoder, whole

ABOUT_GRAPHS = ("graphs", "missing", "seed", "nodes", "edges")
ABOUT_ENCODERS = ("layers", "width", "readout")


def make(cls: type[Method], kind: Kind, *, training: bool = False, **options: Any) -> tuple[Any, Batch]:
    """A float64 method and a batch for it; without dropout, in evaluation mode unless told otherwise.

    Options of graphs and encoders go there, all others are hyperparameters.
    """
    graphs = {k: options.pop(k) for k in ABOUT_GRAPHS if k in options}
    encoder = {k: options.pop(k) for k in ABOUT_ENCODERS if k in options}
    store = random_store(kind, **{"graphs": 9, "nodes": "categorical", "edges": "categorical", **graphs})
    torch.manual_seed(0)
    method = cls(TASKS[kind], small_encoder(store, **{"layers": 3, **encoder}), **options).double()
    return method.train(training), whole(store, torch.float64)


def label_loss(row: Tensor, labels: Tensor, task_number: int, task: Task) -> float:
    """Cross-entropy of one known label."""
    logits = row.tolist()
    label = int(labels[task_number])
    if task.kind == "multiclass":
        return log(sum(exp(value) for value in logits)) - logits[label]
    return log(1 + exp(-logits[task_number] if label == 1 else logits[task_number]))


def known_labels(y: Tensor) -> list[tuple[int, int]]:
    """(graph, task) of every label that is not missing."""
    return [(i, t) for i in range(y.shape[0]) for t in range(y.shape[1]) if not y[i, t].isnan()]


def risk(logits: Tensor, y: Tensor, task: Task) -> float:
    """Mean loss of the known labels."""
    return mean([label_loss(logits[i], y[i], t, task) for i, t in known_labels(y)])


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def variance(values: list[float]) -> float:
    """Unbiased."""
    return sum((value - mean(values)) ** 2 for value in values) / (len(values) - 1)


def same(found: Tensor, expected: float) -> None:
    assert abs(found.item() - expected) <= 1e-10 * max(1.0, abs(expected)) < inf, (found.item(), expected)


class Fixed(nn.Module):
    """A module that says the same of everything."""

    def __init__(self, answer: Tensor) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, *given: Any) -> Tensor:
        return self.answer


def gradient_size(module: nn.Module) -> float:
    """Sum of the absolute gradients of all parameters."""
    return sum(p.grad.abs().sum().item() for p in module.parameters() if p.grad is not None)
