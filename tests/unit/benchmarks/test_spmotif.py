"""SPMotif against its rules and the mean sizes noted by its authors."""

from functools import cache

import networkx as nx
import numpy as np
import pytest
import torch

from mphil.benchmarks.catalogue import BENCHMARKS, Benchmark, benchmark
from mphil.benchmarks.motif_graphs import CRANE, assemble, tree
from mphil.benchmarks.spmotif import LARGE, SMALL, part_sizes
from mphil.errors import UsageError

BINARY = ("spmotif-binary-0.40", "spmotif-binary-0.60", "spmotif-binary-0.90")
NAMES = ("spmotif", *BINARY)
BIASED = ("train", "id_val", "id_test")
ERRORS = 4
"""How many standard errors a sampled figure may be off; all seeds are fixed, so a test passes always or never."""


@cache
def full(name: str) -> Benchmark:
    return benchmark(name)


def assert_rate(hits: torch.Tensor, rate: float) -> None:
    hits = hits.double()
    assert hits.mean().item() == pytest.approx(rate, abs=ERRORS * (rate * (1 - rate) / len(hits)) ** 0.5 + 1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_counts_and_task(name):
    bench, classes = full(name), 3 if name == "spmotif" else 2
    assert list(bench.split.sizes.values()) == [3_000 * classes, *[1_000 * classes] * 4]
    for part, rows in bench.split:
        assert bench.store.y[rows, 0].long().bincount().tolist() == [3_000 if part == "train" else 1_000] * classes
    assert bench.classes == ("cycle", "house", "crane")[:classes]
    assert bench.encoder == {"layers": 4, "width": 128}
    expected = ("multiclass", 3, "accuracy") if classes == 3 else ("binary", 1, "accuracy")
    assert (bench.task.kind, bench.task.n_outputs, bench.task.metric) == expected


@pytest.mark.parametrize(("name", "bias"), [("spmotif", 0.9), *zip(BINARY, (0.4, 0.6, 0.9), strict=True)])
def test_bases_follow_the_class_in_training_only(name, bias):
    bench = full(name)
    for part, rows in bench.split:
        partner = bias if part in BIASED else 1 / 3
        for label in range(len(bench.classes)):
            base = bench.store.extras["basis_id"][rows[bench.store.y[rows, 0] == label]]
            for family in range(3):
                assert_rate(base == family, partner if family == label else (1 - partner) / 2)


def test_bias_is_an_option():
    bench = benchmark("spmotif", bias=1.0, per_class=60)
    rows = bench.split.train
    assert torch.equal(bench.store.extras["basis_id"][rows], bench.store.extras["motif_id"][rows])
    bench = benchmark("spmotif", bias=0.0, per_class=60)
    assert (bench.store.extras["basis_id"][rows] != bench.store.extras["motif_id"][rows]).all()


@pytest.mark.parametrize("name", NAMES)
def test_labels_are_the_motif_and_environments_the_base(name):
    store = full(name).store
    assert torch.equal(store.y[:, 0].long(), store.extras["motif_id"])
    assert torch.equal(store.env, store.extras["basis_id"])


@pytest.mark.parametrize("name", NAMES)
def test_base_sizes_of_each_part(name):
    bench = full(name)
    small = ({1, 3, 4, 7, 13}, set(range(16, 23, 2)), set(range(15, 20)))
    large = ({15, 31, 63, 40, 121, 364}, set(range(60, 99, 2)), set(range(60, 80)))
    for part, rows in bench.split:
        for family, expected in enumerate(large if part == "ood_test" else small):
            nodes = bench.store.n_nodes[rows[bench.store.extras["basis_id"][rows] == family]] - 5
            assert set(nodes.tolist()) == expected


@pytest.mark.parametrize("label", [0, 1])
def test_tree_sizes_do_not_depend_on_the_class(label):
    """Heights 0, 1, 2 and branching 2, 3 are equally likely for every class, so size tells no more than the base."""
    bench = full("spmotif-binary-0.40")
    rows = bench.split.train[bench.store.y[bench.split.train, 0] == label]
    nodes = bench.store.n_nodes[rows[bench.store.extras["basis_id"][rows] == 0]] - 5
    for size, chance in ((1, 2 / 6), (3, 1 / 6), (4, 1 / 6), (7, 1 / 6), (13, 1 / 6)):
        assert_rate(nodes == size, chance)


CHECK_FIGURES = [  # shapes, mean nodes, mean undirected edges of an independent generator, one crane, 5 % noise
    ((tree(3, 2), tree(3, 3)), 33.1, 35.6),
    (SMALL[1], 23.95, 34.42),
    (SMALL[2], 21.96, 40.28),
    (LARGE[0], 110.8, 117.0),
    (LARGE[1], 83.9, 129.1),
    (LARGE[2], 74.5, 150.7),
]


@pytest.mark.parametrize(("shapes", "nodes", "edges"), CHECK_FIGURES)
def test_check_figures(shapes, nodes, edges):
    """Two samples of one distribution; the size of the reference sample is taken as 1,000."""
    rng, n = np.random.default_rng(0), 4_000
    graphs = assemble(rng, shapes, rng.integers(len(shapes), size=n), [CRANE], np.zeros(n, dtype=np.int64))
    for counts, reference in ((graphs.node_ptr.diff(), nodes), (graphs.edge_ptr.diff(), edges)):
        error = counts.double().std().item() * (1 / n + 1 / 1_000) ** 0.5
        assert counts.double().mean().item() == pytest.approx(reference, abs=ERRORS * error + 0.05)


@pytest.mark.parametrize("name", NAMES)
def test_graphs_are_simple_symmetric_connected_and_hold_their_motif(name):
    bench = benchmark(name, per_class=12, seed=5)
    motifs = (nx.cycle_graph(5), nx.house_graph(), nx.complete_bipartite_graph(2, 3))
    for graph in bench.store.to_pyg():
        edges = list(map(tuple, graph.edge_index.T.tolist()))
        assert len(edges) == len(set(edges))
        assert set(edges) == {(v, u) for u, v in edges}
        assert all(u != v for u, v in edges)
        whole = nx.Graph(edges)
        assert len(whole) == graph.num_nodes
        assert nx.is_connected(whole)
        decisive = graph.node_truth.nonzero()[:, 0].tolist()
        assert decisive == list(range(graph.num_nodes - 5, graph.num_nodes))
        assert nx.is_isomorphic(whole.subgraph(decisive), motifs[int(graph.y)])
        assert graph.edge_truth.tolist() == [{u, v} <= set(decisive) for u, v in edges]


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_is_a_function_of_its_arguments(name):
    one, two, other = (benchmark(name, per_class=9, seed=seed) for seed in (7, 7, 8))
    assert one.store.digest() == two.store.digest()
    assert one.split.digest() == two.split.digest()
    assert one.store.digest() != other.store.digest()
    assert one.split.digest() != other.split.digest()


@pytest.mark.parametrize(
    ("name", "digest"), [("spmotif", "d4c70a2c58b84236"), ("spmotif-binary-0.40", "9426778fef7bb9ad")]
)
def test_the_data_of_a_seed_stay_what_they_were(name, digest):
    """A change here makes all earlier results on the benchmark incomparable: it belongs in the changelog."""
    assert benchmark(name, per_class=30).store.digest()[:16] == digest


def test_small_sizes_keep_the_proportions():
    assert list(part_sizes(3, 30).values()) == [90, 30, 30, 30, 30]
    assert list(part_sizes(2, 5).values()) == [10, 2, 2, 2, 2]


@pytest.mark.parametrize(("args", "message"), [({"per_class": 2}, "at least 3"), ({"bias": 1.5}, "between 0 and 1")])
def test_impossible_options_are_refused(args, message):
    with pytest.raises(UsageError, match=message):
        benchmark("spmotif", **args)


def test_what_is_ours_is_called_ours():
    assert BENCHMARKS["spmotif"].options == {"bias": 0.9, "seed": 0, "per_class": 3_000}
    for name in BINARY:
        entry = BENCHMARKS[name]
        assert entry.options == {"seed": 0, "per_class": 3_000}
        assert "our own definition" in entry.summary
        assert "OUR definition" in entry.differs
