"""What the parts of MPHIL+ are: the training molecules, and the atoms in them, where each prototype matches best."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from mphil.chem.draw import molecule_svg
from mphil.explain.prototypes import evenly
from mphil.graphs.store import GraphStore
from mphil.methods.base import evaluating
from mphil.methods.mphil_plus import MPHILPlus
from mphil.pages.gallery import Drawing, PatternView

SHOWN = 12
"""Parts on a page, those with the largest weight in the decision when there are more."""
LOOKED_AT = 1_000
"""Training molecules in which a part is looked for, evenly spaced when there are more."""
EXAMPLES = 4
MATCHES = 3
"""Parts that are drawn on a molecule somebody asked about."""

BATCH = 256


def part_views(
    method: MPHILPlus,
    smiles: Sequence[str],
    featurise: Callable[[Sequence[str]], GraphStore],
    classes: Sequence[str],
    task: int,
) -> list[PatternView]:
    """The parts that weigh most in the decision about a task, each with the molecules where it matches best.

    Args:
        method: the trained method.
        smiles: training molecules.
        featurise: from molecules to graphs of those that can be read.
        classes: names of the classes.
        task: number of the task.
    """
    if method.prototypes is None or not len(smiles):
        return []
    store = featurise([smiles[row] for row in evenly(len(smiles), LOOKED_AT).tolist()])
    similarity, node = _matches(method, store)
    weights = part_weights(method, task)
    order = (weights.amax(0) - weights.amin(0)).argsort(descending=True, stable=True)
    return [_view(part, weights[:, part], similarity[:, part], node[:, part], store, classes) for part in order[:SHOWN]]


def part_matches(method: MPHILPlus, store: GraphStore, classes: Sequence[str], task: int) -> list[list[Drawing]]:
    """For each molecule, the parts that move the decision most, drawn where they match it.

    Args:
        method: the trained method.
        store: the molecules.
        classes: names of the classes.
        task: number of the task.
    """
    if method.prototypes is None or not len(store):
        return [[] for _ in range(len(store))]
    similarity, node = _matches(method, store)
    weights = part_weights(method, task)
    moves = similarity * (weights.amax(0) - weights.amin(0))
    drawn = []
    for row in range(len(store)):
        order = moves[row].abs().argsort(descending=True, stable=True)[:MATCHES].tolist()
        captions = [f"{_name(part, weights, classes)}; similarity {similarity[row, part]:.2f}" for part in order]
        drawn.append(
            [_drawing(store, row, int(node[row, part]), told) for part, told in zip(order, captions, strict=True)]
        )
    return drawn


def part_weights(method: MPHILPlus, task: int) -> Tensor:
    """(classes, M) what a part adds to the logit of each class of a task when it matches perfectly.

    Of a regression, how it speaks for low, middle and high values.
    """
    assert method.prototypes is not None
    weights = method.head.weight.detach()[:, : len(method.prototypes)] / method.temperature
    if method.task.kind == "multiclass":
        return weights
    own = weights[task]
    sides = [-own, 0 * own, own] if method.task.kind == "regression" else [-own, own]
    return torch.stack(sides) / 2


def _matches(method: MPHILPlus, store: GraphStore) -> tuple[Tensor, Tensor]:
    """(n, M) similarity of the best node, and its number inside its graph."""
    similarity, node = [], []
    with evaluating(method):
        for first in range(0, len(store), BATCH):
            batch = store.batch(torch.arange(first, min(first + BATCH, len(store))))
            found = method.match(batch)
            similarity.append(found.similarity)
            node.append(found.node - batch.ptr[:-1].unsqueeze(1))
    return torch.cat(similarity), torch.cat(node)


def _view(
    part: Tensor, weights: Tensor, similarity: Tensor, node: Tensor, store: GraphStore, classes: Sequence[str]
) -> PatternView:
    best = similarity.argsort(descending=True, stable=True)[:EXAMPLES].tolist()
    drawings = [_drawing(store, row, int(node[row]), f"similarity {similarity[row]:.2f}") for row in best]
    speaks, weight = int(weights.argmax()), float(weights.max() - weights.min())
    return PatternView(f"part {int(part) + 1}, for {classes[speaks]}", speaks, weight, drawings)


def _name(part: int, weights: Tensor, classes: Sequence[str]) -> str:
    return f"part {part + 1}, for {classes[int(weights[:, part].argmax())]}"


def _drawing(store: GraphStore, row: int, atom: int, caption: str) -> Drawing:
    """A molecule in which one atom glows and its neighbours are outlined."""
    smiles = list(store.smiles or ())[row]
    first = int(store.edge_ptr[0])
    begin, end = int(store.edge_ptr[row]) - first, int(store.edge_ptr[row + 1]) - first
    source, target = store.edge_index[:, begin:end].tolist()
    around = {atom, *(v for u, v in zip(source, target, strict=True) if u == atom)}
    glow = [float(v == atom) for v in range(int(store.n_nodes[row]))]
    return Drawing(smiles, molecule_svg(smiles, weights=glow, outline=sorted(around)), caption)
