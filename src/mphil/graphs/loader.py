"""Batches in an order that is a function of (seed, epoch) and nothing else, and random changes of training graphs."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from mphil.errors import UsageError
from mphil.graphs.store import GraphBatch, GraphStore, pointer, ranges


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


def drop_edges(batch: GraphBatch, largest: float, generator: torch.Generator, untouched: float = 0.5) -> GraphBatch:
    """Remove random edges; both directions of an edge stay or go together.

    Each graph keeps all of its edges with probability `untouched`. Otherwise it draws a rate from [0, largest], and
    each of its edges, self-loops too, goes with this probability. Nodes stay.

    Args:
        batch: the graphs, which are left as they are.
        largest: largest rate, in [0, 1).
        generator: of all draws, on the CPU.
        untouched: share of graphs that are not touched.

    Returns:
        A batch of the graphs with fewer edges; everything but what belongs to edges is shared with `batch`.
    """
    device, graphs = batch.edge_index.device, batch.ptr.numel() - 1
    source, target = batch.edge_index
    pairs = torch.minimum(source, target) * len(batch.batch) + torch.maximum(source, target)
    unique, owner = torch.unique(pairs, return_inverse=True)
    touched = torch.rand(graphs, generator=generator) >= untouched
    rates = (touched * largest * torch.rand(graphs, generator=generator)).to(device)
    draws = torch.rand(len(unique), generator=generator).to(device)
    kept = draws[owner] >= rates[batch.batch[source]]
    dropped = copy.copy(batch)
    for name, value in batch.to_dict().items():
        if name.startswith("edge_") and value is not None:
            dropped[name] = value[:, kept] if name == "edge_index" else value[kept]
    return dropped


def add_distractors(batch: GraphBatch, share: float, generator: torch.Generator) -> GraphBatch:
    """Put a scrambled graph beside some of the graphs, as a component of its own.

    A class that is a part of the graph is the same whatever stands beside it. A prototype that also matches scrambled
    graphs costs accuracy in training. The scrambled graph has the nodes of a graph of the batch, seldom of the same
    one, and edges that `_scramble` makes of its edges.

    Args:
        batch: undirected graphs, which are left as they are.
        share: probability that a graph gets one.
        generator: of all draws, on the CPU.

    Returns:
        A batch of as many graphs, some of them larger; what belongs to graphs is shared with `batch`.
    """
    device, graphs, size = batch.edge_index.device, batch.ptr.numel() - 1, len(batch.batch)
    chosen = torch.rand(graphs, generator=generator) < share
    owner = chosen.nonzero().squeeze(1).to(device)
    partner = torch.randperm(graphs, generator=generator)[chosen].to(device)
    ends, edges = _scramble(batch, generator)

    nodes, counts = ranges(batch.ptr, partner)
    added = torch.full((size,), -1, device=device)
    added[nodes] = torch.arange(size, size + len(nodes), device=device)
    used = added[ends[0]] >= 0
    ends, edges = added[ends[:, used]], edges[used]

    belongs = torch.cat([batch.batch, owner.repeat_interleave(counts)])
    order = belongs.argsort(stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=device)
    larger = copy.copy(batch)
    for name, value in batch.to_dict().items():
        if name == "x" or name.startswith("node_"):
            larger[name] = torch.cat([value, value[nodes]])[order]
        elif name.startswith("edge_") and name != "edge_index" and value is not None:
            larger[name] = torch.cat([value, value[edges], value[edges]])
    larger.edge_index = place[torch.cat([batch.edge_index, ends, ends.flip(0)], 1)]
    larger.batch = belongs[order]
    larger.ptr = pointer(torch.bincount(belongs, minlength=graphs))
    return larger


def _scramble(batch: GraphBatch, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Pair the ends of the edges of each graph anew, the end with the lower number with one with the higher number.

    That keeps the degrees; then self-loops and double edges go. 70 % of the graphs lose more: they draw a rate from
    [0, 0.9], and each edge goes with this probability.

    Returns:
        (2, n) ends of the new edges, each edge once, and (n,) the column of `edge_index` that it comes from.
    """
    device, graphs = batch.edge_index.device, batch.ptr.numel() - 1
    edges = (batch.edge_index[0] < batch.edge_index[1]).nonzero().squeeze(1)
    edges = edges[batch.batch[batch.edge_index[0, edges]].argsort(stable=True)]
    source, target = batch.edge_index[:, edges]
    owner = batch.batch[source]
    draws = torch.rand(2, len(edges), generator=generator, dtype=torch.float64).to(device)
    rates = (0.9 * torch.rand(graphs, generator=generator)).to(device)
    rates *= (torch.rand(graphs, generator=generator) < 0.7).to(device)
    target = target[(owner + draws[0]).argsort()]
    first = torch.minimum(source, target) * len(batch.batch) + torch.maximum(source, target)
    ordered, places = first.sort(stable=True)
    again = torch.zeros(len(edges), dtype=torch.bool, device=device)
    again[places[1:]] = ordered[1:] == ordered[:-1]
    kept = (source != target) & ~again & (draws[1] >= rates[owner])
    return torch.stack([source, target])[:, kept], edges[kept]
