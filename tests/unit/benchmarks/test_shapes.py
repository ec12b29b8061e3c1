"""Bases and motifs against networkx."""

import networkx as nx
import pytest

from mphil.benchmarks.motif import base_shape
from mphil.benchmarks.motif_graphs import CRANE, CYCLE, HOUSE, Shape, ladder, path, star, tree, wheel

WIDTHS = [*range(1, 21), *range(25, 36), *range(65, 76)]


def as_graph(shape: Shape) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(range(shape.n_nodes))
    graph.add_edges_from(shape.edges)
    assert graph.number_of_edges() == len(shape.edges), "an edge is listed twice"
    return graph


def same(shape: Shape, expected: nx.Graph) -> bool:
    """Equal node for node, not only up to renaming."""
    return nx.utils.graphs_equal(as_graph(shape), nx.Graph(expected))


@pytest.mark.parametrize("width", WIDTHS)
def test_bases_are_the_graphs_of_networkx(width):
    assert same(wheel(width), nx.wheel_graph(width))
    assert same(ladder(width), nx.ladder_graph(width))
    assert same(star(width), nx.star_graph(width))
    assert same(path(width), nx.path_graph(width))


@pytest.mark.parametrize("height", range(6))
@pytest.mark.parametrize("branching", [2, 3])
def test_trees_are_the_graphs_of_networkx(height, branching):
    assert same(tree(height, branching), nx.balanced_tree(branching, height))


@pytest.mark.parametrize("width", WIDTHS)
def test_node_and_edge_counts_of_a_width(width):
    height = next(h for h, below in enumerate((8, 16, 32, 64, 128), start=1) if width < below)
    nodes = [base_shape(kind, width).n_nodes for kind in range(5)]
    assert nodes == [width, 2 ** (height + 1) - 1, 2 * width, width + 1, width]
    edges = [len(base_shape(kind, width).edges) for kind in range(5)]
    assert edges[1:] == [nodes[1] - 1, 3 * width - 2, width, width - 1]
    assert width < 4 or edges[0] == 2 * (width - 1)


@pytest.mark.parametrize(
    ("motif", "expected"),
    [(HOUSE, nx.house_graph()), (CYCLE, nx.cycle_graph(5)), (CRANE, nx.complete_bipartite_graph(2, 3))],
)
def test_motifs_are_their_definitions(motif, expected):
    assert nx.is_isomorphic(as_graph(motif), expected)


def test_the_node_that_carries_the_bridge():
    assert set(as_graph(HOUSE)[0]) == {1, 4}
    assert nx.triangles(as_graph(HOUSE))[0] == 1
    assert set(as_graph(CRANE)[0]) == {1, 3}
    assert not as_graph(CRANE).has_edge(1, 3)


def test_where_noise_may_hang():
    assert star(6).noisy == {0}
    assert path(6).noisy == {1, 2, 3, 4}
    assert path(2).noisy == path(1).noisy == set()
    for shape in (wheel(6), tree(2), ladder(4)):
        assert shape.noisy == set(range(shape.n_nodes))
    for motif in (HOUSE, CYCLE, CRANE):
        assert not motif.noisy
