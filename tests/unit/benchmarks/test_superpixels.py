"""Superpixels against a slow k-means written out with exact distances, on drawn images and on MNIST."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file
from scipy.spatial.distance import cdist
from tests.images import PIXELS, blobs

from mphil.benchmarks import superpixels
from mphil.benchmarks.superpixels import BATCH, CELLS, cluster, read_superpixels, seeds, superpixel_store
from mphil.errors import DataError


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MPHIL_CACHE", str(tmp_path / "cache"))


@cache
def drawn():
    images = blobs(BATCH + 6)
    return images, superpixel_store(images, np.arange(len(images)) % 10)


def slow_kmeans(image):
    """Cells and centres (column, row, grey; in units of 1/102 pixel) by whole-number distances, cell by cell."""
    points = np.column_stack([102 * PIXELS, 4 * image.ravel().astype(int)]).astype(float)
    on = np.rint(seeds()).astype(int)
    centres = np.column_stack([np.rint(102 * seeds()), 4 * image[on[:, 1], on[:, 0]].astype(int)])
    for _ in range(8):
        cells = cdist(points, centres, "sqeuclidean").argmin(1)
        for cell in range(75):
            members = points[cells == cell]
            if len(members):
                centres[cell] = np.floor(members.sum(0) / len(members) + 0.5)
    return cells, centres


@given(st.integers(0, 2**32 - 1), st.sampled_from(["noise", "black and white", "blobs", "flat"]))
@settings(max_examples=12)
def test_clustering_is_exact_kmeans(seed, kind):
    rng = np.random.default_rng(seed)
    image = {
        "noise": rng.integers(256, size=(28, 28), dtype=np.uint8),
        "black and white": 255 * rng.integers(2, size=(28, 28), dtype=np.uint8),
        "blobs": blobs(1, seed)[0],
        "flat": np.full((28, 28), rng.integers(256), dtype=np.uint8),
    }[kind]
    centres, cells = cluster(image[None])
    expected_cells, expected_centres = slow_kmeans(image)
    assert cells[0].tolist() == expected_cells.tolist()
    assert (centres[0] + [1377, 1377, 510]).tolist() == expected_centres.tolist()


def test_scores_stay_where_float32_is_exact():
    extreme = np.array([1377, 1377, 510], dtype=np.int64)
    largest = (extreme**2).sum() + 2 * (extreme**2).sum()
    assert superpixels.UNIT * 13.5 == 1377
    assert superpixels.GREY * 127.5 == 510
    assert superpixels.GREY * 255 == 10 * superpixels.UNIT
    assert largest < 2**24


def test_seeds_are_75_different_places_that_cover_the_image():
    places = seeds()
    assert places.shape == (75, 2)
    assert places.min() > 0
    assert places.max() < 27
    apart = cdist(places, places) + 99 * np.eye(75)
    assert apart.min() > 2
    assert cdist(PIXELS, places).min(1).max() < 4


def test_centre_that_nobody_chooses_stays():
    pixels = np.ones((1, 784, 4), dtype=np.float32)
    centres = np.arange(225).reshape(1, 75, 3)
    moved = superpixels._means(pixels, np.zeros((1, 784), dtype=np.int64), centres)
    assert moved[0, 0].tolist() == [1, 1, 1]
    assert np.array_equal(moved[0, 1:], centres[0, 1:])


def test_store_of_drawn_images():
    images, store = drawn()
    assert len(store) == len(images)
    assert store.n_nodes.unique().tolist() == [CELLS]
    assert store.x.shape == (CELLS * len(images), 1)
    assert store.x.dtype == torch.float32
    assert store.x.min() == 0
    assert 0.5 < store.x.max() <= 1
    assert store.y[:, 0].tolist() == [i % 10 for i in range(len(images))]
    assert store.env.unique().tolist() == [-1]
    assert store.index.tolist() == list(range(len(images)))
    assert store.node_features.schema == "mnist-superpixels-rebuild/1"
    assert store.extras["node_pos"].min() >= 0
    assert store.extras["node_pos"].max() <= 27


@pytest.mark.parametrize("graph", [0, 1, BATCH - 1, BATCH, BATCH + 5])
def test_edges_join_cells_within_the_radius(graph):
    _, store = drawn()
    one = store[graph : graph + 1]
    place = np.rint(102 * one.extras["node_pos"].double().numpy())
    expected = cdist(place, place) <= 9.2 * 102
    found = np.zeros((CELLS, CELLS), dtype=int)
    np.add.at(found, tuple(one.edge_index.long().numpy()), 1)
    assert np.array_equal(found, expected)  # no edge twice, both directions, every self-loop
    assert np.array_equal(found, found.T)
    assert found.diagonal().all()
    assert int(one.n_edges[0]) % 2 == 1


def test_node_is_the_mean_of_its_pixels():
    images, store = drawn()
    _, cells = cluster(images[:3])
    for graph in range(3):
        one = store[graph : graph + 1]
        for cell in range(CELLS):
            members = cells[graph] == cell
            place, grey = PIXELS[members].mean(0), images[graph].ravel()[members].mean() / 255
            assert one.extras["node_pos"][cell].tolist() == pytest.approx(place, abs=0.5001 / 102)
            assert one.x[cell].item() == pytest.approx(grey, abs=0.5001 / 1020)


def test_graph_depends_on_its_image_alone():
    images, store = drawn()
    chosen = [3, BATCH + 2]
    alone = superpixel_store(images[chosen], np.array([3, (BATCH + 2) % 10]))
    same = store.select(torch.tensor(chosen))
    for name in ("x", "edge_index", "edge_ptr", "y"):
        assert torch.equal(getattr(alone, name), getattr(same, name))
    assert torch.equal(alone.extras["node_pos"], same.extras["node_pos"])


def test_same_bytes_everywhere():
    _, store = drawn()
    assert store.digest() == "4d314732bba43bdc8399988b53f703dbe81a34aa6278a8943cadf738a5033a8c"


def test_second_time_comes_from_the_cache(monkeypatch):
    images, digits = blobs(3), np.array([1, 2, 3])
    built = superpixel_store(images, digits)
    with monkeypatch.context() as patch:
        patch.setattr(superpixels, "cluster", lambda images: pytest.fail("clustered again"))
        assert superpixel_store(images, digits).digest() == built.digest()
        assert superpixel_store(images, digits[::-1].copy()).y[:, 0].tolist() == [3, 2, 1]
    other = images.copy()
    other[0, 0, 0] ^= 255
    assert not torch.equal(superpixel_store(other, digits).x, built.x)


def test_no_images_no_graphs():
    assert len(superpixel_store(np.empty((0, 28, 28), dtype=np.uint8), np.empty(0))) == 0


def test_silent_without_a_terminal(capfd):
    superpixel_store(blobs(2), np.zeros(2))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "images", [np.zeros((2, 28, 28)), np.zeros((2, 28, 27), dtype=np.uint8)], ids=["floats", "size"]
)
def test_other_images_are_refused(images):
    with pytest.raises(DataError, match=r"bytes of shape \(n, 28, 28\)"):
        superpixel_store(images, np.zeros(2))


def test_figures_on_mnist(shared_data: Path):
    """Node and edge counts, background and reconstruction error of the independent prototype."""
    path = shared_data / "mnist" / "mnist.npz"
    if not path.is_file():
        pytest.skip(f"no {path}")
    with np.load(path, allow_pickle=False) as archive:
        images, digits = archive["x_train"][:400], archive["y_train"][:400]
    store = superpixel_store(images, digits)
    assert store.n_nodes.unique().tolist() == [75]
    edges = store.n_edges.double()
    assert edges.mean().item() == pytest.approx(1388, abs=20)
    assert edges.std().item() == pytest.approx(20, abs=5)
    assert (store.n_edges % 2 == 1).all()
    assert (store.x < 0.001).double().mean().item() == pytest.approx(0.64, abs=0.02)
    grey = store.x.reshape(-1, CELLS).numpy()
    _, cells = cluster(images)
    assert all(len(np.unique(one)) == 75 for one in cells)
    rebuilt = np.take_along_axis(grey, cells, axis=1)
    assert np.abs(rebuilt - images.reshape(len(images), -1) / 255).mean() == pytest.approx(0.022, abs=0.002)


def arrays(graphs=4):
    """A file of original superpixels: here the rebuilt ones in the agreed arrays."""
    store = drawn()[1][:graphs]
    return {
        "x": store.x.numpy(),
        "pos": store.extras["node_pos"].numpy(),
        "edge_index": store.edge_index.numpy().astype(np.uint8),
        "slices": store.edge_ptr.numpy(),
        "y": store.y[:, 0].long().numpy(),
    }


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_original_file_is_read(tmp_path, suffix):
    path = tmp_path / f"MNISTSuperpixels.{suffix}"
    if suffix == "npz":
        np.savez(path, **arrays())
    else:
        save_file(arrays(), path)
    read, expected = read_superpixels(path), drawn()[1][:4]
    for name in ("x", "edge_index", "node_ptr", "edge_ptr", "y", "index"):
        assert torch.equal(getattr(read, name), getattr(expected, name))
    assert torch.equal(read.extras["node_pos"], expected.extras["node_pos"])
    assert read.node_features.schema == "mnist-superpixels/1"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("x", lambda x: x[1:], "x has shape"),
        ("pos", lambda pos: pos[:, :1], "pos has shape"),
        ("slices", lambda slices: slices[:-1], "x has shape"),
        ("slices", lambda slices: slices[::-1], "slices must rise"),
        ("slices", lambda slices: slices - 1, "slices must rise"),
        ("slices", lambda slices: slices[[0, 2, 1, 3, 4]], "slices must rise"),
        ("slices", lambda slices: slices * 1.0, "must be integers"),
        ("edge_index", lambda edges: edges.T, "edge_index has shape"),
        ("edge_index", lambda edges: edges + 1, "names node 75"),
        ("edge_index", lambda edges: edges.astype(int) - 1, "names node -1"),
        ("edge_index", lambda edges: edges.astype(float), "must be integers"),
        ("y", lambda y: y[:, None], "y has shape"),
        ("y", lambda y: y * 1.0, "must be integers"),
        ("x", lambda x: x.astype(object), "cannot read the arrays"),
        ("x", lambda x: x.astype("S4"), "must be floats"),
        ("y", lambda y: y[:0], "y has shape"),
    ],
)
def test_malformed_file_is_refused(tmp_path, name, change, message):
    np.savez(tmp_path / "a.npz", **(arrays() | {name: change(arrays()[name])}))
    with pytest.raises(DataError, match=message):
        read_superpixels(tmp_path / "a.npz")


@pytest.mark.parametrize("content", [b"", b"PK\3\4 cut off", b"\x80\x04\x95pickle", b"{}"])
@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_damaged_file_is_refused(tmp_path, suffix, content):
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(content)
    with pytest.raises(DataError, match="cannot read the arrays"):
        read_superpixels(path)


class Trap:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def test_code_in_a_file_does_not_run(tmp_path):
    np.savez(tmp_path / "a.npz", **(arrays() | {"y": np.array([Trap(tmp_path / "mark")] * 4)}))
    with pytest.raises(DataError):
        read_superpixels(tmp_path / "a.npz")
    assert not (tmp_path / "mark").exists()
