"""Which parts of a molecule a prediction rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mphil.chem.substructures import Kind, Substructure, find_substructures
from mphil.data.store import GraphStore
from mphil.errors import DataError
from mphil.explain.hiding import class_probabilities, keep_nodes, predicted_numbers
from mphil.methods.base import Method, evaluating

MOST = 40
"""Substructures of a molecule that are hidden in turn: those with the highest importance."""

TELLING = 1e-3
"""Differences of a probability below this do not decide the order."""


@dataclass(frozen=True)
class RankedSubstructure:
    """A part of a molecule and what it does for the prediction.

    Attributes:
        kind: `ring`, `group` or `fragment`.
        smiles: the part, `*` where it hangs on the rest.
        atoms: numbers of its atoms.
        importance: mean importance of its atoms, between 0 and 1.
        drop: by how much the probability of the predicted class falls when the part is hidden; negative when the
            prediction becomes more certain. Averaged over the tasks. Of a regression, by how much the predicted number
            falls, in its unit (of several tasks, in standard deviations): negative when the part keeps it low.
        measured: whether it is of a regression, where both signs tell.
    """

    kind: Kind
    smiles: str
    atoms: tuple[int, ...]
    importance: float
    drop: float
    measured: bool = False

    @property
    def told_drop(self) -> str:
        """The drop for a reader, with its sign and without a negative zero."""
        return f"{round(self.drop, 3) + 0.0:+.3f}"

    @property
    def effect(self) -> float:
        """What parts are ranked by: the drop, of a regression its size."""
        return abs(self.drop) if self.measured else self.drop


def rank_substructures(
    method: Method, store: GraphStore, graph: int, importance: NDArray[np.float64]
) -> list[RankedSubstructure]:
    """The substructures of a molecule, those without which the prediction suffers or changes most first.

    Of parts whose drops hardly differ, the one with the higher mean importance comes first.

    Args:
        method: a trained method.
        store: molecules.
        graph: which of them.
        importance: (n_atoms,) of each atom, between 0 and 1.
    """
    if store.smiles is None:
        raise DataError("substructures belong to molecules, and these graphs have no SMILES")
    found = find_substructures(store.smiles[graph])
    means = [float(importance[list(part.atoms)].mean()) for part in found]
    best = sorted(range(len(found)), key=lambda i: (-round(means[i], 6), found[i].smiles, found[i].atoms))[:MOST]
    parts = [found[i] for i in best]
    ranked = [
        RankedSubstructure(part.kind, part.smiles, part.atoms, means[i], drop, method.task.kind == "regression")
        for i, part, drop in zip(best, parts, _drops(method, store, graph, parts), strict=True)
    ]
    return sorted(ranked, key=lambda part: (-round(part.effect / TELLING), -round(part.importance, 6)))


def _drops(method: Method, store: GraphStore, graph: int, parts: Sequence[Substructure]) -> list[float]:
    """Fall of the probability of the predicted class, or of the number, when each part is hidden, one at a time."""
    if not parts:
        return []
    n_nodes = int(store.n_nodes[graph])
    kept = torch.ones(1 + len(parts), n_nodes, dtype=torch.bool)
    for row, part in zip(kept[1:], parts, strict=True):
        row[torch.tensor(part.atoms)] = False
    # The whole molecule goes first: it says which class the others are asked about.
    batch = keep_nodes(store.batch(torch.full((len(kept),), graph)), kept.flatten())
    device = next(method.parameters()).device
    task = method.task
    with evaluating(method):
        outputs = method.predict(batch.to(device))
    if task.kind == "regression":
        numbers = predicted_numbers(outputs, task) if task.n_tasks == 1 else outputs.double().cpu()
        falls: list[float] = (numbers[0] - numbers[1:]).mean(1).tolist()
        return falls
    chances = class_probabilities(outputs, task)
    chosen = chances[:1].argmax(-1, keepdim=True).expand(len(kept), -1, -1)
    chance = chances.gather(-1, chosen).mean((1, 2))
    drops: list[float] = (chance[0] - chance[1:]).tolist()
    return drops
