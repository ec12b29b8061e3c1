"""Images of digits as graphs of exactly 75 superpixels.

Original superpixels are read from a file. Without it they are rebuilt: k-means on (column, row, 10 x grey) from 75
fixed seeds, cells joined when their centres are at most 9.2 pixels apart, every cell with itself included. That gives
the node count and, within one percent, the edge count of the original, but other cells: a look-alike, never the same.

The rebuild counts in whole units of 1/102 pixel. 102 = 4 x 255 / 10 puts half pixels and grey levels on whole numbers
and keeps every score below 2^24, where float32 is exact whatever the order of summation. So a matrix product of any
library on any processor gives the same cells, and the graphs are the same to the byte.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file

from mphil.errors import DataError
from mphil.graphs.cache import Entry, remember
from mphil.graphs.features import Features
from mphil.graphs.store import GraphStore
from mphil.progress import row_bar

Array: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.float32]
Integers: TypeAlias = NDArray[np.int64]

REBUILD = "mnist-superpixels-rebuild/1"
"""Schema of graphs clustered here; the number goes up when any byte of the result changes."""
ORIGINAL = "mnist-superpixels/1"
"""Schema of graphs read from the original file."""

SIDE = 28
"""Pixels along an edge of an image."""
CELLS = 75
"""Superpixels, that is nodes, of an image."""
ROUNDS = 8
"""How often pixels choose their nearest centre and centres move to the mean of their pixels."""
UNIT = 102
"""Units of length in a pixel."""
GREY = 4
"""Units between two of the 256 grey levels, so that black and white are 10 pixels apart."""
RADIUS = 9.2
"""Pixels between the centres of two cells that are joined, at most."""
SEED_ROWS = (8, 8, 9, 8, 9, 8, 9, 8, 8)
"""Seeds in each row, 75 in all; neighbouring rows are shifted against each other by half a space.

Chosen among some 25 layouts on 1,000 training images, for an edge count near the original's: others give 1,331 to
1,482 directed edges a graph (a spiral 1,679), this one 1,384.
"""
BATCH = 64
"""Images clustered at a time: their 15 MB of scores are the largest intermediate."""

_MIDDLE = np.array([UNIT * (SIDE - 1) / 2, UNIT * (SIDE - 1) / 2, GREY * 255 / 2])
"""Column, row and grey of the origin, in units: a centred image keeps the scores small."""


def superpixel_store(images: Array, labels: Array, *, progress: bool = True) -> GraphStore:
    """Rebuild superpixel graphs from images, or take them from the cache; x is the grey level of a node from 0 to 1.

    Args:
        images: (n_images, 28, 28) of uint8.
        labels: (n_images,) class numbers.
        progress: show a bar on a terminal.

    Returns:
        A store with `extras["node_pos"]`, (n_nodes, 2) column and row of each cell in pixels.
    """
    if images.dtype != np.uint8 or images.shape[1:] != (SIDE, SIDE):
        raise DataError(f"images must be bytes of shape (n, {SIDE}, {SIDE}), not {images.dtype} of {images.shape}")
    key = hashlib.sha256(REBUILD.encode() + images.tobytes()).hexdigest()
    kept = remember("superpixels", key, lambda: Entry(_rebuild(images, progress), {"schema": REBUILD}))
    return _store(**kept.arrays, labels=labels, schema=REBUILD)


def _rebuild(images: Array, progress: bool) -> dict[str, Array]:
    """Grey levels, positions and edges of all graphs, end to end: the arguments of `_store`."""
    grey = np.empty((len(images), CELLS, 1), dtype=np.float32)
    position = np.empty((len(images), CELLS, 2), dtype=np.float32)
    edges, counts = [np.empty((2, 0), dtype=np.int8)], [np.zeros(1, dtype=np.int64)]
    with row_bar("superpixels", len(images), progress) as advance:
        for first in range(0, len(images), BATCH):
            batch = slice(first, first + BATCH)
            centres, _ = cluster(images[batch])
            measures = centres + _MIDDLE
            position[batch] = measures[:, :, :2] / UNIT
            grey[batch] = measures[:, :, 2:] / (GREY * 255)
            image, source, target = np.nonzero(near(centres[:, :, :2]))
            # A byte names any of 75 nodes: the 97 million edges of 70,000 images take 0.2 GB instead of 0.8.
            edges.append(np.stack([source, target]).astype(np.int8))
            counts.append(np.bincount(image, minlength=len(centres)))
            advance(len(centres))
    return {
        "x": grey.reshape(-1, 1),
        "position": position.reshape(-1, 2),
        "edges": np.concatenate(edges, axis=1),
        "edge_ptr": np.concatenate(counts).cumsum(),
    }


def cluster(images: Array) -> tuple[Integers, Integers]:
    """Divide images into 75 cells each.

    A centre that no pixel chooses stays where it is, so there are always 75.

    Args:
        images: (n_images, 28, 28) of uint8; memory grows with their number.

    Returns:
        (n_images, 75, 3) centres, column, row and grey in units from the middle, and (n_images, 784) the cell of each
        pixel.
    """
    grey = images.reshape(len(images), -1).astype(np.float32)
    pixels = np.ones((*grey.shape, 4), dtype=np.float32)
    row, column = np.indices((SIDE, SIDE)).reshape(2, -1)
    pixels[:, :, 0], pixels[:, :, 1], pixels[:, :, 2] = UNIT * column, UNIT * row, GREY * grey
    pixels[:, :, :3] -= _MIDDLE
    centres = _start(pixels)
    for _ in range(ROUNDS):
        cells = _nearest(pixels, centres)
        centres = _means(pixels, cells, centres)
    return centres, cells


def seeds() -> Array:
    """(75, 2) column and row, in pixels, where the centres of every image begin."""
    height = SIDE / len(SEED_ROWS)
    return np.array(
        [
            ((place + (0.75 if row % 2 else 0.25)) * SIDE / count - 0.5, (row + 0.5) * height - 0.5)
            for row, count in enumerate(SEED_ROWS)
            for place in range(count)
        ]
    )


def near(places: Integers) -> NDArray[np.bool_]:
    """(n_images, 75, 75) which cells of an image are joined, given (n_images, 75, 2) centres in units."""
    column, row = places[:, :, 0], places[:, :, 1]
    across, down = column[:, :, None] - column[:, None], row[:, :, None] - row[:, None]
    joined: NDArray[np.bool_] = across**2 + down**2 <= int((RADIUS * UNIT) ** 2)
    return joined


def read_superpixels(path: Path) -> GraphStore:
    """Read original superpixels from an `.npz` or `.safetensors` file.

    The file holds x (75 n, 1) grey levels, pos (75 n, 2), edge_index (2, n_edges) counted inside each graph, slices
    (n + 1,) where the edges of each graph begin, and y (n,) digits.
    """
    names = ("x", "pos", "edge_index", "slices", "y")
    x, position, edges, edge_ptr, labels = arrays = read_arrays(path, names)
    n = len(edge_ptr) - 1
    shapes = ((CELLS * n, 1), (CELLS * n, 2), (2, edges.shape[-1]), (n + 1,), (n,))
    for name, array, shape, kinds in zip(names, arrays, shapes, ("f", "f", "iu", "iu", "iu"), strict=True):
        if array.shape != shape:
            raise DataError(f"{path}: {name} has shape {array.shape}, {n} graphs of {CELLS} nodes need {shape}")
        if array.dtype.kind not in kinds:
            raise DataError(f"{path}: {name} must be {'floats' if kinds == 'f' else 'integers'}, not {array.dtype}")
    if edge_ptr[0] != 0 or edge_ptr[-1] != edges.shape[1] or (edge_ptr[1:] < edge_ptr[:-1]).any():
        raise DataError(f"{path}: slices must rise from 0 to the {edges.shape[1]} edges")
    if strange := [node for node in (edges.min(initial=0), edges.max(initial=0)) if not 0 <= node < CELLS]:
        raise DataError(f"{path}: an edge names node {strange[0]}; nodes of a graph count from 0 to {CELLS - 1}")
    return _store(x=x, position=position, edges=edges, edge_ptr=edge_ptr, labels=labels, schema=ORIGINAL)


def read_arrays(path: Path, names: Collection[str]) -> list[Array]:
    """The named arrays of an `.npz` or `.safetensors` file; nothing in the file is ever executed."""
    try:
        if path.suffix == ".safetensors":
            arrays = load_file(path)
            return [arrays[name] for name in names]
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return [archive[name] for name in names]
    except Exception as error:  # a damaged archive fails in many ways: BadZipFile, ValueError, KeyError, zlib.error ...
        raise DataError(f"{path}: cannot read the arrays {', '.join(names)} ({error})") from error


def _start(pixels: Floats) -> Integers:
    """(n, 75, 3) the seeds, each with the grey level of the pixel it falls on."""
    places = seeds()
    on = np.rint(places).astype(np.int64)
    centres = np.empty((len(pixels), CELLS, 3), dtype=np.int64)
    centres[:, :, :2] = np.rint(places * UNIT - _MIDDLE[:2])
    centres[:, :, 2] = pixels[:, on[:, 1] * SIDE + on[:, 0], 2]
    return centres


def _nearest(pixels: Floats, centres: Integers) -> Integers:
    """(n, 784) the nearest centre c of each pixel p, the first among equals: the least of |c|^2 - 2 p.c."""
    weights = np.empty((len(centres), 4, CELLS), dtype=np.float32)
    weights[:, :3] = -2 * centres.transpose(0, 2, 1)
    weights[:, 3] = np.square(centres).sum(-1)
    nearest: Integers = (pixels @ weights).argmin(-1)
    return nearest


def _means(pixels: Floats, cells: Integers, centres: Integers) -> Integers:
    """(n, 75, 3) the mean of each cell, rounded to whole units."""
    own = (cells + CELLS * np.arange(len(cells))[:, None]).ravel()
    n_cells = len(cells) * CELLS
    count = np.bincount(own, minlength=n_cells)
    total = np.stack(
        [np.bincount(own, pixels[:, :, axis].ravel(), minlength=n_cells) for axis in range(3)], axis=1
    ).astype(np.int64)
    mean = (2 * total + count[:, None]) // np.maximum(2 * count, 1)[:, None]
    return np.where(count[:, None] > 0, mean, centres.reshape(-1, 3)).reshape(centres.shape)


def _store(*, x: Array, position: Array, edges: Array, edge_ptr: Array, labels: Array, schema: str) -> GraphStore:
    n = len(labels)
    return GraphStore(
        x=torch.from_numpy(x.astype(np.float32, copy=False)),
        edge_index=torch.from_numpy(edges.astype(np.int8, copy=False)),
        node_ptr=CELLS * torch.arange(n + 1),
        edge_ptr=torch.from_numpy(edge_ptr.astype(np.int64, copy=False)),
        y=torch.from_numpy(labels.astype(np.float32)).unsqueeze(1),
        env=torch.full((n,), -1),
        index=torch.arange(n),
        node_features=Features("float", (1,), schema),
        extras={"node_pos": torch.from_numpy(position.astype(np.float32, copy=False))},
    )
