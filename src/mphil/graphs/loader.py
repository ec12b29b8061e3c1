"""Batches in an order that is a function of (seed, epoch) and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from mphil.errors import UsageError
from mphil.graphs.store import GraphBatch, GraphStore


def derive_seed(seed: int, stream: str, number: int = 0) -> int:
    """A 63-bit seed for one purpose: streams of different names or numbers are unrelated."""
    digest = hashlib.sha256(f"{int(seed)},{stream},{int(number)}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def epoch_order(n: int, seed: int, epoch: int) -> Tensor:
    """The order of `n` graphs in an epoch."""
    generator = torch.Generator().manual_seed(derive_seed(seed, "order", epoch))
    return torch.randperm(n, generator=generator)


def grouped_order(env: Tensor, groups: int, size: int, batches: int, seed: int, epoch: int) -> Tensor:
    """The order of an epoch whose batches have `size` graphs of each of `groups` environments.

    As in the group samplers of WILDS and DrugOOD, every batch draws different environments, all of them equally likely,
    and from each its graphs without replacement; an environment with fewer than `size` graphs gives some repeatedly.
    Graphs without an environment (-1) are a group of their own.

    Args:
        env: (n,) environment of every graph.
        groups: environments in a batch, at most as many as there are.
        size: graphs of each.
        batches: in the epoch.
        seed: of training.
        epoch: number of the epoch.

    Returns:
        (batches * groups * size,) positions in `env`, batch by batch and environment by environment.
    """
    generator = torch.Generator().manual_seed(derive_seed(seed, "groups", epoch))
    numbers, order = env.sort(stable=True)
    members = torch.tensor_split(order, (numbers.diff().nonzero().squeeze(1) + 1).tolist())
    chosen = [order[:0]]
    for _ in range(batches):
        for group in torch.randperm(len(members), generator=generator)[:groups].tolist():
            own = members[group]
            if len(own) < size:
                chosen.append(own[torch.randint(len(own), (size,), generator=generator)])
            else:
                chosen.append(own[torch.randperm(len(own), generator=generator)[:size]])
    return torch.cat(chosen)


@dataclass(frozen=True)
class Loader:
    """Cuts one part of a store into batches.

    Attributes:
        store: the graphs.
        graphs: positions of the part in the store.
        batch_size: graphs in a batch; the last one holds the rest.
        device: where the batches go.
        share: (r, n) takes graphs r, r + n, ... of every batch, which may be none: n processes share the batches.
        env_per_batch: environments in a batch of an epoch, which then has `batch_size // env_per_batch` graphs of each,
            see `grouped_order`; 0 = every graph once, shuffled. The number of batches is the same.
    """

    store: GraphStore
    graphs: Tensor
    batch_size: int
    device: str = "cpu"
    share: tuple[int, int] = (0, 1)
    env_per_batch: int = 0

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise UsageError(f"batch_size must be at least 1, not {self.batch_size}")

    def __len__(self) -> int:
        """Batches in an epoch."""
        return -(-len(self.graphs) // self.batch_size)

    def __iter__(self) -> Iterator[GraphBatch]:
        """All batches in stored order."""
        return self._batches(self.graphs, self.batch_size, start=0)

    def epoch(self, seed: int, epoch: int, start: int = 0) -> Iterator[GraphBatch]:
        """The batches of an epoch in its order, from batch number `start` on."""
        if not self.env_per_batch:
            return self._batches(self.graphs[epoch_order(len(self.graphs), seed, epoch)], self.batch_size, start)
        groups, size = self.env_per_batch, self.batch_size // self.env_per_batch
        order = grouped_order(self.store.env[self.graphs], groups, size, len(self), seed, epoch)
        return self._batches(self.graphs[order], groups * size, start)

    def _batches(self, order: Tensor, size: int, start: int) -> Iterator[GraphBatch]:
        firsts, (mine, step) = range(0, len(order), size)[start:], self.share
        graphs = (order[first : first + size][mine::step] for first in firsts)
        return (self.store.batch(chosen).to(self.device) for chosen in graphs)
