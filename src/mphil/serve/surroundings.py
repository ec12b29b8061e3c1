"""What lies around a new molecule: prototypes, training molecules, and the sphere that shows them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from mphil.chem.draw import molecule_svg
from mphil.explain.gallery import MARKS, UNKNOWN, NewMolecules
from mphil.explain.prototypes import Floats, Neighbourhood, TrainingMolecules, centres_of, evenly, neighbourhoods
from mphil.explain.rows import page_classes
from mphil.model.predictor import Predictor
from mphil.pages.sphere import Cloud, Mark, MoleculeMap, to_sphere3

POINTS = 300
"""Training molecules on the map, evenly spaced when there are more."""

NEAREST = 3
"""Prototypes shown of a molecule."""

PICTURE = (260, 195)
TRAINING = "train"


@dataclass(frozen=True)
class NearPrototype:
    """A prototype that a molecule lies near to.

    Attributes:
        class_name: its class.
        number: its number among those of the class, from 1.
        similarity: cosine of the angle between the molecule and the prototype.
        members: training molecules that it is nearest to.
        molecule: the training molecule nearest to it, canonical; None when it has no members.
    """

    class_name: str
    number: int
    similarity: float
    members: int
    molecule: str | None


class Surroundings:
    """The training molecules of a model, as far as one task goes.

    Args:
        predictor: the model.
        task: number of the task.

    Attributes:
        are_prototypes: whether the stars are prototypes of the method; else the mean direction of each class.
        levels: that numbers of a regression are sorted into; None for classes.
    """

    def __init__(self, predictor: Predictor, task: int) -> None:
        config, references = predictor.bundle.config, predictor.bundle.references
        self._target, self._method = config.targets[task], config.method.name
        self._classes, labels, self.levels = page_classes(config, references.labels[:, task].astype(np.float64))
        self._training = TrainingMolecules(references.smiles or (), references.embeddings.astype(np.float64), labels)
        self._centres, self.are_prototypes = (
            centres_of(predictor.method, self._training, task) if self.known else (np.empty((0, 1, 0)), False)
        )

    @property
    def known(self) -> bool:
        """Whether the method places molecules anywhere, and training molecules are there to compare them with."""
        return bool(self._training.embeddings.size)

    @cached_property
    def _around(self) -> list[Neighbourhood]:
        return neighbourhoods(self._training, self._centres)

    def near(self, embedding: NDArray[np.float32]) -> list[NearPrototype]:
        """The prototypes nearest to a molecule, the nearest first; none when the method has no embedding.

        Args:
            embedding: (p,) of the molecule.
        """
        if not self.known:
            return []
        directions = self._centres.reshape(-1, self._centres.shape[2])
        similarity = _unit(directions) @ _unit(embedding.astype(np.float64)[None])[0]
        found = []
        for place in np.argsort(-similarity, kind="stable")[:NEAREST].tolist():
            one = self._around[place]
            molecule = self._training.smiles[one.nearest[0]] if len(one.members) else None
            name = self._classes[one.class_number]
            found.append(NearPrototype(name, one.slot + 1, float(similarity[place]), len(one.members), molecule))
        return found

    def map(self, new: NewMolecules, labels: Sequence[str]) -> MoleculeMap | None:
        """New molecules among those of training; None when there is nowhere to put them.

        Args:
            new: the molecules.
            labels: what each is called.
        """
        labelled = np.flatnonzero(~np.isnan(self._training.labels))
        rows = labelled[evenly(len(labelled), POINTS)]
        if not self.known or not len(rows):
            return None
        placed, stars, explained = to_sphere3(
            np.concatenate([self._training.embeddings[rows], new.embeddings]),
            self._centres.reshape(-1, self._centres.shape[2]),
        )
        theirs = [int(label) for label in self._training.labels[rows]]
        smiles = [self._training.smiles[row] for row in rows]
        closest = [self._training.smiles[one.nearest[0]] for one in self._around]
        cloud = Cloud(
            placed,
            [*theirs, *new.classes.tolist()],
            [TRAINING] * len(rows) + list(new.verdicts),
            stars,
            np.repeat(np.arange(len(self._centres)), self._centres.shape[1]).tolist(),
            explained,
            [_short(text) for text in (*smiles, *labels)],
        )
        width, height = PICTURE
        own = [one.svg(width=width, height=height) for one in new.explanations]
        told = [f"training molecule, {self._classes[label]}" for label in theirs]
        told += [f"yours: {new.caption(i, self._classes)}" for i in range(len(own))]
        told += [f"the nearest training molecule: {_short(text)}" for text in closest]
        return MoleculeMap(
            cloud=cloud,
            pictures=[*map(drawing, smiles), *own, *map(drawing, closest)],
            details=told,
            class_names=self._classes,
            parts=[(TRAINING, "training", "filled"), *_parts(new.verdicts)],
            title=f"{self._method}, {self._target}",
        )


@lru_cache(maxsize=4096)
def drawing(smiles: str) -> str:
    """A small drawing of a training molecule: the same ones are shown again and again."""
    return molecule_svg(smiles, width=PICTURE[0], height=PICTURE[1])


def _parts(verdicts: Sequence[str]) -> list[tuple[str, str, Mark]]:
    """The parts of the map that hold new molecules."""
    present = set(verdicts)
    parts: list[tuple[str, str, Mark]] = [(word, f"yours, {word}", mark) for word, mark in MARKS.items()]
    return [part for part in (*parts, (UNKNOWN, "yours", MARKS["in domain"])) if part[0] in present]


def _short(text: str) -> str:
    """Text short enough to be said."""
    return text if len(text) <= 90 else f"{text[:87]}..."


def _unit(vectors: Floats) -> Floats:
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: Floats = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 1e-12)
    return unit
