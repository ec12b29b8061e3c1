"""Small random graphs of every kind, for tests that need some and do not care which."""

from __future__ import annotations

from typing import Literal

import torch

from mphil.config import EncoderConfig
from mphil.graphs.features import Features
from mphil.graphs.store import Batch, GraphStore, pointer
from mphil.task import Kind, Task

TASKS: dict[Kind, Task] = {
    "multiclass": Task("multiclass", 3, "accuracy"),
    "binary": Task("binary", 1, "roc_auc"),
    "multitask": Task("multitask", 4, "average_precision"),
}
NODES: dict[str, Features] = {
    "constant": Features.constant(),
    "float": Features("float", (3,)),
    "categorical": Features("categorical", (5, 2, 3)),
}
EDGES: dict[str, Features] = {
    "none": Features.none(),
    "float": Features("float", (2,)),
    "categorical": Features("categorical", (4, 2)),
}


def random_store(
    kind: Kind = "multiclass",
    *,
    graphs: int = 12,
    nodes: Literal["constant", "float", "categorical"] = "float",
    edges: Literal["none", "float", "categorical"] = "none",
    missing: float = 0.0,
    environments: int = 2,
    seed: int = 0,
) -> GraphStore:
    """Graphs of 1 to 7 nodes, some without edges; classes and environments take turns, so that all occur.

    Args:
        kind: the task is `TASKS[kind]`.
        graphs: how many.
        nodes: kind of the node features.
        edges: kind of the edge features.
        missing: share of labels that are NaN.
        environments: how many environments.
        seed: of everything drawn.
    """
    draw = torch.Generator().manual_seed(seed)
    n_nodes = torch.randint(1, 8, (graphs,), generator=draw)
    edge_lists = [_random_edges(int(n), draw) for n in n_nodes]
    n_edges = torch.tensor([pairs.shape[1] for pairs in edge_lists])
    task = TASKS[kind]
    turns = torch.arange(graphs).unsqueeze(1) + torch.arange(task.n_tasks)
    y = (turns % task.n_classes).float()
    y[torch.rand(y.shape, generator=draw) < missing] = torch.nan
    return GraphStore(
        x=_random_features(NODES[nodes], int(n_nodes.sum()), draw),
        edge_index=torch.cat(edge_lists, dim=1).int(),
        edge_attr=None if edges == "none" else _random_features(EDGES[edges], int(n_edges.sum()), draw),
        node_ptr=pointer(n_nodes),
        edge_ptr=pointer(n_edges),
        y=y,
        env=torch.arange(graphs) % environments,
        index=torch.arange(graphs),
        node_features=NODES[nodes],
        edge_features=EDGES[edges],
    )


def whole(store: GraphStore, dtype: torch.dtype = torch.float32) -> Batch:
    """All graphs of a store as one batch; node and edge features that are floats get this dtype."""
    return as_dtype(store.batch(torch.arange(len(store))), dtype)


def as_dtype(batch: Batch, dtype: torch.dtype) -> Batch:
    for name in ("x", "edge_attr"):
        if batch.get(name) is not None and batch[name].is_floating_point():
            batch[name] = batch[name].to(dtype)
    return batch


def small_encoder(
    store: GraphStore, *, width: int = 6, layers: int = 2, dropout: float = 0.0, **other
) -> EncoderConfig:
    """Settings of an encoder that fits the store and is quick; no dropout, so that two calls agree."""
    return EncoderConfig(
        width=width, layers=layers, dropout=dropout, node=store.node_features, edge=store.edge_features, **other
    )


def _random_edges(n: int, draw: torch.Generator) -> torch.Tensor:
    """Each pair of nodes is joined, in both directions, with probability one half."""
    pairs = torch.combinations(torch.arange(n)).T if n > 1 else torch.empty(2, 0, dtype=torch.long)
    pairs = pairs[:, torch.rand(pairs.shape[1], generator=draw) < 0.5]
    return torch.cat([pairs, pairs.flip(0)], dim=1)


def _random_features(features: Features, rows: int, draw: torch.Generator) -> torch.Tensor:
    if features.kind == "constant":
        return torch.ones(rows, 1)
    if features.kind == "float":
        return torch.randn(rows, features.width, generator=draw)
    return torch.stack([torch.randint(size, (rows,), generator=draw) for size in features.sizes], dim=1)
