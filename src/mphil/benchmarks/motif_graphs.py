"""Many graphs at once: each is a base, one or more copies of a motif, a bridge to each and a few noise edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mphil.graphs.features import Features
from mphil.graphs.split import PARTS, Part, Split
from mphil.graphs.store import GraphStore, pointer, ranges


@dataclass(frozen=True)
class Shape:
    """A small undirected graph on the nodes 0, 1, ...

    Attributes:
        n_nodes: number of nodes.
        edges: pairs of nodes, each pair once.
        noisy: nodes a noise edge may hang on ("role 0"); a noise edge has at least one such end.
    """

    n_nodes: int
    edges: tuple[tuple[int, int], ...]
    noisy: frozenset[int] = frozenset()


def wheel(nodes: int) -> Shape:
    """Hub 0 joined to a rim of `nodes - 1` nodes; 3 nodes make a triangle, 1 node stands alone.

    Example:
        >>> len(wheel(6).edges)
        10
    """
    rim = range(1, nodes)
    closing = [(nodes - 1, 1)] if len(rim) > 2 else []
    return Shape(nodes, (*((0, i) for i in rim), *pairwise(rim), *closing), frozenset(range(nodes)))


def tree(height: int, branching: int = 2) -> Shape:
    """Balanced tree with root 0; height 0 is the root alone."""
    nodes = sum(branching**level for level in range(height + 1))
    return Shape(nodes, tuple(((i - 1) // branching, i) for i in range(1, nodes)), frozenset(range(nodes)))


def ladder(rungs: int) -> Shape:
    """Two paths of `rungs` nodes, joined node by node."""
    left, right = range(rungs), range(rungs, 2 * rungs)
    edges = (*pairwise(left), *pairwise(right), *zip(left, right, strict=True))
    return Shape(2 * rungs, edges, frozenset(range(2 * rungs)))


def star(leaves: int) -> Shape:
    """Hub 0 with leaves; noise hangs on the hub only."""
    return Shape(leaves + 1, tuple((0, i) for i in range(1, leaves + 1)), frozenset({0}))


def path(nodes: int) -> Shape:
    """A row of nodes; noise hangs on the inner ones only."""
    return Shape(nodes, tuple(pairwise(range(nodes))), frozenset(range(1, nodes - 1)))


_SQUARE = ((1, 2), (2, 3), (3, 4), (4, 1))

HOUSE = Shape(5, (*_SQUARE, (0, 1), (0, 4)))
"""A square whose roof, node 0, rests on neighbouring corners: one triangle."""

CYCLE = Shape(5, ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0)))
"""Five nodes in a ring."""

CRANE = Shape(5, (*_SQUARE, (0, 1), (0, 3)))
"""A square whose node 0 is joined to opposite corners: the complete bipartite graph on 2 and 3 nodes, no triangle."""


IntArray = npt.NDArray[np.int64]

EDGES_PER_NOISE_DRAW = 20
"""One noise edge is drawn for every 20 edges of a graph, that is floor(5 %)."""


@dataclass(frozen=True, eq=False)
class Graphs:
    """Undirected graphs laid end to end; nodes are counted inside each graph.

    Attributes:
        node_ptr: (n_graphs + 1,) where the nodes of each graph begin.
        edge_ptr: (n_graphs + 1,) where its edges begin.
        edges: (n_edges, 2) ends of every edge, each edge once.
        node_truth: (n_nodes,) whether the node belongs to a motif.
        edge_truth: (n_edges,) whether both ends belong to a motif.
        node_noisy: (n_nodes,) whether noise edges may hang on the node.
    """

    node_ptr: Tensor
    edge_ptr: Tensor
    edges: Tensor
    node_truth: Tensor
    edge_truth: Tensor
    node_noisy: Tensor

    def take(self, items: Tensor) -> Graphs:
        """The graphs at these positions, repetitions included."""
        nodes, node_counts = ranges(self.node_ptr, items)
        edges, edge_counts = ranges(self.edge_ptr, items)
        return Graphs(
            pointer(node_counts),
            pointer(edge_counts),
            self.edges[edges],
            self.node_truth[nodes],
            self.edge_truth[edges],
            self.node_noisy[nodes],
        )

    def to_store(self, y: IntArray, env: IntArray, **extras: IntArray) -> GraphStore:
        """A store with constant node features and every edge in both directions, one after the other."""
        both_ways = torch.stack([self.edges, self.edges.flip(1)], dim=1).flatten(0, 1)
        truth = {"node_truth": self.node_truth, "edge_truth": self.edge_truth.repeat_interleave(2)}
        return GraphStore(
            x=torch.ones(len(self.node_truth), 1),
            edge_index=both_ways.T.int().contiguous(),
            node_ptr=self.node_ptr,
            edge_ptr=2 * self.edge_ptr,
            y=torch.tensor(y, dtype=torch.float32).unsqueeze(1),
            env=torch.tensor(env),
            index=torch.arange(len(y)),
            node_features=Features.constant(),
            extras=truth | {name: torch.tensor(values) for name, values in extras.items()},
        )


def split_in_order(sizes: Mapping[Part, int], provenance: Mapping[str, Any]) -> Split:
    """The split of a store that holds its parts one after the other."""
    bounds = pointer(torch.tensor([sizes[part] for part in PARTS])).tolist()
    train, id_val, id_test, ood_val, ood_test = (torch.arange(*span) for span in pairwise(bounds))
    return Split(train, id_val, id_test, ood_val, ood_test, provenance)


def assemble(
    rng: np.random.Generator,
    bases: Sequence[Shape],
    base: IntArray,
    motifs: Sequence[Shape],
    motif: IntArray,
    copies: int = 1,
) -> Graphs:
    """Build one graph per row: base nodes first, then the motif, whose node 0 is bridged to a uniform base node.

    Copies of the motif follow one another; each has a bridge of its own, and two may lead to the same base node.

    Args:
        rng: source of the bridges and the noise edges.
        bases: catalogue of bases.
        base: (n_graphs,) which base each graph gets.
        motifs: catalogue of motifs.
        motif: (n_graphs,) which motif each graph gets.
        copies: how many of it each graph gets.
    """
    pairs = [(b, m) for b in bases for m in motifs]
    graphs = _templates(pairs, copies).take(torch.from_numpy(base * len(motifs) + motif))
    base_nodes = np.array([b.n_nodes for b in bases])[base].repeat(copies)
    bridges = (graphs.edge_ptr[1:, None] + torch.arange(-copies, 0)).flatten()
    graphs.edges[bridges, 1] = torch.from_numpy(rng.integers(base_nodes))
    return with_noise(rng, graphs)


def _templates(pairs: Sequence[tuple[Shape, Shape]], copies: int) -> Graphs:
    """One graph per (base, motif); its last edges are the bridges, from motif nodes 0 to base node 0 for now."""
    edges: list[tuple[int, int]] = []
    for base, motif in pairs:
        firsts = [base.n_nodes + copy * motif.n_nodes for copy in range(copies)]
        edges += base.edges
        edges += [(first + u, first + v) for first in firsts for u, v in motif.edges]
        edges += [(first, 0) for first in firsts]
    nodes = [(b.n_nodes, copies * m.n_nodes) for b, m in pairs]
    lengths = [(len(b.edges), copies * len(m.edges), copies) for b, m in pairs]
    return Graphs(
        node_ptr=pointer(torch.tensor([sum(counts) for counts in nodes])),
        edge_ptr=pointer(torch.tensor([sum(counts) for counts in lengths])),
        edges=torch.tensor(edges),
        node_truth=_flags([False, True], nodes),
        edge_truth=_flags([False, True, False], lengths),
        node_noisy=torch.tensor(
            [v in b.noisy for (b, _), counts in zip(pairs, nodes, strict=True) for v in range(sum(counts))]
        ),
    )


def _flags(flags: Sequence[bool], counts: Sequence[tuple[int, ...]]) -> Tensor:
    """For every graph, each flag as often as its count says."""
    return torch.tensor(flags).repeat(len(counts)).repeat_interleave(torch.tensor(counts).flatten())


def with_noise(rng: np.random.Generator, graphs: Graphs) -> Graphs:
    """Add noise edges: floor(5 %) draws for each graph, one after the other.

    A draw picks an ordered pair of different, non-adjacent nodes uniformly; earlier noise edges count as adjacent. The
    edge is added when an end is a noisy node, otherwise the draw is spent.
    """
    draws = graphs.edge_ptr.diff() // EDGES_PER_NOISE_DRAW
    drawn = draws.nonzero().squeeze(1)
    draws = draws[drawn]
    part = graphs.take(drawn)
    nodes = part.node_ptr.diff()
    start = pointer(nodes**2)
    taken = _adjacency(part, start)
    free = nodes**2 - nodes - 2 * part.edge_ptr.diff()
    owner, added = [torch.empty(0, dtype=torch.long)], [torch.empty(0, 2, dtype=torch.long)]
    for draw in range(int(draws.max()) if len(draws) else 0):
        live = ((draws > draw) & (free > 0)).nonzero().squeeze(1)
        cell = _draw_free(rng, taken, start[live], nodes[live])
        ends = torch.stack([cell // nodes[live], cell % nodes[live]], dim=1)
        accepted = part.node_noisy[part.node_ptr[live, None] + ends].any(1)
        live, ends = live[accepted], ends[accepted]
        for u, v in (ends.T, ends.flip(1).T):
            taken[start[live] + u * nodes[live] + v] = True
        free[live] -= 2
        owner.append(drawn[live])
        added.append(ends)
    return _append(graphs, torch.cat(owner), torch.cat(added))


def _adjacency(graphs: Graphs, start: Tensor) -> Tensor:
    """One flat nodes x nodes table per graph, beginning at `start`: whether a pair is an edge or one node twice."""
    nodes, edges = graphs.node_ptr.diff(), graphs.edge_ptr.diff()
    taken = torch.zeros(int(start[-1]), dtype=torch.bool)
    row = nodes.repeat_interleave(edges)
    corner = start[:-1].repeat_interleave(edges)
    for u, v in (graphs.edges.T, graphs.edges.flip(1).T):
        taken[corner + u * row + v] = True
    diagonal = ranges(graphs.node_ptr, torch.arange(len(nodes)))[0] - graphs.node_ptr[:-1].repeat_interleave(nodes)
    taken[start[:-1].repeat_interleave(nodes) + diagonal * (nodes + 1).repeat_interleave(nodes)] = True
    return taken


def _draw_free(rng: np.random.Generator, taken: Tensor, start: Tensor, nodes: Tensor) -> Tensor:
    """A uniform free cell of each table, counted from the table's start."""
    sides = nodes.numpy()
    cell = torch.from_numpy(rng.integers(sides**2))
    while len(again := taken[start + cell].nonzero().squeeze(1)):
        cell[again] = torch.from_numpy(rng.integers(sides[again.numpy()] ** 2))
    return cell


def _append(graphs: Graphs, owner: Tensor, added: Tensor) -> Graphs:
    """Put each added edge behind the other edges of the graph that owns it."""
    counts = graphs.edge_ptr.diff()
    n_graphs = len(counts)
    everyone = torch.cat([torch.arange(n_graphs).repeat_interleave(counts), owner])
    order = everyone.argsort(stable=True)
    return replace(
        graphs,
        edge_ptr=pointer(counts + owner.bincount(minlength=n_graphs)),
        edges=torch.cat([graphs.edges, added])[order],
        edge_truth=torch.cat([graphs.edge_truth, torch.zeros(len(owner), dtype=torch.bool)])[order],
    )
