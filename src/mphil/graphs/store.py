"""All graphs of a dataset in a handful of flat tensors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mphil.errors import DataError, IntegrityError
from mphil.files import replace_folder
from mphil.graphs.batch import Batch, GraphBatch, join_edges, join_labels, join_rows
from mphil.graphs.features import Features, Strings

if TYPE_CHECKING:
    from torch_geometric.data import Data

__all__ = ["Batch", "GraphBatch", "GraphStore", "pointer", "ranges"]

FORMAT = 1
T = TypeVar("T")

DERIVED = ("counts", "descriptors")
"""Extras that follow from the molecules themselves: batches always have them, files and digests never."""


@dataclass(frozen=True, eq=False)
class GraphStore:
    """Graphs laid end to end: node `v` of graph `g` is row `node_ptr[g] + v` of `x`.

    Every per-node, per-edge and per-graph quantity is one tensor, so a range of graphs is a set of views and a batch
    is a few gathers, without a Python object per graph.

    Attributes:
        x: (n_nodes, n_features) node features; integer codes, floats, or ones when nodes carry nothing.
        edge_index: (2, n_edges) source and target, counted inside each graph; both directions are stored.
        node_ptr: (n_graphs + 1,) where the nodes of each graph begin.
        edge_ptr: (n_graphs + 1,) where its edges begin.
        y: (n_graphs, n_tasks) float labels, NaN = missing.
        env: (n_graphs,) environment number, -1 = unknown.
        index: (n_graphs,) stable number of each graph in the dataset it came from.
        edge_attr: (n_edges, n_edge_features) or None.
        node_features: what the columns of `x` are.
        edge_features: what the columns of `edge_attr` are.
        extras: further tensors: names that begin with `node_` have a row per node, `edge_` a row per edge, all others
            a row per graph. `node_truth` and `edge_truth` mark the part that decides the label, where it is known;
            those in `DERIVED` are what a network reads of a whole molecule.
        smiles: one string per graph, or None.
    """

    x: Tensor
    edge_index: Tensor
    node_ptr: Tensor
    edge_ptr: Tensor
    y: Tensor
    env: Tensor
    index: Tensor
    node_features: Features
    edge_features: Features = field(default_factory=Features.none)
    edge_attr: Tensor | None = None
    extras: dict[str, Tensor] = field(default_factory=dict)
    smiles: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.y.dim() != 2 or not self.y.is_floating_point():
            raise DataError(f"labels must be floats of shape (n_graphs, n_tasks), not {tuple(self.y.shape)}")
        if self.edge_index.dim() != 2 or self.edge_index.shape[0] != 2:
            raise DataError(f"edge_index must have shape (2, n_edges), not {tuple(self.edge_index.shape)}")
        n_nodes, n_edges = (int(ptr[-1] - ptr[0]) for ptr in (self.node_ptr, self.edge_ptr))
        rows = {"x": (self.x.shape[0], n_nodes), "edge_index": (self.edge_index.shape[1], n_edges)}
        rows["edge_ptr"] = (len(self.edge_ptr), len(self) + 1)
        if self.edge_attr is not None:
            rows["edge_attr"] = (self.edge_attr.shape[0], n_edges)
        if self.smiles is not None:
            rows["smiles"] = (len(self.smiles), len(self))
        for name, tensor in {"y": self.y, "env": self.env, "index": self.index, **self.extras}.items():
            rows[name] = (tensor.shape[0], _rows(name, n_nodes, n_edges, len(self)))
        for name, (found, expected) in rows.items():
            if found != expected:
                raise DataError(f"{name} has {found} rows where the {len(self)} graphs of the store need {expected}")

    def __len__(self) -> int:
        return int(self.node_ptr.numel()) - 1

    def __repr__(self) -> str:
        nodes, edges = self.x.shape[0], self.edge_index.shape[1]
        return f"GraphStore({len(self):,} graphs, {nodes:,} nodes, {edges:,} edges, {self.y.shape[1]} tasks)"

    @property
    def n_nodes(self) -> Tensor:
        """(n_graphs,) nodes of each graph."""
        return self.node_ptr.diff()

    @property
    def n_edges(self) -> Tensor:
        """(n_graphs,) directed edges of each graph."""
        return self.edge_ptr.diff()

    def __getitem__(self, span: slice) -> GraphStore:
        """A contiguous range of graphs, as views: nothing is copied, whatever the size."""
        start, stop, step = span.indices(len(self))
        if step != 1:
            raise IndexError("a store is sliced with step 1; use select() for anything else")
        stop = max(start, stop)
        nodes = slice(*(self.node_ptr[[start, stop]] - self.node_ptr[0]).tolist())
        edges = slice(*(self.edge_ptr[[start, stop]] - self.edge_ptr[0]).tolist())
        graphs = slice(start, stop)
        return replace(
            self,
            x=self.x[nodes],
            edge_index=self.edge_index[:, edges],
            edge_attr=None if self.edge_attr is None else self.edge_attr[edges],
            node_ptr=self.node_ptr[start : stop + 1],
            edge_ptr=self.edge_ptr[start : stop + 1],
            y=self.y[graphs],
            env=self.env[graphs],
            index=self.index[graphs],
            extras={k: v[_rows(k, nodes, edges, graphs)] for k, v in self.extras.items()},
            smiles=None if self.smiles is None else self.smiles[graphs],
        )

    def select(self, graphs: Tensor) -> GraphStore:
        """The graphs at these positions, in this order, copied into a store of their own."""
        nodes, node_counts = ranges(self.node_ptr, graphs)
        edges, edge_counts = ranges(self.edge_ptr, graphs)
        return replace(
            self,
            x=self.x[nodes],
            edge_index=self.edge_index[:, edges],
            edge_attr=None if self.edge_attr is None else self.edge_attr[edges],
            node_ptr=pointer(node_counts),
            edge_ptr=pointer(edge_counts),
            y=self.y[graphs],
            env=self.env[graphs],
            index=self.index[graphs],
            extras={k: v[_rows(k, nodes, edges, graphs)] for k, v in self.extras.items()},
            smiles=None if self.smiles is None else [self.smiles[i] for i in graphs.tolist()],
        )

    def batch(self, graphs: Tensor, extras: bool = False) -> GraphBatch:
        """The graphs at these positions as one batch; `extras` adds all extra tensors as attributes."""
        nodes, node_counts = ranges(self.node_ptr, graphs)
        edges, edge_counts = ranges(self.edge_ptr, graphs)
        ptr = pointer(node_counts)
        edge_index = self.edge_index[:, edges].long() + ptr[:-1].repeat_interleave(edge_counts)
        x = self.x[nodes]
        edge_attr = None if self.edge_attr is None else self.edge_attr[edges]
        batch = GraphBatch(
            x=x if x.is_floating_point() else x.long(),
            edge_index=edge_index,
            edge_attr=edge_attr if edge_attr is None or edge_attr.is_floating_point() else edge_attr.long(),
            y=self.y[graphs],
            batch=torch.arange(len(graphs)).repeat_interleave(node_counts),
            ptr=ptr,
            env=self.env[graphs],
            index=self.index[graphs],
        )
        if self.smiles is not None:
            batch.smiles = [self.smiles[i] for i in graphs.tolist()]
        for name, tensor in self.extras.items():
            if extras or name in DERIVED:
                batch[name] = tensor[_rows(name, nodes, edges, graphs)]
        return batch

    @classmethod
    def from_pyg(
        cls,
        dataset: Iterable[Data],
        *,
        node_features: Features | None = None,
        edge_features: Features | None = None,
        extras: Iterable[str] = (),
    ) -> GraphStore:
        """Take over any iterable of PyG graphs, or of objects with their attributes.

        Args:
            dataset: graphs with edge_index and, optionally, x, edge_attr, y, env and smiles.
            node_features: kind of `x`, read off the tensor when not given.
            edge_features: kind of `edge_attr`, likewise.
            extras: names of further tensors to take over.
        """
        graphs = list(dataset)
        if not graphs:
            raise DataError("the dataset has no graphs")
        n_nodes = torch.tensor([int(g.num_nodes or 0) for g in graphs])
        n_edges = torch.tensor([int(g.num_edges) for g in graphs])
        x, edge_attr = join_rows(graphs, "x"), join_rows(graphs, "edge_attr")
        bare = torch.ones(int(n_nodes.sum()), 1)
        return cls(
            x=bare if x is None else x,
            edge_index=join_edges(graphs, n_nodes, n_edges).int(),
            edge_attr=edge_attr,
            node_ptr=pointer(n_nodes),
            edge_ptr=pointer(n_edges),
            y=join_labels(graphs),
            env=torch.tensor([int(g.env) if g.get("env") is not None else -1 for g in graphs]),
            index=torch.arange(len(graphs)),
            node_features=node_features or (Features.constant() if x is None else Features.read(x)),
            edge_features=edge_features or (Features.none() if edge_attr is None else Features.read(edge_attr)),
            extras={name: torch.cat([g[name] for g in graphs]) for name in extras},
            smiles=[g.smiles for g in graphs] if graphs[0].get("smiles") is not None else None,
        )

    def to_pyg(self) -> list[Data]:
        """One `Data` per graph, extras included; the graph's `index` is called `id`.

        PyG adds node offsets to whatever has `index` in its name when it makes a batch of its own.
        """
        graphs = []
        for i in range(len(self)):
            graph = self.batch(torch.tensor([i]), extras=True).to_pyg()
            graph.id = graph.index
            del graph.batch, graph.ptr, graph.index
            if self.smiles is not None:
                graph.smiles = self.smiles[i]
            graphs.append(graph)
        return graphs

    def digest(self) -> str:
        """Hash of everything the store holds; equal stores have equal digests on every machine."""
        return _digest(self._meta(), self._arrays())

    def save(self, folder: Path) -> None:
        """Write one `.npy` file per tensor, all or nothing."""
        arrays = self._arrays()
        meta = self._meta() | {"arrays": _shapes(arrays), "digest": _digest(self._meta(), arrays)}
        with replace_folder(folder) as draft:
            for name, array in arrays.items():
                np.save(draft / f"{name}.npy", array, allow_pickle=False)
            (draft / "store.json").write_text(json.dumps(meta, indent=1))

    @classmethod
    def load(cls, folder: Path, verify: bool = True) -> GraphStore:
        """Map a saved store into memory, all of it checked.

        Args:
            folder: where it was saved.
            verify: read and check all contents; without it, pages are read when they are touched.

        Raises:
            IntegrityError: a file is missing, cut short or unreadable, or (unless `verify` is off) a bit has changed.
        """
        try:
            return cls._read(folder, verify)
        except IntegrityError:
            raise
        except (
            Exception
        ) as error:  # whatever a damaged header makes of the parser: ValueError, TokenError, EOFError ...
            raise IntegrityError(f"{folder}: no readable graph store ({error}); delete it and build again") from error

    @classmethod
    def _read(cls, folder: Path, verify: bool) -> GraphStore:
        meta = json.loads((folder / "store.json").read_text())
        if meta["format"] != FORMAT:
            raise IntegrityError(
                f"{folder}: store format {meta['format']}, this version reads {FORMAT}; delete it and build again"
            )
        arrays = {p.stem: np.load(p, mmap_mode="c", allow_pickle=False) for p in sorted(folder.glob("*.npy"))}
        if _shapes(arrays) != meta["arrays"]:
            raise IntegrityError(f"{folder}: files are missing or of another size; delete it and build again")
        smiles = Strings(arrays["smiles_bytes"], arrays["smiles_ptr"]) if "smiles_ptr" in arrays else None
        tensors = {name: torch.from_numpy(a) for name, a in arrays.items() if not name.startswith("smiles_")}
        extras = {k.removeprefix("extra."): tensors.pop(k) for k in list(tensors) if k.startswith("extra.")}
        store = cls(
            **tensors,
            node_features=Features(**meta["node_features"]),
            edge_features=Features(**meta["edge_features"]),
            extras=extras,
            smiles=smiles,
        )
        # What the files hold is hashed, not what the store makes of it: a damaged offset may do no harm today.
        if verify and meta != store._meta() | {"arrays": _shapes(arrays), "digest": _digest(store._meta(), arrays)}:
            raise IntegrityError(f"{folder}: contents do not match their checksum; delete it and build again")
        return store

    def _arrays(self) -> dict[str, NDArray[Any]]:
        names = ("x", "edge_index", "edge_attr", "y", "env", "index")
        tensors = {n: getattr(self, n) for n in names if getattr(self, n) is not None}
        tensors |= {"node_ptr": self.node_ptr - self.node_ptr[0], "edge_ptr": self.edge_ptr - self.edge_ptr[0]}
        tensors |= {f"extra.{k}": v for k, v in self.extras.items() if k not in DERIVED}
        arrays = {k: v.numpy() for k, v in tensors.items()}
        if self.smiles is not None:
            encoded = [s.encode() for s in self.smiles]
            arrays["smiles_bytes"] = np.frombuffer(b"".join(encoded), dtype=np.uint8)
            arrays["smiles_ptr"] = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        return arrays

    def _meta(self) -> dict[str, object]:
        return {
            "format": FORMAT,
            "graphs": len(self),
            "node_features": self.node_features.as_dict(),
            "edge_features": self.edge_features.as_dict(),
        }


def pointer(counts: Tensor) -> Tensor:
    """Counts to offsets: (n,) -> (n + 1,), beginning with 0."""
    ptr = torch.zeros(counts.numel() + 1, dtype=torch.long, device=counts.device)
    torch.cumsum(counts, 0, out=ptr[1:])
    return ptr


def ranges(ptr: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
    """Row numbers of all rows that belong to `items`, in order, and how many each item has."""
    start = ptr[items] - ptr[0]
    counts = ptr[items + 1] - ptr[items]
    offset = start - (counts.cumsum(0) - counts)
    return torch.arange(int(counts.sum()), device=ptr.device) + offset.repeat_interleave(counts), counts


def _rows(name: str, nodes: T, edges: T, graphs: T) -> T:
    """The one of three that fits the level of a tensor, which its name tells."""
    return nodes if name.startswith("node_") else edges if name.startswith("edge_") else graphs


def _digest(meta: dict[str, object], arrays: dict[str, NDArray[Any]]) -> str:
    sha = hashlib.sha256(json.dumps(meta, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        sha.update(f"{name}{array.dtype.str}{array.shape}".encode())
        sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()


def _shapes(arrays: dict[str, NDArray[Any]]) -> dict[str, list[Any]]:
    return {name: [array.dtype.str, *array.shape] for name, array in arrays.items()}
