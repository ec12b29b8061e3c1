"""Do the nodes that an explanation points to really decide? Measured by hiding them, and against the truth where known.

Fidelity as in Pope et al. (2019) and Yuan et al. (2022), on probabilities: for the class that a graph is taken for,

    fidelity+  =  mean of  p(graph) - p(graph without its important nodes),     high when they matter,
    fidelity-  =  mean of  p(graph) - p(important nodes alone),                 low when they suffice.

A sparsity of 0.8 means that a fifth of the nodes of each graph, rounded up, are the important ones; at least one node
is important and at least one is not. Of nodes with equal scores chance decides, not their order: in generated graphs
the order gives the answer away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mphil.errors import DataError
from mphil.explain.atoms import By, node_scores, random_scores, relative
from mphil.explain.removal import chance_of, keep_nodes, predicted_classes
from mphil.graphs.store import Batch, GraphStore
from mphil.methods.base import Method
from mphil.training.metrics import roc_auc

SPARSITIES = (0.5, 0.6, 0.7, 0.8, 0.9)
DIGITS = 6
"""Decimals of a score, scaled to the graph, that count: what differs less is equal."""

ROUNDING = 1e-9
"""Taken off before rounding up, so that 0.2 of 25 is 5 and not 6."""


@dataclass(frozen=True)
class Faithfulness:
    """How faithful one way of scoring nodes is.

    Attributes:
        graphs: how many were measured: those with at least two nodes.
        fidelity_plus: sparsity to fidelity+.
        fidelity_minus: sparsity to fidelity-.
        auc: mean over graphs of the ROC-AUC of the scores against the nodes that truly decide, or None where unknown.
        auc_graphs: graphs that have nodes of both kinds, over which that mean goes.
    """

    graphs: int
    fidelity_plus: dict[float, float]
    fidelity_minus: dict[float, float]
    auc: float | None = None
    auc_graphs: int = 0

    def as_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return {
            "graphs": self.graphs,
            "fidelity_plus": {str(s): value for s, value in self.fidelity_plus.items()},
            "fidelity_minus": {str(s): value for s, value in self.fidelity_minus.items()},
            "auc": self.auc,
            "auc_graphs": self.auc_graphs,
        }


@dataclass
class _Sums:
    """What adds up over the batches."""

    graphs: int = 0
    plus: dict[float, float] = field(default_factory=dict)
    minus: dict[float, float] = field(default_factory=dict)
    areas: list[float] = field(default_factory=list)


def measure(
    method: Method,
    store: GraphStore,
    graphs: Tensor,
    by: By | None = None,
    *,
    sparsities: Sequence[float] = SPARSITIES,
    seed: int = 0,
    batch_size: int = 256,
    advance: Callable[[int], object] = lambda done: None,
) -> Faithfulness:
    """Measure a way of scoring nodes on some graphs.

    Args:
        method: a trained method.
        store: the graphs; the extra `node_truth` marks the nodes that decide, where that is known.
        graphs: (n,) positions in the store; graphs with a single node are passed over.
        by: how nodes are scored; see `mphil.explain.atoms.ways`.
        sparsities: shares of nodes that are not important, between 0 and 1.
        seed: of random scores and of the choice among equals.
        batch_size: graphs at a time.
        advance: told how many graphs more are done.
    """
    if not all(0 < sparsity < 1 for sparsity in sparsities):
        raise DataError(f"a sparsity lies between 0 and 1, both left out, not {list(sparsities)}")
    chosen = graphs[store.n_nodes[graphs] > 1]
    if not len(chosen):
        raise DataError("none of these graphs has two nodes: there is nothing to choose between")
    truth = store.extras.get("node_truth")
    sums = _Sums(plus=dict.fromkeys(sparsities, 0.0), minus=dict.fromkeys(sparsities, 0.0))
    for positions in torch.split(chosen, batch_size):
        batch = store.batch(positions, extras=truth is not None)
        scores = node_scores(method, batch, by, seed=seed)
        _add_fidelity(sums, method, batch, scores, seed)
        if truth is not None:
            sums.areas += node_areas(scores, batch["node_truth"], batch.ptr)
        advance(len(positions))
    return Faithfulness(
        graphs=sums.graphs,
        fidelity_plus={sparsity: total / sums.graphs for sparsity, total in sums.plus.items()},
        fidelity_minus={sparsity: total / sums.graphs for sparsity, total in sums.minus.items()},
        auc=float(np.mean(sums.areas)) if sums.areas else None,
        auc_graphs=len(sums.areas),
    )


def _add_fidelity(sums: _Sums, method: Method, batch: Batch, scores: Tensor, seed: int) -> None:
    classes = predicted_classes(method, batch)
    before = chance_of(method, batch, classes)
    for sparsity in sums.plus:
        important = important_nodes(scores, batch, sparsity, seed)
        without, alone = (chance_of(method, keep_nodes(batch, kept), classes) for kept in (~important, important))
        sums.plus[sparsity] += float((before - without).sum())
        sums.minus[sparsity] += float((before - alone).sum())
    sums.graphs += len(before)


def important_nodes(scores: Tensor, batch: Batch, sparsity: float, seed: int = 0) -> Tensor:
    """(n_nodes,) True for the nodes of each graph with the highest scores, a share of 1 - sparsity, rounded up.

    At least one node of a graph is important and at least one is not; a graph with a single node has an important one.

    Args:
        scores: (n_nodes,).
        batch: the graphs.
        sparsity: share of nodes that are not important.
        seed: of the choice among nodes with equal scores.
    """
    owner = batch.batch.cpu().numpy()
    rounded = relative(scores, batch.ptr).cpu().double().numpy().round(DIGITS)
    chance = random_scores(batch, seed).cpu().numpy()
    order = np.lexsort((chance, -rounded, owner))
    ptr = batch.ptr.cpu().numpy()
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order)) - ptr[owner]
    sizes = np.diff(ptr)
    wanted = np.ceil(sizes * (1 - sparsity) - ROUNDING)
    wanted = np.clip(wanted, 1, np.maximum(sizes - 1, 1))
    return torch.from_numpy(place < wanted[owner]).to(scores.device)


def node_areas(scores: Tensor, truth: Tensor, ptr: Tensor) -> list[float]:
    """ROC-AUC of the scores against the truth inside each graph, for graphs that have nodes of both kinds.

    Args:
        scores: (n_nodes,).
        truth: (n_nodes,) True for nodes that decide.
        ptr: (n_graphs + 1,) where each graph begins.

    Example:
        >>> marks = torch.tensor([True, False, False])
        >>> node_areas(torch.tensor([0.5, 0.1, 0.9]), marks, torch.tensor([0, 3]))
        [0.5]
    """
    rounded = relative(scores, ptr).cpu().double().numpy().round(DIGITS)
    ends = ptr[1:-1].cpu().numpy()
    marks: NDArray[np.float64] = truth.cpu().double().numpy()
    pairs = zip(np.split(rounded, ends), np.split(marks, ends), strict=True)
    areas = (roc_auc(values, labels) for values, labels in pairs)
    return [area for area in areas if area is not None]
