"""What a prototype stands for: the training molecules around it, and what sets them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mphil.chem.substructures import find_substructures
from mphil.errors import DataError
from mphil.methods.base import Method
from mphil.pages.gallery import Fragment

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
    units = _unit(training.embeddings)
    classes = range(method.task.n_classes or LEVELS)
    means = np.stack([units[training.labels == c].sum(0) for c in classes])
    return _unit(means)[:, None, :], False


def neighbourhoods(training: TrainingMolecules, centres: Floats) -> list[Neighbourhood]:
    """The surroundings of every prototype, class after class.

    Args:
        training: the molecules.
        centres: (classes, slots, p) prototypes.
    """
    classes, slots, size = centres.shape
    similarity = _unit(training.embeddings) @ _unit(centres.reshape(-1, size)).T
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
    for row in rows.tolist():
        parts.append({part.smiles for part in find_substructures(training.smiles[row])})
        advance(1)
    overall = Counter(part for one in parts for part in one)
    return [_telling(overall, [parts[i] for i in np.flatnonzero(np.isin(rows, group))], len(rows)) for group in members]


def _telling(overall: Counter[str], group: Sequence[set[str]], total: int) -> list[Fragment]:
    from scipy.stats import hypergeom

    here = Counter(part for one in group for part in one)
    chances = {
        part: float(hypergeom.logsf(count - 1, total, overall[part], len(group)))
        for part, count in here.items()
        if count >= LEAST and count * total > overall[part] * len(group)
    }
    best = sorted(chances, key=lambda part: (chances[part], part))[:FRAGMENTS]
    return [Fragment(part, (here[part], len(group)), (overall[part], total)) for part in best]


def evenly(count: int, most: int) -> NDArray[np.int64]:
    """At most `most` of the numbers below `count`, evenly spaced.

    Example:
        >>> evenly(10, 4).tolist()
        [0, 2, 5, 7]
    """
    return np.arange(count) if count <= most else np.arange(most) * count // most


def _unit(vectors: Floats) -> Floats:
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: Floats = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 1e-12)
    return unit
