"""Batches in an order that is a function of (seed, epoch) and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from mphil.data.store import Batch, GraphStore
from mphil.errors import UsageError


def derive_seed(seed: int, stream: str, number: int = 0) -> int:
    """A 63-bit seed for one purpose: streams of different names or numbers are unrelated."""
    digest = hashlib.sha256(f"{int(seed)},{stream},{int(number)}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def epoch_order(n: int, seed: int, epoch: int) -> Tensor:
    """The order of `n` graphs in an epoch."""
    generator = torch.Generator().manual_seed(derive_seed(seed, "order", epoch))
    return torch.randperm(n, generator=generator)


@dataclass(frozen=True)
class Loader:
    """Cuts one part of a store into batches.

    Attributes:
        store: the graphs.
        graphs: positions of the part in the store.
        batch_size: graphs in a batch; the last one holds the rest.
        device: where the batches go.
        share: (r, n) takes graphs r, r + n, ... of every batch, which may be none: n processes share the batches.
    """

    store: GraphStore
    graphs: Tensor
    batch_size: int
    device: str = "cpu"
    share: tuple[int, int] = (0, 1)

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise UsageError(f"batch_size must be at least 1, not {self.batch_size}")

    def __len__(self) -> int:
        """Batches in an epoch."""
        return -(-len(self.graphs) // self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        """All batches in stored order."""
        return self._batches(self.graphs, start=0)

    def epoch(self, seed: int, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch in its order, from batch number `start` on."""
        order = self.graphs[epoch_order(len(self.graphs), seed, epoch)]
        return self._batches(order, start)

    def _batches(self, order: Tensor, start: int) -> Iterator[Batch]:
        firsts, (mine, step) = range(0, len(order), self.batch_size)[start:], self.share
        graphs = (order[first : first + self.batch_size][mine::step] for first in firsts)
        return (self.store.batch(chosen).to(self.device) for chosen in graphs)
