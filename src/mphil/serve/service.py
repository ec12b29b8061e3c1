"""The model of a server, asked by one thread, and what lies around a new molecule."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from mphil.chem.draw import molecule_svg
from mphil.errors import UnknownName
from mphil.explain.atoms import Explanation, atom_scores, explain_molecules, ways
from mphil.explain.gallery import MARKS, UNKNOWN, NewMolecules, star_words
from mphil.explain.prototypes import (
    Neighbourhood,
    TrainingMolecules,
    centres_of,
    evenly,
    neighbourhoods,
    unit_vectors,
)
from mphil.explain.rows import ExplainedRows, page_classes
from mphil.limits import MAX_DRAWN_ATOMS, MAX_EXPLAINED_ATOMS, MAX_WAITING_REQUESTS
from mphil.model.predictor import Molecules, Predictions, Predictor, as_molecules
from mphil.model.predictor.reading import cleaned
from mphil.pages.sphere_map import PROTOTYPES, Cloud, Mark, MoleculeMap, to_sphere3
from mphil.serve.requests import Refusal
from mphil.tables.pool import WorkerPool

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
        similarity = unit_vectors(directions) @ unit_vectors(embedding.astype(np.float64)[None])[0]
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
            stars=PROTOTYPES if self.are_prototypes else star_words(self.levels is not None),
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


TRIAL = "CCO"
"""The molecule that shows that the model works."""

KEPT = 8
"""Explained pages that are kept for whoever asks again."""

Answer = TypeVar("Answer")


class ModelService(AbstractContextManager["ModelService"]):
    """Answers requests one after the other, while the event loop goes on.

    Everything that touches the model runs in a single thread, so nothing needs a lock. Molecules are read by another
    process: one that makes RDKit crash or hang costs its row, not the server.

    Args:
        predictor: the model; nobody else may use it meanwhile.

    Attributes:
        predictor: the model.
        ready: whether it has answered once.
        by: how atoms are scored.
    """

    def __init__(self, predictor: Predictor) -> None:
        self.predictor, self.by, self.ready = predictor, ways(predictor.method)[0], False
        self._pool = WorkerPool(1)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mphil-service")
        self._waiting = 0
        self._surroundings: dict[int, Surroundings] = {}
        self._pages: OrderedDict[object, ExplainedRows] = OrderedDict()

    async def ask(self, question: Callable[[], Answer]) -> Answer:
        """Have something done by the thread that owns the model.

        Raises:
            Refusal: too many requests are waiting.
        """
        if self._waiting >= MAX_WAITING_REQUESTS:
            raise Refusal(503, f"{self._waiting} requests are waiting already", "try again in a moment")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, question)
        finally:
            self._waiting -= 1

    async def warm_up(self, *others: Awaitable[None]) -> None:
        """Answer once, so that the first visitor does not wait for what is only done once.

        Args:
            others: what else has to be done before the first visitor comes.
        """
        await asyncio.gather(self.ask(lambda: self.explain([TRIAL], parts=True)), *others)
        self.ready = True

    def task(self, target: str | None) -> int:
        """The number of a target; the first when nobody says which.

        Raises:
            UnknownName: there is no such target.
        """
        targets = self.predictor.bundle.config.targets
        if target is None:
            return 0
        if target not in targets:
            raise UnknownName("target", target, targets)
        return targets.index(target)

    def read(self, smiles: Sequence[str]) -> Molecules:
        """Molecules as in training."""
        rows, options = cleaned(smiles), self.predictor.reading
        return as_molecules(self._pool.begin(rows, options).finish(), len(rows), options["schema"])

    def predict(self, smiles: Sequence[str]) -> Predictions:
        """What the model says about molecules."""
        return self.predictor.answer(self.read(smiles))

    def explain(self, smiles: Sequence[str], *, parts: bool) -> ExplainedRows:
        """What the model says about molecules, and why.

        Args:
            smiles: one molecule a row.
            parts: also rank their substructures, with atoms as they are written; else atoms are scored on the
                canonical spelling, which is much faster, and molecules that are too large for a page are left out.

        Raises:
            Refusal: the substructures of a molecule are wanted, and it is too large.
        """
        molecules = self.read(smiles)
        if parts:
            _check_sizes(molecules)
        predictions = self.predictor.answer(molecules)
        shown = molecules.store.n_nodes.numpy() <= (MAX_EXPLAINED_ATOMS if parts else MAX_DRAWN_ATOMS)
        places = np.flatnonzero(predictions.answered[molecules.kept] & shown)
        rows = molecules.kept[places].tolist()
        store = molecules.store.select(torch.from_numpy(places))
        method = self.predictor.method
        if parts:
            explanations = explain_molecules(method, store, [smiles[row].strip() for row in rows], by=self.by)
        else:
            scores = zip(store.smiles or (), atom_scores(method, store, self.by), strict=True)
            explanations = [Explanation(seen, seen, self.by, raw, scaled, ()) for seen, (raw, scaled) in scores]
        return ExplainedRows(predictions, tuple(rows), tuple(explanations))

    def explained_page(self, key: object, smiles: Callable[[], Sequence[str]]) -> ExplainedRows:
        """The atoms of a page of molecules, remembered for a while.

        Args:
            key: names the page.
            smiles: its molecules, asked for when they are not remembered.
        """
        found = self._pages.pop(key, None) or self.explain(smiles(), parts=False)
        self._pages[key] = found
        while len(self._pages) > KEPT:
            self._pages.popitem(last=False)
        return found

    def surroundings(self, task: int) -> Surroundings:
        """The training molecules and prototypes of a task."""
        if task not in self._surroundings:
            self._surroundings[task] = Surroundings(self.predictor, task)
        return self._surroundings[task]

    def __exit__(self, *exception: object) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._pool.__exit__(*exception)
        self._thread.shutdown()


def _check_sizes(molecules: Molecules) -> None:
    for row, size in zip(molecules.kept.tolist(), molecules.store.n_nodes.tolist(), strict=True):
        if size > MAX_EXPLAINED_ATOMS:
            remedy = "leave it out, or use `mphil explain`; /api/predict takes it"
            error = f"molecule {row + 1} has {size:,} atoms, at most {MAX_EXPLAINED_ATOMS:,} are explained"
            raise Refusal(413, error, remedy)
