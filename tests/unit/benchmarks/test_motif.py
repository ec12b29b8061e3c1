"""GOOD-Motif against the published rules and the figures of an independent generator."""

from functools import cache

import networkx as nx
import pytest
import torch

from mphil.benchmarks.catalogue import BENCHMARKS, Benchmark, benchmark
from mphil.benchmarks.motif import MOTIFS, base_shape, part_sizes
from mphil.errors import UsageError

PARTS = ("train", "id_val", "id_test", "ood_val", "ood_test")
NAMES = tuple(f"good-motif-{domain}{shift}" for domain in ("basis", "size") for shift in ("", "-concept", "-no-shift"))
SIZES = {
    "covariate": (18_000, 3_000, 3_000, 3_000, 3_000),
    "concept": (12_600, 2_700, 2_700, 6_000, 6_000),
    "no-shift": (18_000, 0, 0, 6_000, 6_000),
}
ERRORS = 4
"""How many standard errors a sampled figure may be off; all seeds are fixed, so a test passes always or never."""


@cache
def full(name: str) -> Benchmark:
    return benchmark(name)


def shift_of(name: str) -> str:
    return next((shift for shift in ("concept", "no-shift") if name.endswith(shift)), "covariate")


def extra(bench: Benchmark, name: str, rows: torch.Tensor) -> torch.Tensor:
    return bench.store.extras[name][rows]


def undirected(bench: Benchmark) -> torch.Tensor:
    return bench.store.n_edges // 2


def noise_edges(bench: Benchmark) -> torch.Tensor:
    """(n_graphs,) edges that are neither motif nor base nor bridge: base sizes are recovered from the node counts."""
    base_nodes = bench.store.n_nodes - 5
    kind, motif = bench.store.extras["basis_id"], bench.store.extras["motif_id"]
    base_edges = torch.stack(
        [
            (2 * (base_nodes - 1)).where(base_nodes > 3, base_nodes * (base_nodes - 1) // 2),
            base_nodes - 1,
            3 * (base_nodes // 2) - 2,
            base_nodes - 1,
            base_nodes - 1,
        ]
    ).gather(0, kind[None])[0]
    return undirected(bench) - base_edges - torch.tensor([6, 5, 6])[motif] - 1


def assert_rate(hits: torch.Tensor, rate: float) -> None:
    hits = hits.double()
    assert hits.mean().item() == pytest.approx(rate, abs=ERRORS * (rate * (1 - rate) / len(hits)) ** 0.5 + 1e-12)


def assert_same_mean(values: torch.Tensor, reference: float, n_reference: int, rounding: float = 0.005) -> None:
    """Two samples of the same distribution: ours, and one of which size and mean are known."""
    values = values.double()
    error = values.std().item() * (1 / len(values) + 1 / n_reference) ** 0.5
    assert values.mean().item() == pytest.approx(reference, abs=ERRORS * error + rounding)


@pytest.mark.parametrize("name", NAMES)
def test_counts_of_all_parts(name):
    bench = full(name)
    assert tuple(bench.split.sizes[part] for part in PARTS) == SIZES[shift_of(name)]
    assert len(bench.store) == 30_000
    assert bench.store.index.tolist() == list(range(30_000))
    assert torch.cat([bench.split[part] for part in PARTS]).tolist() == list(range(30_000))
    assert bench.classes == ("house", "cycle", "crane")
    assert bench.encoder == {"layers": 4, "width": 128}
    assert (bench.task.kind, bench.task.n_outputs, bench.task.metric) == ("multiclass", 3, "accuracy")


BASIS_TABLE = [  # base, part, reference graphs, nodes, range, undirected edges, range, noise edges a graph
    (0, "train", 5_904, 15.01, (10, 20), 25.38, (14, 36), 0.69),
    (1, "train", 6_022, 10.92, (8, 12), 11.59, (8, 13), 0.0),
    (2, "train", 6_074, 25.09, (15, 35), 36.12, (19, 52), 1.32),
    (3, "ood_val", 3_000, 15.92, (11, 21), 16.58, (11, 23), 0.007),
    (4, "ood_test", 3_000, 15.05, (10, 20), 15.86, (10, 22), 0.14),
]


@pytest.mark.parametrize(("base", "part", "n", "nodes", "node_range", "edges", "edge_range", "noise"), BASIS_TABLE)
def test_basis_covariate_figures(base, part, n, nodes, node_range, edges, edge_range, noise):
    bench = full("good-motif-basis")
    rows = bench.split[part]
    rows = rows[extra(bench, "basis_id", rows) == base]
    n_nodes, n_edges, n_noise = bench.store.n_nodes[rows], undirected(bench)[rows], noise_edges(bench)[rows]
    assert_same_mean(n_nodes, nodes, n)
    assert_same_mean(n_edges, edges, n)
    assert_same_mean(n_noise, noise, n)
    assert (n_nodes.min(), n_nodes.max()) == node_range
    assert n_edges.min() == edge_range[0]
    # The widest star or path with a noise edge is rare: a sample need not hold it, but nothing may lie beyond.
    assert edge_range[1] - (base >= 3) <= n_edges.max() <= edge_range[1]
    if part == "train":
        assert_rate(extra(bench, "basis_id", bench.split.train) == base, 1 / 3)


def test_basis_covariate_domains():
    bench = full("good-motif-basis")
    store, split = bench.store, bench.split
    assert_same_mean(store.n_nodes[split.train], 17.04, 18_000)
    assert_same_mean(undirected(bench)[split.train], 24.39, 18_000)
    assert torch.equal(store.env, store.extras["basis_id"])
    for part in ("train", "id_val", "id_test"):
        assert store.env[split[part]].unique().tolist() == [0, 1, 2]
    assert store.env[split.ood_val].unique().tolist() == [3]
    assert store.env[split.ood_test].unique().tolist() == [4]
    assert "width_id" not in store.extras


SIZE_TABLE = [  # width class, part, reference graphs, nodes, undirected edges
    (0, "train", 6_035, 12.03, 14.77),
    (1, "train", 5_966, 16.18, 20.76),
    (2, "train", 5_999, 22.32, 29.53),
    (3, "ood_val", 3_000, 39.16, 52.91),
    (4, "ood_test", 3_000, 87.29, 119.40),
]


@pytest.mark.parametrize(("width", "part", "n", "nodes", "edges"), SIZE_TABLE)
def test_size_covariate_figures(width, part, n, nodes, edges):
    bench = full("good-motif-size")
    rows = bench.split[part]
    rows = rows[extra(bench, "width_id", rows) == width]
    assert_same_mean(bench.store.n_nodes[rows], nodes, n)
    assert_same_mean(undirected(bench)[rows], edges, n)
    for kind in range(5):
        assert_rate(extra(bench, "basis_id", rows) == kind, 1 / 5)
    wheels = bench.store.n_nodes[rows[extra(bench, "basis_id", rows) == 0]] - 5
    centre = (6, 10, 15, 30, 70)[width]
    assert wheels.unique().tolist() == list(range(centre - 5, centre + 6))


def test_size_covariate_domains():
    bench = full("good-motif-size")
    store, split = bench.store, bench.split
    assert_same_mean(store.n_nodes[split.train], 16.83, 18_000)
    assert_same_mean(undirected(bench)[split.train], 21.7, 18_000, rounding=0.05)
    for part, bounds in (("train", (6, 45)), ("ood_val", (20, 75)), ("ood_test", (68, 155))):
        nodes = store.n_nodes[split[part]]
        assert (nodes.min(), nodes.max()) == bounds
    assert torch.equal(store.env, store.extras["width_id"])
    assert store.env[split.train].unique().tolist() == [0, 1, 2]
    assert store.env[split.ood_val].unique().tolist() == [3]
    assert store.env[split.ood_test].unique().tolist() == [4]


@pytest.mark.parametrize(("domain", "field"), [("basis", "basis_id"), ("size", "width_id")])
def test_concept_correlations(domain, field):
    bench = full(f"good-motif-{domain}-concept")
    store, split = bench.store, bench.split
    agrees = store.extras[field] == store.extras["motif_id"]
    pool = torch.cat([split.train, split.id_val, split.id_test])
    for env, correlation in enumerate((0.99, 0.97, 0.95)):
        rows = pool[store.env[pool] == env]
        assert len(rows) == 6_000
        assert_rate(agrees[rows], correlation + (1 - correlation) / 3)
        assert_rate(store.env[split.train] == env, 1 / 3)
    for part, correlation in (("ood_val", 0.3), ("ood_test", 0.0)):
        assert_rate(agrees[split[part]], correlation + (1 - correlation) / 3)
        assert (store.env[split[part]] == -1).all()
    assert store.extras["basis_id"].unique().tolist() == ([0, 1, 2] if domain == "basis" else [0, 1, 2, 3, 4])


def test_size_concept_widths():
    bench = full("good-motif-size-concept")
    for width, centre in enumerate((10, 40, 70)):
        wheel = (bench.store.extras["width_id"] == width) & (bench.store.extras["basis_id"] == 0)
        assert (bench.store.n_nodes[wheel] - 5).unique().tolist() == list(range(centre - 5, centre + 6))


def test_no_shift_is_the_same_everywhere_and_for_both_domains():
    bench = full("good-motif-basis-no-shift")
    store, split = bench.store, bench.split
    for part in ("train", "ood_val", "ood_test"):
        motif = extra(bench, "motif_id", split[part])
        assert motif.bincount().tolist() == [len(motif) // 3] * 3
        for kind in range(5):
            assert_rate(extra(bench, "basis_id", split[part]) == kind, 1 / 5)
        wheels = store.n_nodes[split[part][extra(bench, "basis_id", split[part]) == 0]] - 5
        assert wheels.unique().tolist() == list(range(5, 16))
    assert (store.env == -1).all()
    assert full("good-motif-size-no-shift").store.digest() == store.digest()


@pytest.mark.parametrize("name", NAMES)
def test_label_noise_in_every_part(name):
    bench = full(name)
    for _, rows in bench.split:
        if not len(rows):
            continue
        y, motif = bench.store.y[rows, 0].long(), extra(bench, "motif_id", rows)
        assert_rate(y == motif, 0.9 + 0.1 / 3)
        assert_rate(((y - motif) % 3 == 1)[y != motif], 1 / 2)
        for label in range(3):
            assert_rate(motif == label, 1 / 3)


@pytest.mark.parametrize("name", NAMES)
def test_ground_truth_marks_five_nodes_and_the_edges_of_the_motif(name):
    store = full(name).store
    graph_of_node = torch.arange(len(store)).repeat_interleave(store.n_nodes)
    graph_of_edge = torch.arange(len(store)).repeat_interleave(store.n_edges)
    assert (graph_of_node[store.extras["node_truth"]].bincount(minlength=len(store)) == 5).all()
    marked = graph_of_edge[store.extras["edge_truth"]].bincount(minlength=len(store))
    assert torch.equal(marked, torch.tensor([12, 10, 12])[store.extras["motif_id"]])


@pytest.mark.parametrize("name", NAMES)
def test_noise_never_exceeds_five_percent_and_spares_small_trees(name):
    bench = full(name)
    noise = noise_edges(bench)
    assert (noise >= 0).all()
    assert (noise <= (undirected(bench) - noise) // 20).all()
    if "basis" in name:
        assert (noise[bench.store.extras["basis_id"] == 1] == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_graphs_hold_their_base_and_their_motif(name):
    bench = benchmark(name, graphs=60, seed=3)
    for graph in bench.store.to_pyg():
        whole = nx.Graph(graph.edge_index.T.tolist())
        n_base = graph.num_nodes - 5
        kind = int(graph.basis_id)
        width = {0: n_base, 1: n_base + 1, 2: n_base // 2, 3: n_base - 1, 4: n_base}[kind]
        base = base_shape(kind, width)
        assert set(base.edges) <= {*whole.edges(), *((v, u) for u, v in whole.edges())}
        motif = nx.Graph(MOTIFS[int(graph.motif_id)].edges)
        assert nx.is_isomorphic(whole.subgraph(range(n_base, n_base + 5)), motif)


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_is_a_function_of_its_arguments(name):
    one, two, other = (benchmark(name, graphs=90, seed=seed) for seed in (7, 7, 8))
    assert one.store.digest() == two.store.digest()
    assert one.split.digest() == two.split.digest()
    assert one.store.digest() != other.store.digest()
    assert one.split.digest() != other.split.digest()
    assert one.split.provenance["seed"] == 7


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("good-motif-basis", "2aa1c34454fb985b"),
        ("good-motif-size", "f22c0da4d50eed87"),
        ("good-motif-basis-concept", "271f21e64fbe9279"),
        ("good-motif-size-concept", "29e0ee304e08d765"),
        ("good-motif-basis-no-shift", "a0a2e0bc293c502d"),
    ],
)
def test_the_data_of_a_seed_stay_what_they_were(name, digest):
    """A change here makes all earlier results on the benchmark incomparable: it belongs in the changelog."""
    assert benchmark(name, graphs=100).store.digest()[:16] == digest


def test_small_sizes_keep_the_proportions():
    assert list(part_sizes("covariate", 300).values()) == [180, 30, 30, 30, 30]
    assert list(part_sizes("concept", 300).values()) == [126, 27, 27, 60, 60]
    assert list(part_sizes("no-shift", 300).values()) == [180, 0, 0, 60, 60]
    for shift in SIZES:
        for graphs in range(20, 60):
            sizes = part_sizes(shift, graphs)
            assert sum(sizes.values()) == graphs
            assert all(size or (shift == "no-shift" and part.startswith("id_")) for part, size in sizes.items())


def test_too_few_graphs_are_refused():
    with pytest.raises(UsageError, match="at least 20"):
        benchmark("good-motif-basis", graphs=19)


def test_all_settings_are_registered_with_what_is_known_of_them():
    assert set(NAMES) <= set(BENCHMARKS)
    for name in NAMES:
        entry = BENCHMARKS[name]
        assert entry.options == {"seed": 0, "graphs": 30_000}
        assert "GOOD" in entry.source
        assert "fresh" in entry.differs


@pytest.mark.parametrize(("basis", "number"), [("wheel", 0), ("tree", 1), ("ladder", 2)])
def test_a_basis_held_out_is_in_ood_validation_alone(basis, number):
    data, whole = (benchmark(name, graphs=600) for name in (f"motif-held-out-{basis}", "good-motif-basis"))
    assert data.store.digest() == whole.store.digest()
    env = data.store.env
    assert env[data.split.ood_val].unique().tolist() == [number]
    for part in ("train", "id_val", "id_test"):
        others = sorted({0, 1, 2} - {number})
        assert env[data.split[part]].unique().tolist() == others
    assert not len(data.split.ood_test)
