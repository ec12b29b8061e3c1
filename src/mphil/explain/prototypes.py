"""What a prototype stands for: the training molecules around it, and what sets them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mphil.chem.draw import molecule_svg
from mphil.chem.names import name_part
from mphil.chem.substructures import find_substructures
from mphil.errors import DataError
from mphil.graphs.store import GraphStore
from mphil.methods.base import Method, evaluating
from mphil.methods.mphil_plus import MPHILPlus
from mphil.pages.gallery_page import Drawing, Fragment, PatternView

NEAREST = 6
"""Molecules shown of a prototype."""

COUNTED = 1_000
"""Training molecules whose parts are counted, evenly spaced when there are more."""

FRAGMENTS = 5
"""Over-represented parts shown of a prototype."""

LEAST = 3
"""Molecules that must have a part before it is worth telling."""

LEVELS = 3
"""Groups that measured numbers are sorted into: low, middle, high."""

Floats = NDArray[np.float64]
Example = tuple[str, tuple[int, ...]]
"""A molecule, and the atoms of a part in it."""


@dataclass(frozen=True, eq=False)
class TrainingMolecules:
    """What a model was trained on, as far as it is kept.

    Attributes:
        smiles: (n,) molecules in the spelling that the model saw.
        embeddings: (n, p) where the model puts them.
        labels: (n,) class number of one task, or the level of a measured number, NaN = missing.
    """

    smiles: Sequence[str]
    embeddings: Floats
    labels: Floats

    def __post_init__(self) -> None:
        if not len(self.smiles) == len(self.embeddings) == len(self.labels):
            raise DataError(
                f"{len(self.smiles)} molecules, {len(self.embeddings)} embeddings and {len(self.labels)} labels "
                "must be as many"
            )

    def __len__(self) -> int:
        return len(self.smiles)


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """A prototype and the training molecules around it.

    Attributes:
        class_number: its class.
        slot: its number among those of the class, from 0.
        members: the molecules that no other prototype is nearer to.
        nearest: the molecules nearest to it, different from each other, the nearest first.
        similarity: (len(nearest),) cosine of the angle between them and the prototype.
    """

    class_number: int
    slot: int
    members: NDArray[np.int64]
    nearest: Sequence[int]
    similarity: Floats


def centres_of(method: Method, training: TrainingMolecules, task: int) -> tuple[Floats, bool]:
    """(classes, slots, p) directions that stand for the classes of a task, and whether they are prototypes.

    A method without prototypes gets the mean direction of the training molecules of each class, of a regression those
    of each level.
    """
    bank = getattr(method, "bank", None)
    if callable(bank):
        prototypes: Floats = bank()[task].detach().cpu().double().numpy()
        return prototypes, True
    units = unit_vectors(training.embeddings)
    classes = range(method.task.n_classes or LEVELS)
    means = np.stack([units[training.labels == c].sum(0) for c in classes])
    return unit_vectors(means)[:, None, :], False


def neighbourhoods(training: TrainingMolecules, centres: Floats) -> list[Neighbourhood]:
    """The surroundings of every prototype, class after class.

    Args:
        training: the molecules.
        centres: (classes, slots, p) prototypes.
    """
    classes, slots, size = centres.shape
    similarity = unit_vectors(training.embeddings) @ unit_vectors(centres.reshape(-1, size)).T
    owner = similarity.argmax(1) if len(training) else np.zeros(0, np.int64)
    found = []
    for number in range(classes * slots):
        nearest: dict[str, int] = {}
        for row in np.argsort(-similarity[:, number], kind="stable").tolist():
            nearest.setdefault(training.smiles[row], row)
            if len(nearest) == NEAREST:
                break
        rows = list(nearest.values())
        members = np.flatnonzero(owner == number)
        found.append(Neighbourhood(number // slots, number % slots, members, rows, similarity[rows, number]))
    return found


def over_represented(
    training: TrainingMolecules,
    members: Sequence[NDArray[np.int64]],
    *,
    advance: Callable[[int], object] = lambda done: None,
) -> list[list[Fragment]]:
    """For several groups of training molecules, the parts that are more frequent in each than in all of them.

    The parts least likely to be so frequent by chance (hypergeometric tail) come first. Many parts are compared, so the
    order says where to look, not what is proven.

    Args:
        training: the molecules; at most `COUNTED` of them are looked at.
        members: positions of the molecules of each group.
        advance: told after every molecule that there is one more.
    """
    rows = evenly(len(training), COUNTED)
    parts: list[set[str]] = []
    examples: dict[str, Example] = {}
    for row in rows.tolist():
        found = find_substructures(training.smiles[row])
        parts.append({part.smiles for part in found})
        for part in found:
            examples.setdefault(part.smiles, (training.smiles[row], part.atoms))
        advance(1)
    overall = Counter(part for one in parts for part in one)
    groups = [[parts[i] for i in np.flatnonzero(np.isin(rows, group))] for group in members]
    return [_telling(overall, group, len(rows), examples) for group in groups]


def _telling(
    overall: Counter[str], group: Sequence[set[str]], total: int, examples: Mapping[str, Example]
) -> list[Fragment]:
    from scipy.stats import hypergeom

    here = Counter(part for one in group for part in one)
    chances = {
        part: float(hypergeom.logsf(count - 1, total, overall[part], len(group)))
        for part, count in here.items()
        if count >= LEAST and count * total > overall[part] * len(group)
    }
    best = sorted(chances, key=lambda part: (chances[part], part))[:FRAGMENTS]
    return [
        Fragment(part, (here[part], len(group)), (overall[part], total), name_part(*examples[part])) for part in best
    ]


def evenly(count: int, most: int) -> NDArray[np.int64]:
    """At most `most` of the numbers below `count`, evenly spaced.

    Example:
        >>> evenly(10, 4).tolist()
        [0, 2, 5, 7]
    """
    return np.arange(count) if count <= most else np.arange(most) * count // most


def unit_vectors(vectors: Floats) -> Floats:
    """Vectors of length 1 in the same directions; those of length 0 stay so."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: Floats = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 1e-12)
    return unit


SHOWN = 12
"""Parts on a page, those with the largest weight in the decision when there are more."""
LOOKED_AT = 1_000
"""Training molecules in which a part is looked for, evenly spaced when there are more."""
EXAMPLES = 4
MATCHES = 3
"""Parts that are drawn on a molecule a user asked about."""

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
