"""Bridges between the library's MPHIL and the written-out one: the same weights and graphs for both."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mphil.graphs.store import Batch
from mphil.methods import Progress
from mphil.methods.mphil import MPHIL
from mphil.nn.sphere import unit
from mphil.task import Kind
from tests.graphs import TASKS, random_store, small_encoder, whole
from tests.unit.nn import reference

START = Progress()


def build(kind: Kind = "multiclass", *, readout: str = "mean", **options: Any) -> tuple[MPHIL, Batch]:
    """A small float64 MPHIL in training mode and a batch for it.

    Options of `random_store` go to the graphs, all others are hyperparameters.
    """
    about_graphs = {k: options.pop(k) for k in ("graphs", "missing", "seed", "nodes", "edges") if k in options}
    store = random_store(kind, **{"graphs": 9, **about_graphs})
    torch.manual_seed(about_graphs.get("seed", 0))
    model = MPHIL(TASKS[kind], small_encoder(store, readout=readout), **options).double()
    # Drawn in single precision, they are on the sphere only to 1e-8.
    model.prototypes.data = unit(model.prototypes.data)
    return model, whole(store, torch.float64)


def inputs(model: MPHIL, batch: Batch) -> dict[str, Any]:
    """What the reference works on: weights, node features, raw scores, owners, labels and the stored prototypes."""
    with torch.no_grad():
        nodes = model.encoder(batch)
        raw = None if model.scorer is None else model.score_head(model.scorer(batch))
    return {
        "state": {name: reference.listed(value) for name, value in model.state_dict().items()},
        "H": reference.listed(nodes),
        "raw": None if raw is None else reference.listed(raw),
        "graph_of_node": batch.batch.tolist(),
        "y": reference.labelled(batch.y),
        "M": reference.listed(model.prototypes),
    }


class Given(nn.Module):
    """Stands where an encoder was and gives fixed node features, which are parameters."""

    def __init__(self, nodes: Tensor) -> None:
        super().__init__()
        self.nodes = nn.Parameter(nodes.detach().clone())

    def forward(self, batch: Batch) -> Tensor:
        return self.nodes


def give_nodes(model: MPHIL, batch: Batch, nodes: Tensor | None = None) -> None:
    """Replace both encoders by the features they gave, or the first by `nodes`: their entries become leaves."""
    model.encoder = Given(model.encoder(batch) if nodes is None else nodes)  # type: ignore[assignment]
    if model.scorer is not None:
        model.scorer = Given(model.scorer(batch))  # type: ignore[assignment]


def same(found: Tensor, expected: object) -> None:
    torch.testing.assert_close(found.detach(), torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)


def size_of_gradient(module: nn.Module) -> float:
    """Sum of the absolute gradients of all parameters of a module."""
    return sum(p.grad.abs().sum().item() for p in module.parameters() if p.grad is not None)
