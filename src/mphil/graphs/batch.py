"""The batch: graphs side by side as one object, with the attributes and usual methods of a PyG `Data`."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from mphil.errors import DataError

if TYPE_CHECKING:
    from torch_geometric.data import Data

ABSENT = frozenset({"x", "edge_index", "edge_attr", "y"})
"""Attributes that are None, as in PyG, when a batch does not have them; others do not exist."""


class Batch(Protocol):
    """Graphs side by side, as methods and encoders see them: `GraphBatch` is one, and so is a batch of PyG.

    Attributes:
        x: (n_nodes, n_features) node features.
        edge_index: (2, n_edges) source and target of each edge, counted through the batch.
        edge_attr: (n_edges, n_edge_features) or None.
        y: (n_graphs, n_tasks) labels, NaN = missing.
        batch: (n_nodes,) the graph of each node.
        ptr: (n_graphs + 1,) where the nodes of each graph begin.
        env: (n_graphs,) environment number, -1 = unknown.
        index: (n_graphs,) number of each graph in its dataset.
        smiles: (n_graphs,) for molecules; ask `"smiles" in batch` first, and likewise for what follows.
        counts: (n_graphs, 2048) how often each neighbourhood of atoms occurs, for networks that take descriptors.
        descriptors: (n_graphs, 109) numbers of whole molecules, likewise.
        remembered: (n_graphs, d) an embedding that was computed before.
    """

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor | None
    y: Tensor
    batch: Tensor
    ptr: Tensor
    env: Tensor
    index: Tensor
    smiles: list[str]
    counts: Tensor
    descriptors: Tensor
    remembered: Tensor

    def __contains__(self, name: str, /) -> bool: ...


class GraphBatch:
    """Tensors by name. Layers of PyG take them as they are; `to_pyg` gives a `Data` to code that insists on one.

    Further attributes are whatever was set, by name, as in PyG.

    Example:
        >>> two = GraphBatch(batch=torch.tensor([0, 0, 1]), ptr=torch.tensor([0, 2, 3]))
        >>> two.num_graphs, two.num_nodes, two.edge_attr, "edge_attr" in two
        (2, 3, None, False)
    """

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor | None
    y: Tensor
    batch: Tensor
    ptr: Tensor
    env: Tensor
    index: Tensor
    smiles: list[str]
    counts: Tensor
    descriptors: Tensor
    remembered: Tensor

    def __init__(self, **values: Any) -> None:
        self.__dict__.update({name: value for name, value in values.items() if value is not None})

    if not TYPE_CHECKING:  # a name that is not listed is a mistake

        def __getattr__(self, name: str) -> None:
            if name in ABSENT:
                return None
            raise AttributeError(f"the batch has no {name!r}; it has {', '.join(self.keys())}")

    def __getitem__(self, name: str) -> Any:
        return self.__dict__[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value

    def __contains__(self, name: str, /) -> bool:
        return self.__dict__.get(name) is not None

    def __repr__(self) -> str:
        shown = (
            f"{name}={list(value.shape) if isinstance(value, Tensor) else value!r}" for name, value in self._present()
        )
        return f"GraphBatch({', '.join(shown)})"

    @property
    def num_graphs(self) -> int:
        return self.ptr.numel() - 1

    @property
    def num_nodes(self) -> int:
        for name in ("x", "batch"):
            if name in self:
                return len(self[name])
        return int(self.edge_index.max()) + 1 if self.num_edges else 0

    @property
    def num_edges(self) -> int:
        return self.edge_index.shape[1] if "edge_index" in self else 0

    @property
    def num_node_features(self) -> int:
        return _width(self.x)

    @property
    def num_edge_features(self) -> int:
        return _width(self.edge_attr)

    num_features = num_node_features

    def keys(self) -> list[str]:
        """Names of what it has."""
        return [name for name, _ in self._present()]

    def get(self, name: str, default: Any = None) -> Any:
        return self.__dict__.get(name, default)

    def to_dict(self) -> dict[str, Any]:
        """All attributes by name, in a dictionary of their own."""
        return dict(self.__dict__)

    def update(self, values: Mapping[str, Any]) -> GraphBatch:
        """Set several attributes."""
        self.__dict__.update(values)
        return self

    def apply(self, function: Callable[[Tensor], Tensor]) -> GraphBatch:
        """Replace each tensor by what the function makes of it."""
        for name, value in self.__dict__.items():
            if isinstance(value, Tensor):
                self.__dict__[name] = function(value)
        return self

    def to(self, device: torch.device | str | int, *, non_blocking: bool = False) -> GraphBatch:
        """Move all tensors to a device."""
        return self.apply(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def cpu(self) -> GraphBatch:
        return self.to("cpu")

    def clone(self) -> GraphBatch:
        """A copy whose tensors are copies."""
        return copy.copy(self).apply(torch.clone)

    def detach(self) -> GraphBatch:
        """Cut all tensors off from the graph of gradients."""
        return self.apply(torch.Tensor.detach)

    def to_pyg(self) -> Data:
        """The same tensors as a `torch_geometric.data.Data`."""
        from torch_geometric.data import Data

        return Data(**dict(self._present()))

    def _present(self) -> list[tuple[str, Any]]:
        return [(name, value) for name, value in self.__dict__.items() if value is not None]


def is_graph(value: object) -> bool:
    """Whether this is a graph as PyG has them, or a batch of ours; PyG is not imported to find out."""
    pyg = sys.modules.get("torch_geometric.data")
    return isinstance(value, GraphBatch) or (pyg is not None and isinstance(value, pyg.Data))


def _width(rows: Tensor | None) -> int:
    return 0 if rows is None else 1 if rows.dim() == 1 else rows.shape[-1]


def join_rows(graphs: list[Data], name: str) -> Tensor | None:
    """One attribute of all graphs, end to end, as a matrix; None when no graph has it."""
    values = [graph.get(name) for graph in graphs]
    absent = [i for i, value in enumerate(values) if value is None]
    if len(absent) == len(graphs):
        return None
    if absent:
        raise DataError(f"graph {absent[0]} has no {name}, others have; give it to all graphs or to none")
    matrices = [value if value.dim() == 2 else value.unsqueeze(-1) for value in values]
    widths = {matrix.shape[1] for matrix in matrices}
    if len(widths) > 1:
        raise DataError(f"{name} has {min(widths)} columns in some graphs and {max(widths)} in others")
    return torch.cat(matrices)


def join_edges(graphs: list[Data], n_nodes: Tensor, n_edges: Tensor) -> Tensor:
    """(2, n_edges) edges of all graphs, counted inside each; every end must be a node of its graph."""
    none = torch.empty(2, 0, dtype=torch.long)
    edges = torch.cat([none if graph.edge_index is None else graph.edge_index for graph in graphs], dim=1)
    outside = ((edges < 0) | (edges >= n_nodes.repeat_interleave(n_edges))).any(0)
    if outside.any():
        graph = int(torch.arange(len(graphs)).repeat_interleave(n_edges)[outside][0])
        raise DataError(f"graph {graph} has {n_nodes[graph]} nodes and an edge to a node it does not have")
    return edges


def join_labels(graphs: list[Data]) -> Tensor:
    """(n_graphs, n_tasks) float labels; a graph without `y` lacks them all."""
    rows = [None if g.y is None else torch.as_tensor(g.y, dtype=torch.float32).reshape(1, -1) for g in graphs]
    widths = {row.shape[1] for row in rows if row is not None} or {1}
    if len(widths) > 1:
        raise DataError(f"some graphs have {min(widths)} labels and others {max(widths)}; fill the missing with NaN")
    missing = torch.full((1, *widths), float("nan"))
    return torch.cat([missing if row is None else row for row in rows])
