"""Which parts of a molecule a prediction rests on, and what a prediction loses without them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mphil.chem.names import name_part
from mphil.chem.substructures import Kind, Substructure, find_substructures
from mphil.errors import DataError
from mphil.graphs.store import Batch, GraphStore
from mphil.methods.base import Method, evaluating
from mphil.task import Task
from mphil.training.metrics import probabilities


def keep_nodes(batch: Batch, kept: Tensor) -> Batch:
    """The graphs with some of their nodes and the edges between these; the others say nothing and do not count.

    For a network in evaluation mode this is the same as a `node_weight` of 0 together with a readout that passes over
    such nodes. The features of the nodes that stay are those of the whole graph.

    Args:
        batch: the graphs.
        kept: (n_nodes,) bool.

    Returns:
        a batch with as many graphs, whose nodes are numbered anew.

    Example:
        >>> from mphil.tables.from_smiles import molecule_store
        >>> batch = molecule_store(["CCO"], None)[0].batch(torch.tensor([0]))
        >>> part = keep_nodes(batch, torch.tensor([True, True, False]))
        >>> part.ptr.tolist(), part.edge_index.tolist()
        ([0, 2], [[0, 1], [1, 0]])
    """
    number = kept.long().cumsum(0) - 1
    edges = kept[batch.edge_index].all(0)
    part = copy.copy(batch)
    part.x, part.batch = batch.x[kept], batch.batch[kept]
    part.edge_index = number[batch.edge_index[:, edges]]
    if batch.edge_attr is not None:
        part.edge_attr = batch.edge_attr[edges]
    sizes = torch.bincount(part.batch, minlength=batch.ptr.numel() - 1)
    part.ptr = torch.cat([batch.ptr.new_zeros(1), sizes.cumsum(0)])
    return part


def class_probabilities(logits: Tensor, task: Task) -> Tensor:
    """(n_graphs, n_tasks, n_classes) from (n_graphs, n_outputs) logits.

    Example:
        >>> class_probabilities(torch.tensor([[0.0]]), Task("binary", 1, "roc_auc")).tolist()
        [[[0.5, 0.5]]]
    """
    chances = probabilities(logits.double(), task.kind)
    return chances.unsqueeze(1) if task.kind == "multiclass" else torch.stack([1 - chances, chances], dim=-1)


def predicted_numbers(outputs: Tensor, task: Task) -> Tensor:
    """(n_graphs, n_tasks) numbers of a regression in the unit of each task, from its outputs."""
    return torch.from_numpy(task.to_units(outputs.double().cpu().numpy()))


def predicted_classes(method: Method, batch: Batch) -> Tensor:
    """(n_graphs, n_tasks) the class that a method takes each graph for, in every task."""
    with evaluating(method):
        return class_probabilities(method.predict(batch), method.task).argmax(-1)


def chance_of(method: Method, batch: Batch, classes: Tensor) -> Tensor:
    """(n_graphs,) probability that a method gives to (n_graphs, n_tasks) classes, averaged over the tasks."""
    with evaluating(method):
        chances = class_probabilities(method.predict(batch), method.task)
    return chances.gather(-1, classes.unsqueeze(-1)).squeeze(-1).mean(1)


MOST = 40
"""Substructures of a molecule that are hidden in turn: those with the highest importance."""

TELLING = 1e-3
"""Differences of a probability below this are rounding."""

NOTABLE = 0.02
"""Changes of a probability from which on a reader is told of them."""


@dataclass(frozen=True)
class RankedSubstructure:
    """A part of a molecule and what it does for the prediction.

    Attributes:
        kind: `ring`, `group` or `fragment`.
        smiles: the part, `*` where it hangs on the rest.
        atoms: numbers of its atoms.
        importance: mean importance of its atoms, between 0 and 1: the number that colours them, and the order of parts.
        drop: by how much the probability of the predicted class falls when the part is hidden; negative when the
            prediction becomes more certain. Averaged over the tasks. Of a regression, by how much the predicted number
            falls, in its unit (of several tasks, in standard deviations): negative when the part keeps it low.
        change: what hiding it does to the probability that `mphil predict` shows: of the positive label, averaged over
            the tasks; with several classes of the predicted one. Of a regression, what it does to the number.
        name: what a chemist would call it; empty when there is no name for it.
        measured: whether it is of a regression, where both signs tell.
    """

    kind: Kind
    smiles: str
    atoms: tuple[int, ...]
    importance: float
    drop: float
    change: float
    name: str = ""
    measured: bool = False

    @property
    def title(self) -> str:
        """Its name, or else its spelling."""
        return self.name or self.smiles

    @property
    def told_change(self) -> str:
        """The change for a reader, with its sign and without a negative zero."""
        return f"{round(self.change, 3) + 0.0:+.3f}"

    @property
    def effect(self) -> float:
        """What parts are ranked by: the drop, of a regression its size."""
        return abs(self.drop) if self.measured else self.drop


def rank_substructures(
    method: Method, store: GraphStore, graph: int, importance: NDArray[np.float64]
) -> list[RankedSubstructure]:
    """The substructures of a molecule, those with the highest mean importance of their atoms first.

    The atoms are coloured by the same numbers, so that colours and order agree. Of equal parts, the one without which
    the prediction suffers more comes first.

    Args:
        method: a trained method.
        store: molecules.
        graph: which of them.
        importance: (n_atoms,) of each atom, between 0 and 1.
    """
    if store.smiles is None:
        raise DataError("substructures belong to molecules, and these graphs have no SMILES")
    smiles = store.smiles[graph]
    found = find_substructures(smiles)
    means = [float(importance[list(part.atoms)].mean()) for part in found]
    best = sorted(range(len(found)), key=lambda i: (-round(means[i], 6), found[i].smiles, found[i].atoms))[:MOST]
    parts = [found[i] for i in best]
    effects, measured = _effects(method, store, graph, parts), method.task.kind == "regression"
    ranked = [
        RankedSubstructure(
            part.kind, part.smiles, part.atoms, means[i], *effect, name_part(smiles, part.atoms), measured
        )
        for i, part, effect in zip(best, parts, effects, strict=True)
    ]
    return sorted(ranked, key=lambda part: (-round(part.importance, 6), -round(part.effect / TELLING)))


def disagreement(parts: Sequence[RankedSubstructure]) -> str:
    """Where the colours and the effect of removal point to different parts, in a sentence; empty where they agree.

    Args:
        parts: of one molecule, in the order of their importance.
    """
    if not parts or parts[0].measured:
        return _disagreement_of_numbers(parts)
    if all(abs(part.drop) < NOTABLE for part in parts):
        return "No single part decides: hiding any of them hardly changes the probability."
    first, strongest = parts[0], max(parts, key=lambda part: part.drop)
    if first.drop <= -NOTABLE:
        return (
            f"Colour and removal disagree: the most coloured part, {first.title}, speaks against the prediction, which "
            f"becomes more certain without it (change of the probability {first.told_change})."
        )
    if not _same_place(first, strongest) and strongest.drop >= max(NOTABLE, 2 * first.drop):
        return (
            f"Colour and removal disagree: the most coloured part is {first.title} (change of the probability without "
            f"it {first.told_change}), but the prediction depends most on {strongest.title} "
            f"({strongest.told_change})."
        )
    return ""


def _disagreement_of_numbers(parts: Sequence[RankedSubstructure]) -> str:
    if not parts:
        return ""
    first, strongest = parts[0], max(parts, key=lambda part: part.effect)
    if _same_place(first, strongest) or strongest.effect < 2 * first.effect:
        return ""
    return (
        f"Colour and removal disagree: the most coloured part is {first.title} (change of the number without it "
        f"{first.told_change}), but the number depends most on {strongest.title} ({strongest.told_change})."
    )


def _same_place(first: RankedSubstructure, second: RankedSubstructure) -> bool:
    shared = len(set(first.atoms) & set(second.atoms))
    return 2 * shared >= min(len(first.atoms), len(second.atoms))


def _effects(method: Method, store: GraphStore, graph: int, parts: Sequence[Substructure]) -> list[tuple[float, float]]:
    """What hiding each part does, one at a time.

    Of classes, the fall of the predicted one and the change of the one that is shown; of a regression, both are of
    the number.
    """
    if not parts:
        return []
    n_nodes = int(store.n_nodes[graph])
    kept = torch.ones(1 + len(parts), n_nodes, dtype=torch.bool)
    for row, part in zip(kept[1:], parts, strict=True):
        row[torch.tensor(part.atoms)] = False
    # The whole molecule goes first: it says which class the others are asked about.
    device = next(method.parameters()).device
    copies = store.batch(torch.full((len(kept),), graph)).to(device)
    batch = keep_nodes(copies, kept.flatten().to(device))
    task = method.task
    with evaluating(method):
        outputs = method.predict(batch)
    if task.kind == "regression":
        numbers = predicted_numbers(outputs, task) if task.n_tasks == 1 else outputs.double().cpu()
        falls: list[float] = (numbers[0] - numbers[1:]).mean(1).tolist()
        return [(fall, -fall) for fall in falls]
    chances = class_probabilities(outputs, task)
    predicted = chances[:1].argmax(-1, keepdim=True)
    shown = predicted if task.kind == "multiclass" else torch.ones_like(predicted)
    of_predicted, of_shown = (
        chances.gather(-1, chosen.expand(len(kept), -1, -1)).mean((1, 2)) for chosen in (predicted, shown)
    )
    drops, changes = of_predicted[0] - of_predicted[1:], of_shown[1:] - of_shown[0]
    return list(zip(drops.tolist(), changes.tolist(), strict=True))
