"""The losses of every method after three steps of training, in double precision, and the file they are kept in."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import torch

from mphil.benchmarks import benchmark
from mphil.config import EncoderConfig
from mphil.data.store import GraphStore
from mphil.methods import METHODS, Method, Progress
from mphil.task import Task
from mphil.testing.graphs import to_dtype
from mphil.testing.trial import Trial

FILE = Path(__file__).with_name("losses.json")
COMMAND = "python -m tests.golden.update"
STEPS, SEED = 3, 0
BENCHMARKS = {"motif": "good-motif-basis", "molecules": "decoy-scaffold"}
Golden = dict[str, dict[str, dict[str, float]]]
"""Method, kind of graphs, term of the loss."""


def kinds(method: type[Method]) -> list[str]:
    """The kinds of graphs a method is defined for."""
    tasks = {"motif": "multiclass", "molecules": "binary", "multitask": "multitask"}
    return [
        kind
        for kind, task in tasks.items()
        if task in method.tasks and not (kind == "motif" and "molecules" in method.needs)
    ]


@cache
def small_benchmark(name: str) -> tuple[Task, GraphStore]:
    """The first training graphs of a benchmark."""
    data = benchmark(name, graphs=60)
    return data.task, data.store.select(data.split.train[:24])


def trial(method: type[Method], kind: str) -> Trial:
    if kind == "multitask":
        return Trial.of(method, kind, {}, SEED)
    task, graphs = small_benchmark(BENCHMARKS[kind])
    encoder = EncoderConfig(layers=3, width=12, dropout=0.2, node=graphs.node_features, edge=graphs.edge_features)
    return Trial(method, {}, task, encoder, graphs, SEED)


def losses_after_training(name: str, kind: str) -> dict[str, float]:
    """Terms of the loss of a method, with its defaults, after its earlier stages and three steps of the main one."""
    tried = trial(METHODS[name], kind)
    batch = to_dtype(tried.batch(), torch.float64)
    method = tried.started(batch)
    tried.train(method, batch, steps=STEPS)
    torch.manual_seed(SEED)
    after = Progress(step=STEPS, epoch=STEPS, total_steps=STEPS + 1, total_epochs=STEPS + 1)
    return {term: value.item() for term, value in method.loss(batch, after).items()}


def read() -> Golden:
    found: Golden = json.loads(FILE.read_text()) if FILE.exists() else {}
    return found
