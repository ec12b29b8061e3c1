"""How many environments a batch has: the rule, what it refuses, and what a reader of the numbers should know."""

from __future__ import annotations

import torch
from torch import Tensor

from mphil.benchmarks.base import Benchmark
from mphil.config import TrainConfig
from mphil.errors import UsageError
from mphil.methods.base import Method

GROUPS = 4
"""Environments in a batch where they are drawn on purpose, as in DrugOOD."""
ENOUGH = 4
"""Graphs of an environment in a batch that a risk can be estimated from."""


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
