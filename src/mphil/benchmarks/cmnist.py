"""GOOD-CMNIST: which digit a graph of superpixels shows, when the colour of the ink shifts.

A node carries its grey level times the colour of its image, so the background stays black. The graphs are the original
MNISTSuperpixels when the user has them, and otherwise a rebuild from MNIST; the provenance of the split and the schema
of the features say which. Extras: `node_pos`, column and row of each superpixel in pixels, and `color_id`, the position
of the image's colour in `COLOURS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from mphil.benchmarks.catalogue import Benchmark, register
from mphil.benchmarks.motif import Shift, part_sizes
from mphil.benchmarks.motif_graphs import IntArray
from mphil.benchmarks.sources import SOURCES, Source, find, locate
from mphil.benchmarks.superpixels import CELLS, SIDE, Array, read_arrays, read_superpixels, superpixel_store
from mphil.errors import DataError, UsageError
from mphil.graphs.features import Features
from mphil.graphs.split import PARTS, Part, Split
from mphil.graphs.store import GraphStore
from mphil.task import Task

Superpixels = Literal["auto", "original", "rebuild"]

IMAGES = 70_000
"""MNIST, the 60,000 training images before the 10,000 test images."""
CLASSES = tuple(str(digit) for digit in range(10))
COLOURS: Mapping[str, tuple[float, float, float]] = {
    "red": (1, 0, 0),
    "green": (0, 1, 0),
    "blue": (0, 0, 1),
    "yellow": (1, 1, 0),
    "cyan": (0, 1, 1),
    "magenta": (1, 0, 1),
    "pink": (1, 0.5, 0.5),
    "light green": (0.5, 1, 0.5),
    "light blue": (0.5, 0.5, 1),
    "light yellow": (1, 1, 0.5),
    "white": (1, 1, 1),
}
"""Red, green and blue of every colour; under concept shift the first ten stand for the ten digits."""
TRAIN_ENVIRONMENTS = 5
ENVIRONMENTS = ("red", "green", "blue", "yellow", "cyan", "pink", "magenta")
"""Covariate shift: the colour of each environment; the last two are those of `ood_val` and `ood_test`."""
CORRELATION = (0.95, 0.9, 0.85, 0.8, 0.75, 0.3, 0.0)
"""Concept shift: how often the digit decides the colour, in the same order; else the colour is uniform over ten."""

CONVERTED = ("MNISTSuperpixels.npz", "MNISTSuperpixels.safetensors")
"""The original in a format that nothing can hide code in; either will do."""
CONVERSION = (
    'python -c "import numpy as n, torch_geometric.datasets as d; '
    "p, q = (d.MNISTSuperpixels('pyg-mnist', train) for train in (True, False)); a, b = p._data, q._data; "
    "s, t = p.slices['edge_index'], q.slices['edge_index']; n.savez('MNISTSuperpixels.npz', "
    "x=n.concatenate([a.x, b.x]), pos=n.concatenate([a.pos, b.pos]), y=n.concatenate([a.y, b.y]), "
    "edge_index=n.concatenate([a.edge_index.byte(), b.edge_index.byte()], 1), "
    'slices=n.concatenate([s, t[1:] + s[-1]]))"'
)
"""Makes the first of `CONVERTED` in the current folder, for who trusts the publisher's file."""


@dataclass(frozen=True)
class Painting:
    """What is drawn for a set of images; the images themselves have no say in it.

    Attributes:
        colour: (n_images,) position in `COLOURS`.
        env: (n_images,) environment, -1 where it is not set.
        parts: images of each part, ascending.
    """

    colour: IntArray
    env: IntArray
    parts: Mapping[Part, IntArray]


def paint(shift: Shift, digit: IntArray, rng: np.random.Generator) -> Painting:
    """Deal images out to environments and parts, and choose their colours.

    Args:
        shift: what changes between the parts.
        digit: (n_images,) what each image shows.
        rng: source of every draw.
    """
    n = len(digit)
    sizes = part_sizes(shift, n)
    bounds = np.cumsum([sizes[part] for part in PARTS])[:-1]
    pool, ood_val, ood_test = np.split(rng.permutation(n), bounds[2:])
    group = np.empty(n, dtype=np.int64)
    group[pool] = np.arange(len(pool)) * TRAIN_ENVIRONMENTS // len(pool)
    group[ood_val], group[ood_test] = TRAIN_ENVIRONMENTS, TRAIN_ENVIRONMENTS + 1
    names = list(COLOURS)
    if shift == "covariate":
        env, colour = group, np.array([names.index(name) for name in ENVIRONMENTS])[group]
    elif shift == "concept":
        env = np.where(group < TRAIN_ENVIRONMENTS, group, -1)
        colour = np.where(rng.random(n) < np.array(CORRELATION)[group], digit, rng.integers(len(CLASSES), size=n))
    else:
        env, colour = np.full(n, -1), np.full(n, names.index("white"))
    dealt = (*np.split(rng.permutation(pool), bounds[:2]), ood_val, ood_test)
    return Painting(colour, env, {part: np.sort(images) for part, images in zip(PARTS, dealt, strict=True)})


def coloured(graphs: GraphStore, painting: Painting) -> GraphStore:
    """Grey superpixel graphs in colour: x becomes (n_nodes, 3), grey times red, green and blue."""
    ink = torch.tensor(list(COLOURS.values()))[torch.from_numpy(painting.colour)]
    return replace(
        graphs,
        x=graphs.x * ink.repeat_interleave(CELLS, dim=0),
        env=torch.from_numpy(painting.env),
        node_features=Features("float", (3,), graphs.node_features.schema),
        extras=graphs.extras | {"color_id": torch.from_numpy(painting.colour)},
    )


def load_graphs(graphs: int, superpixels: Superpixels) -> tuple[GraphStore, dict[str, Any]]:
    """The first images as grey superpixel graphs, and where they come from.

    Args:
        graphs: how many.
        superpixels: `original` or `rebuild`, or `auto`: the original when it is there.
    """
    original = None if superpixels == "rebuild" else _find_original(needed=superpixels == "original")
    if original is not None:
        located = locate(original)
        store = read_superpixels(located.path)
        _check_digits(located.path, store.y[:, 0].numpy(), graphs)
        return store[:graphs], {"superpixels": "the original MNISTSuperpixels", **located.provenance()}
    located = locate(SOURCES["mnist"])
    images, digits = read_mnist(located.path)
    _check_digits(located.path, digits, graphs)
    rebuilt = "a rebuild from MNIST, not the original MNISTSuperpixels"
    return superpixel_store(images[:graphs], digits[:graphs]), {"superpixels": rebuilt, **located.provenance()}


def read_mnist(path: Path) -> tuple[Array, Array]:
    """(n, 28, 28) images and (n,) digits of an `mnist.npz` file, the training images first."""
    arrays = read_arrays(path, ("x_train", "y_train", "x_test", "y_test"))
    for images, digits in (arrays[:2], arrays[2:]):
        fits = images.shape == (len(digits), SIDE, SIDE) and digits.shape == (len(digits),)
        if not fits or images.dtype != np.uint8 or digits.dtype != np.uint8:
            raise DataError(
                f"{path}: images must be bytes of shape (n, {SIDE}, {SIDE}) with n digits, not {images.dtype} of shape "
                f"{images.shape} with digits of {digits.dtype} of shape {digits.shape}"
            )
    x_train, y_train, x_test, y_test = arrays
    return np.concatenate([x_train, x_test]), np.concatenate([y_train, y_test])


def _check_digits(path: Path, digits: Array, graphs: int) -> None:
    """Refuse labels that are no digits, and too few of them, before any time is spent on the images."""
    if len(digits) < graphs:
        raise UsageError(f"graphs={graphs:,}: {path} has {len(digits):,}")
    if strange := [label for label in (digits.min(), digits.max()) if not 0 <= label < len(CLASSES)]:
        raise DataError(f"{path}: labels must be the digits 0 to 9, not {strange[0]:g}")


def _find_original(*, needed: bool) -> Source | None:
    """The converted original, None when the user has neither it nor the published file."""
    published = SOURCES["mnist-superpixels"]
    converted = replace(published, file=CONVERTED[0], other_names=CONVERTED[1:], size=None, sha256=None)
    if find(converted) is not None:
        return converted
    there = find(published)
    if there is None and not needed:
        return None
    problem = (
        f"{CONVERTED[0]}, the original superpixels, is missing"
        if there is None
        else f"{there} is a pickle: opening it would run whatever code it holds, so it is never opened here"
    )
    raise DataError(
        f"{problem}\nIf you trust the publisher, convert it once (an {published.file} you have goes to pyg-mnist/raw "
        f"first, else it is downloaded):\n{CONVERSION}\nand put {CONVERTED[0]} in {converted.home.parent}, or use a "
        f"rebuild from MNIST: superpixels=rebuild"
    )


def _builder(shift: Shift) -> Callable[..., Benchmark]:
    """The function that builds one setting; the seed decides colours and parts, never the graphs themselves."""

    def build(*, seed: int = 0, graphs: int = IMAGES, superpixels: Superpixels = "auto") -> Benchmark:
        part_sizes(shift, graphs)  # refuses too few before anything is read
        store, origin = load_graphs(graphs, superpixels)
        painting = paint(shift, store.y[:, 0].long().numpy(), np.random.default_rng(seed))
        provenance = {"rule": f"good-cmnist, domain color, {shift}", "seed": seed, "graphs": graphs, **origin}
        return Benchmark(
            task=Task("multiclass", len(CLASSES), "accuracy"),
            store=coloured(store, painting),
            split=Split(**{part: torch.from_numpy(p) for part, p in painting.parts.items()}, provenance=provenance),
            encoder={"layers": 4, "width": 128},
            classes=CLASSES,
        )

    return build


_REBUILD = "Superpixels are a rebuild from MNIST unless the original file is there."
_SUMMARY: Mapping[Shift, str] = {
    "covariate": f"Digits in five colours, tested in pink (val) and magenta (test). {_REBUILD}",
    "concept": f"The colour predicts the digit in training (75 to 95 %) and no longer in the test. {_REBUILD}",
    "no-shift": f"White digits, every part drawn alike. {_REBUILD}",
}

for _shift, _summary in _SUMMARY.items():
    register(
        "good-cmnist-color" + ("" if _shift == "covariate" else f"-{_shift}"),
        _builder(_shift),
        summary=_summary,
        source=(
            "MNIST (LeCun et al., CC BY-SA 3.0), or the superpixels of MoNet (Monti et al., 2017) as distributed with "
            "PyTorch Geometric; coloured here by the rules of GOOD-CMNIST (Gui et al., 2022, arXiv:2206.08452)"
        ),
        differs=(
            f"a REBUILD unless {CONVERTED[0]} is in the data folder: superpixels are clustered here from MNIST, 75 "
            "nodes as in the original and about as many edges, but other cells, so scores need not agree with "
            "published ones. With either, colours and parts are a fresh, seeded draw: the published file is one "
            "unseeded draw of the same rules"
        ),
        needs=("mnist",),
    )
