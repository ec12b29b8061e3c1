"""The model of a server: asked by one thread, with molecules read in a process of its own."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TypeVar

import numpy as np
import torch

from mphil.errors import UnknownName
from mphil.explain.atoms import ways
from mphil.explain.rows import ExplainedRows
from mphil.explain.single import Explanation, atom_scores, explain_molecules
from mphil.limits import MAX_DRAWN_ATOMS, MAX_EXPLAINED_ATOMS, MAX_WAITING_REQUESTS
from mphil.model.predictor import Molecules, Predictions, Predictor, as_molecules
from mphil.model.predictor.reading import cleaned
from mphil.serve.requests import Refusal
from mphil.serve.surroundings import Surroundings
from mphil.tables.pool import WorkerPool

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
