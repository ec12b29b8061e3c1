"""What data and settings must be before any time is spent on training, and what a reader of the numbers should know."""

from __future__ import annotations

import torch
from torch import Tensor

from mphil.benchmarks.catalogue import Benchmark
from mphil.config import RunConfig, TrainConfig
from mphil.errors import DataError, UsageError
from mphil.graphs.features import Features
from mphil.methods.base import METHODS, Method, Staged
from mphil.methods.published import published_epochs
from mphil.task import Task
from mphil.training.recipe import MOLECULES, warmup_steps

GROUPS = 4
"""Environments in a batch where they are drawn on purpose, as in DrugOOD."""
ENOUGH = 4
"""Graphs of an environment in a batch that a risk can be estimated from."""
SEEN = ("good-hiv", "muv", "toxcast", "drugood-ic50", "ic50-partial")
"""Benchmarks whose molecules the weights of this package were trained on."""


def environments(env: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers of the (n,) known environments, and how many graphs each has."""
    numbers, counts = torch.unique(env[env >= 0], return_counts=True)
    return numbers, counts


def graphs_per_environment(env: Tensor, batch_size: int) -> float:
    """Graphs of each environment that is present in a shuffled batch, on average; 0 without environments.

    An environment with a share s of the graphs is absent from a batch of b with probability :math:`(1 - s)^b`.

    Example:
        >>> graphs_per_environment(torch.arange(1000), 10) < 1.01, graphs_per_environment(torch.zeros(50), 10)
        (True, 10.0)
    """
    counts = environments(env)[1].double()
    if not len(counts):
        return 0.0
    known = float(counts.sum()) / len(env) * batch_size
    return known / float((1 - (1 - counts / len(env)) ** batch_size).sum())


def default_env_per_batch(method: type[Method], data: Benchmark, batch_size: int) -> int:
    """Environments in a batch when the user does not say: `GROUPS` where shuffling gives too few graphs of each.

    At least two graphs of each must fit into a batch, or nothing would be gained.
    """
    env = data.store.env[data.split.train]
    scattered = len(environments(env)[0]) > GROUPS and graphs_per_environment(env, batch_size) < ENOUGH
    return GROUPS if "env" in method.needs and scattered and batch_size >= 2 * GROUPS else 0


def check_env_per_batch(name: str, env: Tensor, config: TrainConfig) -> None:
    """Refuse more environments in a batch than it has graphs, or than there are.

    Args:
        name: what an error message calls the data.
        env: (n,) environments of the training graphs.
        config: settings of training.
    """
    groups, known = config.env_per_batch or 0, len(environments(env)[0])
    if groups > config.batch_size:
        raise UsageError(
            f"train.env_per_batch is {groups} but a batch has {config.batch_size} graphs (train.batch_size); "
            f"use --set train.env_per_batch={max(1, config.batch_size // ENOUGH)} or less, or a larger batch"
        )
    if groups > known:
        remedy = f"--set train.env_per_batch={known} or less" if known else "--set train.env_per_batch=0"
        raise UsageError(
            f"train.env_per_batch is {groups} but the training graphs of {name} have {known} environments; use {remedy}"
        )


def environment_notes(method: type[Method], env: Tensor, config: TrainConfig) -> list[str]:
    """What keeps a method that compares environments from doing so.

    Args:
        method: which one; nothing is said of those that need no environments.
        env: (n,) environments of the training graphs.
        config: settings of training.
    """
    if "env" not in method.needs:
        return []
    groups, known = config.env_per_batch or 0, len(environments(env)[0])
    if known == 1:
        return [
            f"the training graphs have one environment: {method.name} has nothing to compare and is the same as erm"
        ]
    if groups == 1:
        return [f"train.env_per_batch is 1: {method.name} has nothing to compare in a batch and is the same as erm"]
    each = config.batch_size // groups if groups else graphs_per_environment(env, config.batch_size)
    if each < 2:
        return [
            f"a batch of {config.batch_size} has {each:.1f} graphs of each environment that is in it: {method.name} "
            f"compares single graphs; set train.env_per_batch so that a batch has {ENOUGH} or more of each"
        ]
    return []


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
    if config.mix_features and store.node_features.kind != "float":
        raise UsageError(
            f"train.mix_features={config.mix_features:g}: the node features of {name} are {store.node_features.kind}, "
            "and only real numbers can be mixed; use --set train.mix_features=0"
        )
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
