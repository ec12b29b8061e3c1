"""Random changes of training graphs: edges that go, scrambled graphs beside them, features in other directions."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from mphil.graphs.store import GraphBatch, pointer, ranges


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


def mix_features(batch: GraphBatch, share: float, generator: torch.Generator) -> GraphBatch:
    """Multiply the node features of some of the graphs by a random matrix, one for all nodes of a graph.

    Where the same features in another direction mean the same, as ink of another colour does, a network learns to do
    without the direction. The entries of a matrix are normal with variance 1 / d, so that lengths stay as they are in
    the mean.

    Args:
        batch: graphs with real numbers as node features, which are left as they are.
        share: probability that the features of a graph are multiplied.
        generator: of all draws, on the CPU.

    Returns:
        A batch of the same graphs; everything but `x` is shared with `batch`.
    """
    graphs, columns = batch.ptr.numel() - 1, batch.x.shape[1]
    chosen = torch.rand(graphs, generator=generator) < share
    matrices = torch.randn(graphs, columns, columns, generator=generator) / columns**0.5
    matrices[~chosen] = torch.eye(columns)
    mixed = copy.copy(batch)
    mixed.x = (batch.x.unsqueeze(1) @ matrices.to(batch.x)[batch.batch]).squeeze(1)
    return mixed


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
