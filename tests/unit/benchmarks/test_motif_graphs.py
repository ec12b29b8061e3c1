"""Base + motif + bridge + noise, checked graph by graph with networkx and by counting."""

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.benchmarks.motif_graphs import (
    CRANE,
    CYCLE,
    HOUSE,
    Graphs,
    Shape,
    assemble,
    ladder,
    path,
    split_in_order,
    star,
    tree,
    wheel,
    with_noise,
)

BASES = (wheel(15), tree(2), tree(4), ladder(12), ladder(30), star(30), path(40), path(1), wheel(1))
MOTIFS = (HOUSE, CYCLE, CRANE)


def repeat(shape: Shape, times: int) -> Graphs:
    """Copies of one shape, as graphs without a motif."""
    return Graphs(
        node_ptr=torch.arange(times + 1) * shape.n_nodes,
        edge_ptr=torch.arange(times + 1) * len(shape.edges),
        edges=torch.tensor(shape.edges).repeat(times, 1),
        node_truth=torch.zeros(times * shape.n_nodes, dtype=torch.bool),
        edge_truth=torch.zeros(times * len(shape.edges), dtype=torch.bool),
        node_noisy=torch.tensor([v in shape.noisy for v in range(shape.n_nodes)]).repeat(times),
    )


def complete(nodes: int, *missing: tuple[int, int]) -> Shape:
    edges = tuple(edge for edge in combinations(range(nodes), 2) if edge not in missing)
    return Shape(nodes, edges, frozenset(range(nodes)))


@given(seed=st.integers(0, 2**63 - 1), copies=st.integers(1, 3))
@settings(max_examples=15, deadline=None)
def test_copies_of_a_motif_hang_on_the_base_each_by_a_bridge_of_its_own(seed, copies):
    rng = np.random.default_rng(seed)
    base, motif = rng.integers(len(BASES), size=20), rng.integers(3, size=20)
    store = assemble(rng, BASES, base, MOTIFS, motif, copies).to_store(motif, base)
    for g, graph in enumerate(store.to_pyg()):
        shape, decisive = BASES[base[g]], MOTIFS[motif[g]]
        first = shape.n_nodes
        assert graph.node_truth.tolist() == [False] * first + [True] * 5 * copies
        edges = list(map(tuple, graph.edge_index.T.tolist()))
        marked = [edge for edge, flag in zip(edges, graph.edge_truth.tolist(), strict=True) if flag]
        assert marked == [(u, v) for u, v in edges if min(u, v) >= first]
        motifs = nx.Graph(marked)
        assert sorted(map(sorted, nx.connected_components(motifs))) == [
            list(range(first + 5 * copy, first + 5 * copy + 5)) for copy in range(copies)
        ]
        assert all(
            nx.is_isomorphic(motifs.subgraph(part), nx.Graph(decisive.edges))
            for part in nx.connected_components(motifs)
        )
        planned = edges[: 2 * (len(shape.edges) + copies * (len(decisive.edges) + 1))]
        bridges = planned[-2 * copies :: 2]
        assert [u for u, _ in bridges] == [first + 5 * copy for copy in range(copies)]
        assert all(0 <= v < first for _, v in bridges)
        assert nx.is_connected(nx.Graph(edges))


def test_two_copies_may_hang_on_one_node_of_the_base():
    rng, n = np.random.default_rng(0), 4_000
    graphs = assemble(rng, [path(4)], np.zeros(n, dtype=np.int64), [CYCLE], np.zeros(n, dtype=np.int64), copies=2)
    ends = graphs.edges.view(n, -1, 2)[:, -2:, 1]
    assert (ends[:, 0] == ends[:, 1]).double().mean().item() == pytest.approx(1 / 4, abs=4 * (3 / 16 / n) ** 0.5)


@given(seed=st.integers(0, 2**63 - 1))
@settings(max_examples=15, deadline=None)
def test_every_graph_is_a_base_a_motif_a_bridge_and_allowed_noise(seed):
    rng = np.random.default_rng(seed)
    base, motif = rng.integers(len(BASES), size=30), rng.integers(3, size=30)
    store = assemble(rng, BASES, base, MOTIFS, motif).to_store(motif, base, basis_id=base)
    for g, graph in enumerate(store.to_pyg()):
        shape, decisive = BASES[base[g]], MOTIFS[motif[g]]
        first = shape.n_nodes
        assert graph.num_nodes == first + 5
        assert graph.node_truth.tolist() == [False] * first + [True] * 5

        edges = list(map(tuple, graph.edge_index.T.tolist()))
        assert len(edges) == len(set(edges)), "an edge is stored twice"
        assert set(edges) == {(v, u) for u, v in edges}
        assert all(u != v for u, v in edges)
        assert graph.edge_truth.tolist() == [u >= first and v >= first for u, v in edges]

        whole = nx.Graph(edges)
        assert len(whole) == graph.num_nodes
        assert nx.is_connected(whole)
        inside = {(u - first, v - first) for u, v in edges if min(u, v) >= first}
        assert inside == {*decisive.edges, *((v, u) for u, v in decisive.edges)}
        planned = len(shape.edges) + len(decisive.edges) + 1
        extra = whole.copy()
        extra.remove_edges_from([*shape.edges, *((first + u, first + v) for u, v in decisive.edges)])
        bridge = edges[2 * planned - 2]
        assert bridge[0] == first
        assert bridge[1] < first
        extra.remove_edge(*bridge)
        assert extra.number_of_edges() == whole.number_of_edges() - planned <= planned // 20
        assert all(u in shape.noisy or v in shape.noisy for u, v in extra.edges())


def test_bridges_are_uniform_over_the_base():
    times, nodes = 4000, 8
    base = np.zeros(times, dtype=np.int64)
    graphs = assemble(np.random.default_rng(0), [path(nodes)], base, [CYCLE], base)
    counts = graphs.edges[graphs.edge_ptr[1:] - 1, 1].bincount(minlength=nodes)
    expected = times / nodes
    assert ((counts - expected).abs() < 4 * (expected * (1 - 1 / nodes)) ** 0.5).all()


@pytest.mark.parametrize("base", [path(20), star(20), wheel(12), ladder(8)])
def test_a_noise_edge_is_a_uniform_free_pair(base):
    """One draw per graph: every allowed pair is equally likely, and draws between other nodes are spent."""
    times = 6000
    zero = np.zeros(1, dtype=np.int64)
    template = assemble(np.random.default_rng(1), [base], zero, [CYCLE], zero)
    before = len(base.edges) + 6
    shape = Shape(base.n_nodes + 5, tuple(map(tuple, template.edges[:before].tolist())), base.noisy)
    assert before // 20 == 1
    noisy = with_noise(np.random.default_rng(2), repeat(shape, times))

    counts = noisy.edge_ptr.diff() - before
    added = noisy.edges[(noisy.edge_ptr[1:] - 1)[counts == 1]].sort(1).values
    free = set(combinations(range(shape.n_nodes), 2)) - {tuple(sorted(edge)) for edge in shape.edges}
    allowed = {pair for pair in free if base.noisy & set(pair)}
    assert set(map(tuple, added.tolist())) == allowed

    chance = 1 / len(free)
    rate = len(allowed) * chance
    assert counts.double().mean() == pytest.approx(rate, abs=4 * (rate * (1 - rate) / times) ** 0.5)
    hits = np.unique(added.numpy() @ [shape.n_nodes, 1], return_counts=True)[1]
    chi_square = ((hits - times * chance) ** 2).sum() / (times * chance)
    assert chi_square == pytest.approx(len(allowed), abs=4 * (2 * len(allowed)) ** 0.5)


def test_earlier_noise_counts_as_adjacent():
    """44 edges mean two draws, but only one pair is free: it is filled once and the second draw finds nothing."""
    noisy = with_noise(np.random.default_rng(0), repeat(complete(10, (3, 7)), 50))
    assert noisy.edge_ptr.diff().tolist() == [45] * 50
    assert noisy.edges.sort(1).values.unique(dim=0).shape[0] == 45


def test_two_draws_on_two_free_pairs_fill_both():
    shape = complete(10, (3, 7), (0, 1))
    noisy = with_noise(np.random.default_rng(0), repeat(shape, 50))
    assert noisy.edge_ptr.diff().tolist() == [len(shape.edges) + 2] * 50
    assert len(set(map(tuple, noisy.edges[:45].sort(1).values.tolist()))) == 45


def test_a_complete_graph_stays_as_it_is():
    graphs = repeat(complete(8), 3)
    assert torch.equal(with_noise(np.random.default_rng(0), graphs).edges, graphs.edges)


def test_graphs_too_small_for_noise_stay_as_they_are():
    graphs = repeat(path(19), 3)
    assert torch.equal(with_noise(np.random.default_rng(0), graphs).edges, graphs.edges)


def test_noise_stands_behind_the_other_edges_of_its_own_graph():
    graphs = repeat(wheel(30), 40)
    noisy = with_noise(np.random.default_rng(0), graphs)
    starts = noisy.edge_ptr[:-1].tolist()
    n_planned = len(wheel(30).edges)
    for start in starts:
        assert noisy.edges[start : start + n_planned].tolist() == [list(edge) for edge in wheel(30).edges]
    assert noisy.edge_ptr.diff().tolist() == [n_planned + n_planned // 20] * 40
    assert len(noisy.edges) == len(noisy.edge_truth)


def test_split_in_order_allows_empty_parts():
    split = split_in_order({"train": 3, "id_val": 0, "id_test": 0, "ood_val": 2, "ood_test": 1}, {"rule": "test"})
    assert [part.tolist() for _, part in split] == [[0, 1, 2], [], [], [3, 4], [5]]
    assert split.provenance == {"rule": "test"}


def test_store_fields():
    motif = np.array([0, 2])
    store = assemble(np.random.default_rng(0), [path(4)], np.zeros(2, dtype=np.int64), MOTIFS, motif).to_store(
        motif, np.array([5, -1]), motif_id=motif
    )
    assert store.x.dtype == torch.float32
    assert torch.equal(store.x, torch.ones(18, 1))
    assert store.node_features.kind == "constant"
    assert store.edge_index.dtype == torch.int32
    assert store.y.tolist() == [[0.0], [2.0]]
    assert store.env.tolist() == [5, -1]
    assert store.index.tolist() == [0, 1]
    assert store.extras["motif_id"].tolist() == [0, 2]
    assert {store.extras[k].dtype for k in ("node_truth", "edge_truth")} == {torch.bool}
