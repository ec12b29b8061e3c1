"""Graphs that are no molecules: PyG datasets, folders in the TU text format, stores of our own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mphil.errors import DataError, UsageError
from mphil.graphs.features import Features
from mphil.graphs.store import GraphStore, pointer
from mphil.tables.cell_values import MOST_CLASSES, Coded, Target, normal_label, read_target
from mphil.tables.survey import Survey
from mphil.tables.targets import Wanted

if TYPE_CHECKING:
    from torch_geometric.data import Data

FloatArray = NDArray[np.float64]


def open_graphs(source: Path | str | Iterable[Data]) -> GraphStore:
    """Take over a PyG dataset (any iterable of `Data`), or read a folder.

    A folder holds a saved `GraphStore`, or the text files of the TU collection (`NAME_A.txt`,
    `NAME_graph_indicator.txt`, `NAME_graph_labels.txt` and so on), also in its subfolder `raw`, where PyG keeps them.
    PyG's own `processed/*.pt` are pickles, which can run any program when they are opened: they are not read.

    Raises:
        UsageError: there is no such folder.
        DataError: the folder holds no graphs that we read, or its files contradict each other.
    """
    if not isinstance(source, (str, Path)):
        return GraphStore.from_pyg(source)
    folder = Path(source)
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder")
    if (folder / "store.json").is_file():
        return GraphStore.load(folder)
    for place in (folder, folder / "raw"):
        for indicator in sorted(place.glob("*_graph_indicator.txt")):
            return _read_tu(place / indicator.name.removesuffix("_graph_indicator.txt"))
    hint = ""
    if any(folder.rglob("*.pt")):
        hint = "; its .pt files are pickles: load the dataset in Python and give it to GraphStore.from_pyg"
    raise DataError(f"{folder}: no graph store and no NAME_A.txt with NAME_graph_indicator.txt{hint}")


def survey_graphs(store: GraphStore, wanted: Wanted = "") -> Survey:
    """What each graph is: size, label and a key that equal graphs share (same nodes in the same order).

    Args:
        store: the graphs.
        wanted: whether labels are classes or measurements; by what they look like when empty.

    Raises:
        DataError: classes are wanted of measurements.
    """
    keys = Coded()
    keys.extend(_graph_key(store[i : i + 1]) for i in range(len(store)))
    labels = []
    for task, column in enumerate(store.y.T):
        coded = Coded()
        coded.extend("" if np.isnan(value) else normal_label(repr(value)) for value in column.tolist())
        target = read_target("y" if store.y.shape[1] == 1 else f"y{task}", coded, MOST_CLASSES)
        if target.kind == "continuous" and wanted == "classification":
            raise DataError(f"{target.name!r} is a measurement, not a class: make classes of it, or --task regression")
        if wanted == "regression":
            target = Target(target.name, "continuous", (), column.double().numpy())
        labels.append(target)
    domains = {}
    if (store.env >= 0).any():
        domains["env"] = Coded()
        domains["env"].extend("" if env < 0 else str(env) for env in store.env.tolist())
    numbers = np.arange(len(store))
    return Survey(len(store), numbers, numbers + 1, keys, store.n_nodes.numpy(), None, tuple(labels), domains)


def _graph_key(graph: GraphStore) -> str:
    sha = hashlib.blake2b(digest_size=16)
    for tensor in (graph.x, graph.edge_index, graph.edge_attr):
        sha.update(
            b"-" if tensor is None else f"{tuple(tensor.shape)}".encode() + tensor.contiguous().numpy().tobytes()
        )
    return sha.hexdigest()


def _read_tu(prefix: Path) -> GraphStore:
    """The TU text format: everything counts from 1, a line per node, edge or graph."""
    graph_of = _column(prefix, "graph_indicator", np.int64)
    n_graphs = int(graph_of.max(initial=0))
    if not n_graphs or graph_of.min() < 1 or (np.diff(graph_of) < 0).any():
        raise DataError(f"{prefix}_graph_indicator.txt: graph numbers must count from 1 and ascend")
    n_nodes = np.bincount(graph_of - 1, minlength=n_graphs)
    first = np.cumsum(n_nodes) - n_nodes
    edges = _matrix(prefix, "A", np.int64)
    if edges.shape[1] != 2 or (len(edges) and not 1 <= edges.min() <= edges.max() <= len(graph_of)):
        raise DataError(f"{prefix}_A.txt: each line must name two of the {len(graph_of):,} nodes")
    owner = graph_of[edges - 1] - 1
    if (owner[:, 0] != owner[:, 1]).any():
        line = int(np.flatnonzero(owner[:, 0] != owner[:, 1])[0]) + 1
        raise DataError(f"{prefix}_A.txt:{line}: an edge between two graphs")
    order = np.argsort(owner[:, 0], kind="stable")
    local = (edges - 1 - first[owner])[order].T
    node = _features(prefix, "node", len(graph_of))
    edge = _features(prefix, "edge", len(edges))
    return GraphStore(
        x=torch.ones(len(graph_of), 1) if node is None else node,
        edge_index=torch.from_numpy(np.ascontiguousarray(local)).int(),
        edge_attr=None if edge is None else edge[torch.from_numpy(order)],
        node_ptr=pointer(torch.from_numpy(n_nodes)),
        edge_ptr=pointer(torch.from_numpy(np.bincount(owner[:, 0], minlength=n_graphs))),
        y=_tu_labels(prefix, n_graphs),
        env=torch.full((n_graphs,), -1),
        index=torch.arange(n_graphs),
        node_features=Features.constant() if node is None else Features.read(node),
        edge_features=Features.none() if edge is None else Features.read(edge),
    )


def _tu_labels(prefix: Path, n_graphs: int) -> Tensor:
    """(n_graphs, 1) classes counted from 0, whatever numbers the file uses for them (1 and 2, -1 and 1)."""
    labels = _column(prefix, "graph_labels", np.int64)
    if len(labels) != n_graphs:
        raise DataError(f"{prefix}_graph_labels.txt: {len(labels):,} labels for {n_graphs:,} graphs")
    _, classes = np.unique(labels, return_inverse=True)
    return torch.from_numpy(classes).float().unsqueeze(1)


def _features(prefix: Path, level: str, rows: int) -> Tensor | None:
    """Codes from `NAME_level_labels.txt`, or else floats from `NAME_level_attributes.txt`, or else nothing."""
    for name, kind in ((f"{level}_labels", np.int64), (f"{level}_attributes", np.float64)):
        if Path(f"{prefix}_{name}.txt").is_file():
            values = _matrix(prefix, name, kind)
            if len(values) != rows:
                raise DataError(f"{prefix}_{name}.txt: {len(values):,} lines where {rows:,} are needed")
            tensor = torch.from_numpy(values - values.min(0, initial=0) if kind is np.int64 else values)
            return tensor if kind is np.int64 else tensor.float()
    return None


def _column(prefix: Path, name: str, kind: type) -> NDArray[np.int64]:
    values = _matrix(prefix, name, kind)
    if values.shape[1] != 1:
        raise DataError(f"{prefix}_{name}.txt: one number a line is needed, not {values.shape[1]}")
    return values[:, 0]


def _matrix(prefix: Path, name: str, kind: type) -> NDArray[np.int64]:
    path = Path(f"{prefix}_{name}.txt")
    try:
        text = path.read_text()
        rows = [line.split(",") for line in text.splitlines() if line.strip()]
        return np.array(rows, dtype=str).astype(kind).reshape(len(rows), -1)
    except FileNotFoundError as error:
        raise DataError(f"{path}: this file is missing") from error
    except (ValueError, OverflowError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a table of numbers ({str(error)[:100]})") from error
