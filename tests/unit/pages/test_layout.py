from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.pages import samples as module
from mphil.pages.samples import layout, path_lengths, stress


def edges_of(graph: nx.Graph) -> np.ndarray:
    return np.array(graph.edges, dtype=np.int64).reshape(-1, 2)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.floats(0, 0.5), st.integers(0, 1000))
def test_path_lengths_agree_with_networkx(n, p, seed):
    graph = nx.gnp_random_graph(n, p, seed=seed)
    expected = np.full((n, n), np.inf)
    for a, row in nx.all_pairs_shortest_path_length(graph):
        for b, length in row.items():
            expected[a, b] = length
    np.testing.assert_array_equal(path_lengths(n, edges_of(graph)), expected)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 40), st.floats(0, 0.3), st.integers(0, 1000))
def test_nodes_have_finite_places_of_their_own(n, p, seed):
    places = layout(n, edges_of(nx.gnp_random_graph(n, p, seed=seed)))
    assert places.shape == (n, 2)
    assert np.isfinite(places).all()
    apart = np.linalg.norm(places[:, None] - places[None], axis=2) + np.eye(n)
    assert n == 0 or apart.min() > 0.01


@pytest.mark.parametrize(
    ("graph", "tolerance"),
    [(nx.path_graph(12), 0.01), (nx.cycle_graph(12), 0.2), (nx.grid_2d_graph(5, 5), 0.35), (nx.star_graph(7), 0.3)],
    ids=["path", "cycle", "grid", "star"],
)
def test_edges_are_about_one_long(graph, tolerance):
    graph = nx.convert_node_labels_to_integers(graph)
    places = layout(len(graph), edges_of(graph))
    lengths = [np.linalg.norm(places[a] - places[b]) for a, b in graph.edges]
    np.testing.assert_allclose(lengths, 1, atol=tolerance)


def test_stress_is_what_it_says():
    places = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    distance = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]])
    assert stress(places, distance) == pytest.approx((np.sqrt(2) / 2 - 1) ** 2)


def test_more_rounds_never_raise_the_stress(monkeypatch):
    graph = nx.barabasi_albert_graph(30, 2, seed=3)
    distance = path_lengths(30, edges_of(graph))
    seen = []
    for rounds in (0, 1, 2, 5, 20, 60):
        monkeypatch.setattr(module, "ROUNDS", rounds)
        end = module._descend(module._circle(distance), distance, module._inverse(distance))
        seen.append(stress(end, distance))
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] < 0.5 * seen[0]


def test_components_do_not_overlap():
    graph = nx.disjoint_union_all([nx.cycle_graph(9), nx.path_graph(6), nx.house_graph(), nx.empty_graph(3)])
    places = layout(len(graph), edges_of(graph))
    boxes = [(places[sorted(part)].min(0), places[sorted(part)].max(0)) for part in nx.connected_components(graph)]
    for i, (low, high) in enumerate(boxes):
        for other_low, other_high in boxes[i + 1 :]:
            assert (high < other_low).any() or (other_high < low).any()


def test_the_same_graph_lies_the_same_way():
    edges = edges_of(nx.barabasi_albert_graph(60, 1, seed=0))
    np.testing.assert_array_equal(layout(60, edges), layout(60, edges[::-1, ::-1]))


def crossing(places: np.ndarray, first: tuple[int, int], second: tuple[int, int]) -> bool:
    def side(a: int, b: int, c: int) -> bool:
        (x, y), (u, v) = places[b] - places[a], places[c] - places[a]
        return x * v - y * u > 0

    (a, b), (c, d) = first, second
    return side(a, b, c) != side(a, b, d) and side(c, d, a) != side(c, d, b)


@pytest.mark.parametrize("base", [nx.ladder_graph(7), nx.balanced_tree(2, 3), nx.path_graph(11)], ids=str)
@pytest.mark.parametrize("motif", [nx.cycle_graph(5), nx.house_graph()], ids=["cycle", "house"])
def test_a_motif_on_a_base_is_not_folded(base, motif):
    graph = nx.disjoint_union(base, motif)
    graph.add_edge(0, len(base))
    places = layout(len(graph), edges_of(graph))
    pairs = [(e, f) for e in graph.edges for f in graph.edges if e < f and not set(e) & set(f)]
    assert not [pair for pair in pairs if crossing(places, *pair)]
