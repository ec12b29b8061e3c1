"""SPMotif with several motifs in every graph, against its rules."""

from functools import cache

import networkx as nx
import pytest
import torch

from mphil.benchmarks.catalogue import BENCHMARKS, Benchmark, benchmark
from mphil.errors import UsageError

BIASES = {"spmotif-copies-0.40": 0.4, "spmotif-copies-0.60": 0.6, "spmotif-copies-0.90": 0.9}
BIASED = ("train", "id_val", "id_test")
ERRORS = 4
"""How many standard errors a sampled figure may be off; all seeds are fixed, so a test passes always or never."""
MOTIFS = (nx.cycle_graph(5), nx.house_graph(), nx.complete_bipartite_graph(2, 3))


@cache
def full(name: str) -> Benchmark:
    return benchmark(name)


@pytest.mark.parametrize("name", BIASES)
def test_counts_task_labels_and_features(name):
    bench = full(name)
    assert list(bench.split.sizes.values()) == [9_000, *[3_000] * 4]
    for part, rows in bench.split:
        assert bench.store.y[rows, 0].long().bincount().tolist() == [3_000 if part == "train" else 1_000] * 3
    assert bench.classes == ("cycle", "house", "crane")
    assert (bench.task.kind, bench.task.n_outputs, bench.task.metric) == ("multiclass", 3, "accuracy")
    assert torch.equal(bench.store.y[:, 0].long(), bench.store.extras["motif_id"])
    assert torch.equal(bench.store.env, bench.store.extras["basis_id"])
    assert bench.store.node_features.kind == "constant"
    assert bench.store.x.eq(1).all()


@pytest.mark.parametrize(("name", "bias"), BIASES.items())
def test_bases_follow_the_class_in_training_only(name, bias):
    bench = full(name)
    for part, rows in bench.split:
        partner = bias if part in BIASED else 1 / 3
        for label in range(3):
            base = bench.store.extras["basis_id"][rows[bench.store.y[rows, 0] == label]]
            for family in range(3):
                rate = partner if family == label else (1 - partner) / 2
                share = (base == family).double().mean().item()
                assert share == pytest.approx(rate, abs=ERRORS * (rate * (1 - rate) / len(base)) ** 0.5)


@pytest.mark.parametrize("name", BIASES)
def test_base_sizes_of_each_part(name):
    """Small trees have height 3, for every class: their size says nothing about the label."""
    bench = full(name)
    small = ({15, 40}, set(range(16, 23, 2)), set(range(15, 20)))
    large = ({15, 31, 63, 40, 121, 364}, set(range(60, 99, 2)), set(range(60, 80)))
    for part, rows in bench.split:
        for label in range(3):
            for family, expected in enumerate(large if part == "ood_test" else small):
                chosen = (bench.store.extras["basis_id"][rows] == family) & (bench.store.y[rows, 0] == label)
                assert set((bench.store.n_nodes[rows[chosen]] - 10).tolist()) == expected


@pytest.mark.parametrize("name", BIASES)
def test_one_edge_in_twenty_is_added_as_noise_unless_it_would_join_two_motifs(name):
    """10 nodes are those of motifs, so the share of free pairs without a base node, which are not added, is known."""
    bench = full(name)
    rows = bench.split.train[:300].tolist()
    added, expected = 0, 0.0
    base_edges = {0: lambda n: n - 1, 1: lambda n: 3 * n // 2 - 2, 2: lambda n: 2 * (n - 1)}
    for row in rows:
        nodes, edges = int(bench.store.n_nodes[row]), int(bench.store.edge_ptr[row : row + 2].diff()) // 2
        motif_edges = (5, 6, 6)[int(bench.store.y[row])]
        planned = base_edges[int(bench.store.extras["basis_id"][row])](nodes - 10) + 2 * motif_edges + 2
        free = nodes * (nodes - 1) // 2 - planned
        assert edges - planned <= planned // 20
        added += edges - planned
        expected += planned // 20 * (1 - (45 - 2 * motif_edges) / free)
    assert added == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_graphs_are_simple_connected_and_hold_copies_of_their_motif(copies):
    bench = benchmark("spmotif-copies-0.60", per_class=12, seed=5, copies=copies)
    for graph in bench.store.to_pyg():
        edges = list(map(tuple, graph.edge_index.T.tolist()))
        assert len(edges) == len(set(edges))
        assert set(edges) == {(v, u) for u, v in edges}
        assert all(u != v for u, v in edges)
        whole = nx.Graph(edges)
        assert len(whole) == graph.num_nodes
        assert nx.is_connected(whole)
        decisive = graph.node_truth.nonzero()[:, 0].tolist()
        assert decisive == list(range(graph.num_nodes - 5 * copies, graph.num_nodes))
        parts = list(nx.connected_components(whole.subgraph(decisive)))
        assert len(parts) == copies
        assert all(nx.is_isomorphic(whole.subgraph(part), MOTIFS[int(graph.y)]) for part in parts)
        assert graph.edge_truth.tolist() == [{u, v} <= set(decisive) for u, v in edges]


@pytest.mark.parametrize("name", BIASES)
def test_a_benchmark_is_a_function_of_its_arguments(name):
    one, two, other, more = (
        benchmark(name, per_class=9, **given)
        for given in ({"seed": 7}, {"seed": 7}, {"seed": 8}, {"seed": 7, "copies": 3})
    )
    assert one.store.digest() == two.store.digest()
    assert one.split.digest() == two.split.digest()
    assert len({one.store.digest(), other.store.digest(), more.store.digest()}) == 3
    assert len({one.split.digest(), other.split.digest(), more.split.digest()}) == 3


def test_the_data_of_a_seed_stay_what_they_were():
    """A change here makes all earlier results on the benchmark incomparable: it belongs in the changelog."""
    assert benchmark("spmotif-copies-0.40", per_class=30).store.digest()[:16] == "7977cbc052dc488d"


@pytest.mark.parametrize(("args", "message"), [({"per_class": 2}, "at least 3"), ({"copies": 0}, "at least 1, not 0")])
def test_impossible_options_are_refused(args, message):
    with pytest.raises(UsageError, match=message):
        benchmark("spmotif-copies-0.60", **args)


def test_it_says_what_it_is():
    for name in BIASES:
        entry = BENCHMARKS[name]
        assert entry.options == {"seed": 0, "per_class": 3_000, "copies": 2}
        assert "another reading of SPMotif-binary" in entry.differs
