"""New graphs from the parts of two: one keeps what decides its label and gets the surroundings of another."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from mphil.graphs.store import Batch
from mphil.nn.masks import group_sizes, subgraph
from mphil.nn.scorers import edge_graph
from mphil.task import Task


def random_partners(y: Tensor, task: Task) -> Tensor:
    """For every graph, another of the batch to take surroundings from.

    It is one of the next class present; any other graph where there is no such class: for a multi-task problem, a
    missing label, or a batch of one class.

    Args:
        y: (B, T) labels, NaN = missing.
        task: what they are labels of.

    Returns:
        (B,) positions in the batch; a graph that is alone is its own partner.
    """
    n = len(y)
    allowed = torch.zeros(n, n, dtype=torch.bool, device=y.device)
    if task.kind != "multitask":
        label = y[:, 0]
        following = torch.where(label > label.unsqueeze(1), label, torch.inf).amin(1)
        lowest = torch.where(label.isnan(), torch.inf, label).amin()
        following = torch.where(following.isinf(), lowest, following)
        allowed = (label == following.unsqueeze(1)) & ((following != label) & ~label.isnan()).unsqueeze(1)
    others = ~torch.eye(n, dtype=torch.bool, device=y.device)
    allowed = torch.where(allowed.any(1, keepdim=True), allowed, others)
    return torch.rand(n, n, device=y.device).masked_fill(~allowed, -1.0).argmax(1)


def graft(batch: Batch, kept: Tensor, partner: Tensor, bridges: int = 2) -> tuple[Batch, Tensor]:
    """Join the kept part of every graph with the rest of its partner by a few random edges.

    Graph i of the result keeps the label of graph i. Its nodes are those of the kept part, then those of the rest. A
    bridge joins a random node of either side, in both directions, and carries the features of a random edge; where a
    side is empty there are none.

    Args:
        batch: the graphs.
        kept: (n_edges,) bool, which edges decide.
        partner: (n_graphs,) whose rest each graph gets.
        bridges: edges between the two sides.

    Returns:
        The new graphs, and for each of their edges where it was in `batch`, -1 for a bridge.
    """
    n_graphs = partner.numel()
    own, own_nodes = subgraph(batch, kept)
    rest, rest_nodes = subgraph(batch, ~kept)
    taken, edges, edge_index = _repeat(rest, partner)

    owner = torch.cat([own.batch, _owners(rest.ptr, partner)])
    order = owner.argsort(stable=True)
    number = torch.empty_like(order)
    number[order] = torch.arange(order.numel(), device=order.device)
    nodes = torch.cat([own_nodes, rest_nodes[taken]])[order]
    ends, templates = _bridges(own.ptr.diff(), rest.ptr.diff()[partner], batch, bridges)

    inside = torch.cat([own.edge_index, edge_index + own_nodes.numel()], dim=1)
    ptr = torch.cat([batch.ptr.new_zeros(1), group_sizes(owner, n_graphs).cumsum(0)])
    source = torch.cat([kept.nonzero().squeeze(1), (~kept).nonzero().squeeze(1)[edges]])
    mixed = copy.copy(batch)
    mixed.x, mixed.batch, mixed.ptr = batch.x[nodes], owner[order], ptr
    mixed.edge_index = torch.cat([number[inside], ends], dim=1)
    if batch.edge_attr is not None:
        mixed.edge_attr = batch.edge_attr[torch.cat([source, templates])]
    return mixed, torch.cat([source, torch.full_like(templates, -1)])


def _repeat(batch: Batch, graphs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Graphs of a batch, any number of times each: positions of their nodes and edges, and the renumbered edges."""
    nodes, first = _members(batch.ptr, graphs)
    owner = edge_graph(batch)
    by_graph = owner.argsort(stable=True)
    edge_ptr = torch.cat([batch.ptr.new_zeros(1), group_sizes(owner, batch.ptr.numel() - 1).cumsum(0)])
    places, _ = _members(edge_ptr, graphs)
    edges = by_graph[places]
    shift = (first - batch.ptr[graphs]).repeat_interleave(edge_ptr.diff()[graphs])
    return nodes, edges, batch.edge_index[:, edges] + shift


def _members(ptr: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
    """Positions of the members of some groups, one group after the other, and where each begins in that row."""
    counts = ptr.diff()[groups]
    first = counts.cumsum(0) - counts
    offset = (ptr[groups] - first).repeat_interleave(counts)
    return torch.arange(offset.numel(), device=ptr.device) + offset, first


def _owners(ptr: Tensor, groups: Tensor) -> Tensor:
    """For members in the order of `_members`, the place of their group."""
    return torch.arange(groups.numel(), device=ptr.device).repeat_interleave(ptr.diff()[groups])


def _bridges(n_own: Tensor, n_rest: Tensor, batch: Batch, count: int) -> tuple[Tensor, Tensor]:
    """Random edges between the two sides of each new graph, both directions, and the edges whose features they copy."""
    sizes = n_own + n_rest
    start = sizes.cumsum(0) - sizes
    possible = (n_own > 0) & (n_rest > 0)
    if batch.edge_index.shape[1] == 0:
        possible = torch.zeros_like(possible)
    graph = possible.nonzero().squeeze(1).repeat_interleave(count)
    here, there = torch.rand(2, graph.numel(), dtype=torch.float64, device=graph.device)
    u = start[graph] + (here * n_own[graph]).long()
    v = start[graph] + n_own[graph] + (there * n_rest[graph]).long()
    template = torch.randint(max(1, batch.edge_index.shape[1]), (graph.numel(),), device=graph.device)
    return torch.cat([torch.stack([u, v]), torch.stack([v, u])], dim=1), template.repeat(2)
