"""PyG graphs end to end: the attributes of many as one tensor each, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mphil.errors import DataError

if TYPE_CHECKING:
    from torch_geometric.data import Data


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
