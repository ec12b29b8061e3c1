"""What a prediction loses without the surroundings of a node: copies of graphs in which they are hidden."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softshrink

from mphil.graphs.store import Batch, GraphBatch, pointer, ranges
from mphil.nn.readout import readout

MOST_ROWS = 2**15
"""Nodes in the copies that are made at once, unless a single copy has more."""

EQUAL = 1e-4
"""Falls of a logit up to this are rounding."""


class Copies(NamedTuple):
    """Copies of graphs, each with one of its nodes and the neighbours of that node hidden.

    Attributes:
        batch: the copies side by side: their nodes, edges and what these carry, nothing that belongs to a whole graph.
        graph: (n_copies,) the graph in the original batch that each is a copy of.
        node: (n_rows,) the node in the original batch that each row is a copy of.
        edge: (n_edges,) the same of edges.
        hidden: (n_rows,) bool, the node and its neighbours.
        near: (n_rows,) bool, these and their neighbours.
    """

    batch: Batch
    graph: Tensor
    node: Tensor
    edge: Tensor
    hidden: Tensor
    near: Tensor

    def blank(self, rows: Tensor) -> Tensor:
        """(n_rows, d) input of the copies, from that of the batch: hidden nodes get the mean of their graph."""
        rows = rows[self.node]
        mean = readout(rows, self.batch.ptr)[self.batch.batch]
        return torch.where(self.hidden.unsqueeze(1), mean, rows)

    def silence(self, values: Tensor) -> Tensor:
        """(n_rows, d) values in the copies: nodes that are near get the least of their graph."""
        least = -readout(-values, self.batch.ptr, "max")[self.batch.batch]
        return torch.where(self.near.unsqueeze(1), least, values)


def occlusion(batch: Batch, fall: Callable[[Copies], Tensor]) -> Tensor:
    r"""(n_nodes,) what hiding a node costs: the mean over the neighbourhoods that it is hidden with.

    .. math:: c_v = \operatorname{mean}_{u \in N[v]}\, \big( f(G) - f(G \setminus N[u]) \big), \qquad
              N[v] = \{v\} \cup \{\text{neighbours of } v\}

    Hiding a single node tells little: its neighbours have seen it. Falls are moved towards 0 by `EQUAL`, so that
    rounding tells no nodes apart.

    Args:
        batch: graphs, one after the other, with both directions of every edge.
        fall: from copies to (n_copies,) how much lower f is there than for the whole graph.
    """
    sums = times = torch.zeros(len(batch.batch), device=batch.batch.device)
    for copies in hide_each(batch):
        costs = softshrink(fall(copies), EQUAL)
        node, copy = copies.node[copies.hidden], copies.batch.batch[copies.hidden]
        sums = sums.to(costs.dtype).index_add(0, node, costs[copy])
        times = times.index_add(0, node, times.new_ones(len(node)))
    return sums / times


def hide_each(batch: Batch, most: int = MOST_ROWS) -> Iterator[Copies]:
    """A copy of its graph for every node, in which it is hidden; some copies at a time.

    Args:
        batch: graphs, one after the other.
        most: nodes in the copies that are made at once, unless a single copy has more.
    """
    edge_ptr = pointer(torch.bincount(batch.batch[batch.edge_index[0]], minlength=batch.ptr.numel() - 1))
    rows = batch.ptr.diff()[batch.batch].cumsum(0)
    _, portions = torch.unique_consecutive((rows - 1) // most, return_counts=True)
    for centres in torch.split(torch.arange(len(rows), device=rows.device), portions.tolist()):
        yield _copies(batch, centres, edge_ptr)


def _copies(batch: Batch, centres: Tensor, edge_ptr: Tensor) -> Copies:
    graph = batch.batch[centres]
    node, counts = ranges(batch.ptr, graph)
    edge, edge_counts = ranges(edge_ptr, graph)
    ptr = pointer(counts)
    moved = ptr[:-1] - batch.ptr[graph]
    edge_index = batch.edge_index[:, edge] + moved.repeat_interleave(edge_counts)
    centre = torch.zeros_like(node, dtype=torch.bool)
    centre[centres + moved] = True
    hidden = widened(centre, edge_index)
    copies = GraphBatch(
        x=batch.x[node],
        edge_index=edge_index,
        edge_attr=None if batch.edge_attr is None else batch.edge_attr[edge],
        batch=torch.arange(len(centres), device=graph.device).repeat_interleave(counts),
        ptr=ptr,
    )
    return Copies(copies, graph, node, edge, hidden, widened(hidden, edge_index))


def widened(nodes: Tensor, edge_index: Tensor) -> Tensor:
    """(n_nodes,) bool: some nodes and their neighbours.

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> widened(torch.tensor([True, False, False]), path).tolist()
        [True, True, False]
    """
    source, target = edge_index
    wide = nodes.clone()
    wide[target[nodes[source]]] = True
    return wide
