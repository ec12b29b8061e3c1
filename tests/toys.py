"""Small data and methods that misbehave on purpose, for tests of training."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from mphil.benchmarks.catalogue import Benchmark
from mphil.graphs.split import Split
from mphil.graphs.store import Batch
from mphil.methods.base import METHODS, Losses, Progress
from mphil.methods.erm import ERM
from mphil.task import Kind, Task
from tests.graphs import TASKS, random_store

SMALL = {"encoder": {"width": 8, "layers": 2}, "train": {"epochs": 2, "batch_size": 30}}
"""Settings of a run that takes no time on `small_benchmark()` or a benchmark of 200 graphs."""


def small_benchmark(kind: Kind = "multiclass", *, missing: float = 0.0, graphs: int = 100) -> Benchmark:
    """A benchmark made by hand: 60 % of random graphs for training, 10 % in each of the other parts."""
    share = graphs // 10
    sizes = [graphs - 4 * share, share, share, share, share]
    store = random_store(kind, graphs=graphs, missing=missing)
    return Benchmark(task=TASKS[kind], store=store, split=Split(*torch.arange(graphs).split(sizes)))


def measured_benchmark(tasks: int = 1, *, missing: float = 0.0, graphs: int = 100) -> Benchmark:
    """`small_benchmark` with measured labels: the number of nodes, in a unit of its own for each task."""
    data = small_benchmark(graphs=graphs)
    nodes = data.store.n_nodes.float().unsqueeze(1)
    y = torch.cat([100.0 * number + (number + 2) * nodes for number in range(tasks)], dim=1)
    gone = torch.rand(y.shape, generator=torch.Generator().manual_seed(0)) < missing
    y = y.masked_fill(gone, torch.nan)
    task = Task("regression", tasks, "rmse" if tasks == 1 else "r2").standardised(y[data.split.train])
    return replace(with_labels(data, y), task=task)


def with_labels(data: Benchmark, y: Tensor) -> Benchmark:
    return replace(data, store=replace(data.store, y=y))


def without_part(data: Benchmark, part: str) -> Benchmark:
    return replace(data, split=replace(data.split, **{part: torch.empty(0, dtype=torch.long)}))


class Brittle(ERM):
    """ERM that breaks when it is told to: NaN in the loss or in the gradient, or an interrupt amid a step."""

    name = "brittle"
    trouble: ClassVar[Literal["", "loss", "gradient", "interrupt"]] = ""
    at: ClassVar[int] = 5

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        losses = super().loss(batch, progress)
        if progress.step != self.at:
            return losses
        if self.trouble == "loss":
            losses["broken"] = torch.tensor(torch.nan)
        elif self.trouble == "gradient":
            losses["broken"] = (0 * self.head.bias).sum().sqrt()  # 0, with the derivative 0 * infinity
        elif self.trouble == "interrupt":
            signal.raise_signal(signal.SIGINT)
        return losses


def install(monkeypatch, method=Brittle) -> None:
    """Make a toy available by its name, for one test."""
    list(METHODS)
    monkeypatch.setitem(METHODS._entries, method.name, method)
