"""GOOD-CMNIST: counts, colours and parts at full size without a picture; whole benchmarks on drawn images and MNIST."""

import shutil
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
import torch
from tests.images import blobs

import mphil
from mphil.benchmarks.catalogue import BENCHMARKS, benchmark
from mphil.benchmarks.cmnist import COLOURS, CONVERSION, paint, read_mnist
from mphil.benchmarks.superpixels import read_superpixels, superpixel_store
from mphil.errors import DataError, IntegrityError, UsageError

NAMES = ("good-cmnist-color", "good-cmnist-color-concept", "good-cmnist-color-no-shift")
SHIFTS = ("covariate", "concept", "no-shift")
PARTS = ("train", "id_val", "id_test", "ood_val", "ood_test")
SIZES = {
    "covariate": (42_000, 7_000, 7_000, 7_000, 7_000),
    "concept": (29_400, 6_300, 6_300, 14_000, 14_000),
    "no-shift": (42_000, 0, 0, 14_000, 14_000),
}
CONCEPT_COLOURS = [
    *((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1)),
    *((1, 0, 1), (1, 0.5, 0.5), (0.5, 1, 0.5), (0.5, 0.5, 1), (1, 1, 0.5)),
]
COVARIATE_COLOURS = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1), (1, 0.5, 0.5), (1, 0, 1)]
GRAPHS = 200


def digits(n=70_000):
    return np.random.default_rng(7).integers(10, size=n)


def painted(shift, n=70_000, seed=0):
    return paint(shift, digits(n), np.random.default_rng(seed))


def rgb(painting):
    return np.array(list(COLOURS.values()))[painting.colour]


@pytest.mark.parametrize("shift", SHIFTS)
def test_counts_of_all_parts(shift):
    parts = painted(shift).parts
    assert tuple(len(parts[part]) for part in PARTS) == SIZES[shift]
    assert np.sort(np.concatenate(list(parts.values()))).tolist() == list(range(70_000))


def test_covariate_environments_and_colours():
    painting = painted("covariate")
    assert Counter(painting.env.tolist()) == dict.fromkeys(range(5), 11_200) | {5: 7_000, 6: 7_000}
    assert np.array_equal(rgb(painting), np.array(COVARIATE_COLOURS)[painting.env])
    for part, known in zip(PARTS, [*[set(range(5))] * 3, {5}, {6}], strict=True):
        assert set(painting.env[painting.parts[part]].tolist()) == known
    shares = np.bincount(painting.env[painting.parts["train"]]) / 42_000
    assert shares == pytest.approx(np.full(5, 0.2), abs=0.01)  # the pool is shuffled before it is cut into parts


def test_concept_environments_and_colours():
    digit, painting = digits(), painted("concept")
    assert Counter(painting.env.tolist()) == dict.fromkeys(range(5), 8_400) | {-1: 28_000}
    follows = painting.colour == digit
    groups = [(painting.env == env, rate) for env, rate in enumerate((0.95, 0.9, 0.85, 0.8, 0.75))]
    ood = [(np.isin(np.arange(70_000), painting.parts[p]), rate) for p, rate in (("ood_val", 0.3), ("ood_test", 0.0))]
    for images, rate in groups + ood:
        expected = rate + (1 - rate) / 10
        assert follows[images].mean() == pytest.approx(expected, abs=4 * (expected * (1 - expected) / 8_400) ** 0.5)
        others = np.bincount(((painting.colour - digit) % 10)[images], minlength=10)[1:] / images.sum()
        assert others == pytest.approx(np.full(9, (1 - rate) / 10), abs=0.012)
    assert (painting.env[painting.parts["ood_val"]] == -1).all()
    assert np.array_equal(rgb(painting), np.array(CONCEPT_COLOURS)[painting.colour])


def test_without_shift_all_is_white():
    painting = painted("no-shift")
    assert (rgb(painting) == 1).all()
    assert (painting.env == -1).all()


@pytest.mark.parametrize("shift", SHIFTS)
def test_digits_are_spread_evenly_over_parts(shift):
    digit = digits()
    for images in painted(shift).parts.values():
        if len(images):
            assert np.bincount(digit[images]) / len(images) == pytest.approx(np.full(10, 0.1), abs=0.02)


@pytest.mark.parametrize("shift", SHIFTS)
def test_seed_decides(shift):
    one, same, other = painted(shift, 500), painted(shift, 500), painted(shift, 500, seed=1)
    assert np.array_equal(one.colour, same.colour)
    assert np.array_equal(one.env, same.env)
    assert all(np.array_equal(one.parts[part], same.parts[part]) for part in PARTS)
    assert not np.array_equal(one.parts["train"], other.parts["train"])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data folder with an `mnist.npz` of drawn images, which has to be accepted as the wrong file that it is."""
    monkeypatch.setenv("MPHIL_DATA", str(tmp_path))
    monkeypatch.setenv("MPHIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MPHIL_ACCEPT_ANY_DATA", "1")
    images, digit = blobs(GRAPHS), digits(GRAPHS).astype(np.uint8)
    np.savez(tmp_path / "mnist.npz", x_train=images[:150], y_train=digit[:150], x_test=images[150:], y_test=digit[150:])
    return tmp_path


def save_original(folder, n=GRAPHS):
    """Superpixels that the rebuild would not give: of other images."""
    store = superpixel_store(blobs(n, seed=9), digits(n))
    np.savez(
        folder / "MNISTSuperpixels.npz",
        x=store.x,
        pos=store.extras["node_pos"],
        edge_index=store.edge_index,
        slices=store.edge_ptr,
        y=store.y[:, 0].long(),
    )
    return store


@pytest.mark.parametrize("name", NAMES)
def test_benchmark_of_a_rebuild(folder, name):
    bench = benchmark(name, graphs=GRAPHS)
    grey = superpixel_store(blobs(GRAPHS), digits(GRAPHS))
    ink = torch.tensor(list(COLOURS.values()))[bench.store.extras["color_id"]]
    for graph in range(GRAPHS):
        here = slice(75 * graph, 75 * graph + 75)
        assert torch.equal(bench.store.x[here], grey.x[here] * ink[graph])
    assert (bench.store.x[grey.x[:, 0] == 0] == 0).all()
    assert torch.equal(bench.store.edge_index, grey.edge_index)
    assert torch.equal(bench.store.extras["node_pos"], grey.extras["node_pos"])
    assert torch.equal(bench.store.y, grey.y)
    assert (bench.store.node_features.kind, bench.store.node_features.width) == ("float", 3)
    assert sum(bench.split.sizes.values()) == GRAPHS
    assert bench.encoder == {"layers": 4, "width": 128}
    assert bench.classes == tuple("0123456789")
    assert (bench.task.kind, bench.task.n_outputs, bench.task.metric) == ("multiclass", 10, "accuracy")


def test_rebuild_is_called_so_everywhere(folder):
    bench = benchmark(NAMES[0], graphs=GRAPHS)
    assert bench.split.provenance["superpixels"] == "a rebuild from MNIST, not the original MNISTSuperpixels"
    assert bench.split.provenance["verified"] is False
    assert len(bench.split.provenance["sha256"]) == 64
    assert bench.store.node_features.schema == "mnist-superpixels-rebuild/1"
    assert bench.statistics()["provenance"] == bench.split.provenance
    for name in NAMES:
        assert "rebuild" in BENCHMARKS[name].summary
        assert "REBUILD" in BENCHMARKS[name].differs
        assert BENCHMARKS[name].needs == ("mnist",)


def test_seed_changes_colours_and_parts_but_no_graph(folder):
    one, other = (benchmark(NAMES[0], graphs=GRAPHS, seed=seed) for seed in (0, 1))
    assert torch.equal(one.store.edge_index, other.store.edge_index)
    assert torch.equal(one.store.y, other.store.y)
    assert not torch.equal(one.store.env, other.store.env)
    assert one.split.digest() != other.split.digest()


def test_fewer_graphs_are_the_first_ones(folder):
    few, all_of_them = benchmark(NAMES[2], graphs=30), benchmark(NAMES[2], graphs=GRAPHS)
    first = all_of_them.store[:30]
    assert torch.equal(few.store.x, first.x)
    assert torch.equal(few.store.edge_index, first.edge_index)
    assert torch.equal(few.store.y, first.y)


def test_original_is_preferred(folder):
    original = save_original(folder)
    bench = benchmark(NAMES[2], graphs=GRAPHS)
    assert torch.equal(bench.store.x[:, :1], original.x)
    assert torch.equal(bench.store.edge_index, original.edge_index)
    assert bench.split.provenance["superpixels"] == "the original MNISTSuperpixels"
    assert bench.split.provenance["file"] == "MNISTSuperpixels.npz"
    assert bench.store.node_features.schema == "mnist-superpixels/1"
    rebuilt = benchmark(NAMES[2], graphs=GRAPHS, superpixels="rebuild")
    assert "rebuild" in rebuilt.split.provenance["superpixels"]
    assert not torch.equal(rebuilt.store.x, bench.store.x)


@pytest.mark.parametrize("there", [True, False])
def test_original_has_to_be_converted(folder, there):
    if there:
        (folder / "MNISTSuperpixels.pt").write_bytes(b"a pickle")
    with pytest.raises(DataError) as caught:
        benchmark(NAMES[0], graphs=GRAPHS, superpixels="auto" if there else "original")
    message = str(caught.value)
    assert ("is a pickle" if there else "MNISTSuperpixels.npz, the original superpixels, is missing") in message
    assert CONVERSION in message
    assert str(folder) in message
    assert "superpixels=rebuild" in message
    benchmark(NAMES[0], graphs=GRAPHS, superpixels="rebuild")


@pytest.mark.slow
def test_conversion_command_works(tmp_path):
    """The command a user is told to run, on a file in PyG's raw format."""
    store = superpixel_store(blobs(5), np.arange(5))
    graphs = [
        {"x": g.x, "pos": g.node_pos, "edge_index": g.edge_index, "y": g.y[0].long()}
        for g in (store.batch(torch.tensor([i]), extras=True) for i in range(5))
    ]
    raw = tmp_path / "pyg-mnist" / "raw"
    raw.mkdir(parents=True)
    torch.save((graphs[:3], graphs[3:]), raw / "MNISTSuperpixels.pt")
    assert CONVERSION.startswith('python -c "')
    command = CONVERSION.replace("python", sys.executable, 1)
    subprocess.run(command, shell=True, check=True, cwd=tmp_path, capture_output=True, timeout=120)
    read = read_superpixels(tmp_path / "MNISTSuperpixels.npz")
    for name in ("x", "edge_index", "edge_ptr", "y"):
        assert torch.equal(getattr(read, name), getattr(store, name))
    assert torch.equal(read.extras["node_pos"], store.extras["node_pos"])


@pytest.mark.parametrize("original", [True, False])
def test_more_graphs_than_there_are(folder, original):
    if original:
        save_original(folder, 50)
    with pytest.raises(UsageError, match=r"graphs=70,000: .* has (50|200)"):
        benchmark(NAMES[0])


def test_too_few_graphs(folder):
    with pytest.raises(UsageError, match="graphs must be at least 20"):
        benchmark(NAMES[0], graphs=10)


def test_wrong_mnist_is_refused(folder, monkeypatch):
    monkeypatch.delenv("MPHIL_ACCEPT_ANY_DATA")
    with pytest.raises(IntegrityError, match="mnist.npz"):
        benchmark(NAMES[0], graphs=GRAPHS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_test": np.full(50, 10, dtype=np.uint8)}, "digits 0 to 9"),
        ({"x_train": np.zeros((150, 28, 28))}, "images must be bytes .* float64"),
        ({"x_test": np.zeros((50, 14, 14), dtype=np.uint8)}, r"shape \(50, 14, 14\)"),
        ({"y_test": np.zeros(49, dtype=np.uint8)}, r"mnist.npz: .* shape \(49,\)"),
        ({"y_test": np.array(["7"] * 50)}, "digits of <U1"),
    ],
)
def test_accepted_mnist_must_still_make_sense(folder, change, message):
    with np.load(folder / "mnist.npz") as archive:
        arrays = dict(archive)
    np.savez(folder / "mnist.npz", **(arrays | change))
    with pytest.raises(DataError, match=message):
        benchmark(NAMES[0], graphs=GRAPHS)


def test_one_epoch_of_mphil(folder):
    bench = benchmark(NAMES[0], graphs=60)
    run = mphil.train(bench, "mphil", train={"epochs": 1, "batch_size": 20}, encoder={"width": 8, "layers": 2})
    assert 0 <= run.scores["ood_val"]["ood_test"] <= 1


def test_mnist_of_the_publisher(shared_data, tmp_path, monkeypatch):
    """Full-size counts on the real labels, and a small benchmark on the real images."""
    path = shared_data / "mnist" / "mnist.npz"
    if not path.is_file():
        pytest.skip(f"no {path}")
    shutil.copy(path, tmp_path / "mnist.npz")
    monkeypatch.setenv("MPHIL_DATA", str(tmp_path))
    monkeypatch.setenv("MPHIL_CACHE", str(tmp_path / "cache"))
    images, digit = read_mnist(path)
    assert images.shape == (70_000, 28, 28)
    assert np.bincount(digit).tolist() == [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958]
    for shift in SHIFTS:
        parts = paint(shift, digit, np.random.default_rng(0)).parts
        assert tuple(len(parts[part]) for part in PARTS) == SIZES[shift]
    bench = benchmark(NAMES[1], graphs=100)
    assert bench.split.provenance["verified"] is True
    assert bench.store.y[:, 0].tolist() == digit[:100].tolist()
    assert bench.store.n_nodes.unique().tolist() == [75]
    assert bench.store.n_edges.double().mean().item() == pytest.approx(1388, abs=20)
