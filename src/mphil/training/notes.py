"""What a reader of the numbers of a run should know: said before training, and kept with its result."""

from __future__ import annotations

from mphil.benchmarks.base import Benchmark
from mphil.config import RunConfig
from mphil.methods.base import METHODS
from mphil.methods.published import published_epochs
from mphil.training.environments import environment_notes
from mphil.training.start import MOLECULES

SEEN = ("good-hiv", "muv", "toxcast", "drugood-ic50", "ic50-partial")
"""Benchmarks whose molecules the weights of this package were trained on."""


def notes(config: RunConfig, benchmark: Benchmark) -> list[str]:
    """All notes on a run, a sentence each; usually none."""
    train = benchmark.split.train
    method = METHODS[config.method.name]
    return [
        *budget_notes(config, len(train)),
        *environment_notes(method, benchmark.store.env[train], config.train),
        *start_notes(config),
    ]


def start_notes(config: RunConfig) -> list[str]:
    """Whether the encoder may have seen the molecules of the test parts, though not their labels."""
    name = config.benchmark.name
    if config.train.start != MOLECULES or not name.startswith(SEEN):
        return []
    return [
        f"the weights of train.start={MOLECULES} were trained on molecules of {name}, those of its test parts too, "
        "without labels: scores are not comparable with those of other papers"
    ]


def budget_notes(config: RunConfig, graphs: int) -> list[str]:
    """Whether the run is shorter than those the method's settings were published with.

    Args:
        config: settings of the run.
        graphs: in the training part.
    """
    name, train = config.method.name, config.train
    epochs = float(train.epochs)
    if train.max_steps:
        epochs = min(epochs, train.max_steps / -(-graphs // train.batch_size))
    published = published_epochs(name, config.benchmark.name)
    if epochs >= published:
        return []
    return [
        f"published runs of {name} on {config.benchmark.name} have {published} epochs or more, this one {epochs:g}: "
        "schedules are scaled to it, but weights were tuned for the longer training"
    ]
