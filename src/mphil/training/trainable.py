"""What must be true of data and settings before any time is spent on training."""

from __future__ import annotations

import torch
from torch import Tensor

from mphil.benchmarks.base import Benchmark
from mphil.config import TrainConfig
from mphil.errors import DataError, UsageError
from mphil.graphs.features import Features
from mphil.methods.base import Method
from mphil.methods.staged import Staged
from mphil.task import Task
from mphil.training.environments import check_env_per_batch
from mphil.training.schedules import warmup_steps


def check_trainable(benchmark: Benchmark, config: TrainConfig) -> None:
    """Refuse what cannot be trained, with the reason and what to do."""
    name, store, train = benchmark.name or "the data", benchmark.store, benchmark.split.train
    check_device(config.device)
    if config.batch_size > len(train):
        raise UsageError(
            f"train.batch_size is {config.batch_size} but {name} has {len(train)} training graphs; "
            f"use --set train.batch_size={max(1, len(train) // 4)} or less"
        )
    check_env_per_batch(name, store.env[train], config)
    if config.patience and not len(benchmark.split[config.patience_on]):
        raise UsageError(f"train.patience_on={config.patience_on!r}: {name} has no such part to stop early on")
    check_recipe(config, -(-len(train) // config.batch_size))
    check_codes(f"{name}: x", store.node_features, store.x)
    if store.edge_attr is not None:
        check_codes(f"{name}: edge_attr", store.edge_features, store.edge_attr)
    check_labels(name, store.y, train, benchmark.task)


def check_recipe(config: TrainConfig, batches: int) -> None:
    """Refuse settings that do not fit the length of the run.

    Args:
        config: the settings.
        batches: batches of an epoch.
    """
    steps = min(config.epochs * batches, config.max_steps or config.epochs * batches)
    epochs = -(-steps // batches)
    for name, value in (("window", config.window), ("min_epochs", config.min_epochs)):
        if value > epochs:
            raise UsageError(
                f"train.{name} is {value} but training has {epochs} epochs; "
                f"use --set train.{name}={epochs} or less, or train longer"
            )
    if config.accumulate > batches:
        raise UsageError(
            f"train.accumulate is {config.accumulate} but an epoch has {batches} batches; "
            f"use --set train.accumulate={batches} or less, or a smaller train.batch_size"
        )
    if warmup_steps(steps, config) >= steps:
        raise UsageError(
            f"train.warmup={config.warmup:g} takes up all {steps} steps of training; "
            "use --set train.warmup=0.1, or train longer"
        )


def check_accumulation(method: type[Method], config: TrainConfig) -> None:
    """Refuse to accumulate gradients for a method that decides itself which parameters a batch moves."""
    if config.accumulate > 1 and method.steps not in (Method.steps, Staged.steps):
        raise UsageError(
            f"train.accumulate={config.accumulate}: {method.name} moves several groups of parameters in turn, whose "
            "gradients cannot be accumulated; use --set train.accumulate=1 and a larger train.batch_size"
        )


def check_needs(method: type[Method], benchmark: Benchmark) -> None:
    """Refuse data that lack what the method works with."""
    name, store = benchmark.name or "the data", benchmark.store
    if "molecules" in method.needs and store.smiles is None:
        raise UsageError(f"{method.name} takes molecules apart, and the graphs of {name} are no molecules")
    if "env" in method.needs and not (store.env[benchmark.split.train] >= 0).any():
        raise UsageError(
            f"{method.name} needs environment labels, and the training graphs of {name} have none; "
            "give them environments, or take a method that needs none, such as erm"
        )


def check_device(device: str) -> None:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"train.device={device!r}: {str(error).splitlines()[0]}") from None


def check_codes(name: str, features: Features, codes: Tensor) -> None:
    """A code outside its column's vocabulary would silently be read as a code of the next column."""
    if features.kind != "categorical" or not len(codes):
        return
    outside = (codes.amin(0) < 0) | (codes.amax(0) >= torch.tensor(features.sizes))
    if outside.any():
        raise DataError(f"{name} has codes outside the vocabulary of column {int(outside.nonzero()[0])}")


def check_labels(name: str, y: Tensor, train: Tensor, task: Task) -> None:
    """Labels must be classes of the task, or finite numbers for a regression, and those of training must differ."""
    if y.shape[1] != task.n_tasks:
        raise DataError(f"{name}: labels have {y.shape[1]} columns, the task has {task.n_tasks}")
    labels = y[~y.isnan()]
    if task.kind == "regression":
        if not labels.isfinite().all():
            raise DataError(f"{name}: a label is infinite; give numbers, or NaN where it is missing")
    elif len(strange := labels[(labels < 0) | (labels >= task.n_classes) | (labels != labels.round())]):
        raise DataError(f"{name}: {strange[0]:g} is no label; use whole numbers from 0 to {task.n_classes - 1}")
    known = [column[~column.isnan()] for column in y[train].T]
    if not any(map(len, known)):
        raise DataError(f"{name}: no training graph has a label")
    if not any(len(torch.unique(column)) > 1 for column in known):
        raise DataError(f"{name}: all training graphs have the same label; there is nothing to tell apart")
