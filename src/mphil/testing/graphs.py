"""Small random graphs with everything that real data contain and tests forget."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mphil.graphs.features import Features
from mphil.graphs.store import Batch, GraphStore
from mphil.tables.from_smiles import molecule_store
from mphil.task import Task

N_NODES = (7, 1, 9, 4, 6, 11, 5, 8, 3, 10, 2, 6)
"""Nodes of the graphs unless told otherwise: one has a single node, three have no edges, others have isolated nodes."""

MOLECULES = (
    "CC(=O)NCCc1ccccc1",
    "C",
    "COc1ccc(CN2CCOCC2)cc1",
    "CCOC(=O)C",
    "O",
    "CC(C)NC(=O)c1ccncc1",
    "CCO",
    "O=S(=O)(NC1CC1)c1ccccc1",
    "CC#N",
    "[Na+].CC(=O)[O-]",
    "N",
    "CC1CCN(C(=O)C)CC1",
)
"""Two molecules are a single atom, one is in two pieces, some have bonds that a chemist would cut."""


def random_graphs(
    task: Task,
    node: Features | None = None,
    edge: Features | None = None,
    *,
    n_nodes: Sequence[int] = N_NODES,
    seed: int = 0,
) -> GraphStore:
    """Graphs for tests: random edges, features and labels, three environments.

    Every fifth graph has no edges. All classes occur when there are enough graphs. About a third of the labels of a
    multi-task problem or a regression are missing.

    Args:
        task: what the labels are for.
        node: what the nodes carry; constants when left out.
        edge: what the edges carry; nothing when left out.
        n_nodes: nodes of each graph.
        seed: of everything random.

    Example:
        >>> store = random_graphs(Task("multiclass", 3, "accuracy"))
        >>> len(store), store.n_nodes.tolist()[:3]
        (12, [7, 1, 9])
    """
    generator = torch.Generator().manual_seed(seed)
    node, edge = node or Features.constant(), edge or Features.none()
    graphs = []
    for number, n in enumerate(n_nodes):
        pairs = torch.randint(0, n, (2, 0 if number % 5 == 4 else n), generator=generator)
        pairs = pairs[:, pairs[0] != pairs[1]]
        attr = random_features(edge, pairs.shape[1], generator)
        graphs.append(
            Batch(
                x=random_features(node, n, generator),
                edge_index=torch.cat([pairs, pairs.flip(0)], dim=1),
                edge_attr=None if attr is None else torch.cat([attr, attr]),
                y=_label(task, number, generator),
                env=number // 2 % 3,
            )
        )
    return GraphStore.from_pyg(graphs, node_features=node, edge_features=edge)


def labelled_molecules(task: Task, *, seed: int = 0) -> GraphStore:
    """Twelve small molecules with their SMILES; labels and environments as in `random_graphs`."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.stack([_label(task, number, generator) for number in range(len(MOLECULES))])
    env = torch.arange(len(MOLECULES)) // 2 % 3
    return molecule_store(MOLECULES, y, env=env, workers=0, progress=False)[0]


def random_features(features: Features, rows: int, generator: torch.Generator) -> Tensor | None:
    """(rows, columns) values of this kind, or None when there are none."""
    if features.kind == "none":
        return None
    if features.kind == "constant":
        return torch.ones(rows, features.width)
    if features.kind == "float":
        return torch.randn(rows, features.width, generator=generator)
    return torch.stack([torch.randint(0, size, (rows,), generator=generator) for size in features.sizes], dim=1)


def to_dtype(batch: Batch, dtype: torch.dtype) -> Batch:
    """A copy of the batch with all its floating-point tensors in another precision."""
    return batch.clone().apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)


def _label(task: Task, number: int, generator: torch.Generator) -> Tensor:
    if task.kind == "regression":
        labels = torch.from_numpy(
            task.to_units(torch.randn(task.n_tasks, generator=generator).double().numpy())
        ).float()
    elif task.kind == "multitask":
        labels = torch.randint(0, 2, (task.n_tasks,), generator=generator).float()
    else:
        return torch.tensor([float(number % task.n_classes)])
    return labels.masked_fill(torch.rand(task.n_tasks, generator=generator) < 1 / 3, float("nan"))
