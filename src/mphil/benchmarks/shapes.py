"""The parts generated graphs are put together from: bases, which mislead, and motifs, which decide the label."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise


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
