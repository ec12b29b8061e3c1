"""One pass through a method and the other members, and how far from training its outputs say a graph is."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mphil.errors import UsageError
from mphil.graphs.store import Batch
from mphil.methods.base import Method, build_method
from mphil.model.bundle import Bundle, References
from mphil.model.bundle.contents import Score
from mphil.model.committee.fitting import probabilities
from mphil.model.committee.trees import MoleculeFeatures
from mphil.model.committee.weights import as_logits, combine, spread
from mphil.model.predictor.predictions import Floats, Numbers
from mphil.nn.threads import one_thread
from mphil.task import Task
from mphil.trust import ood
from mphil.trust.calibration import Calibration

Advance = Callable[[int], object]


@dataclass(frozen=True, eq=False)
class Outputs:
    """What the model itself says about k graphs.

    Attributes:
        logits: (k, outputs).
        embedding: (k, p) float32; p = 0 when the method has none.
        slots: (k, tasks) nearest prototype of the predicted class, or None.
        spread: (k, outputs) standard deviation of the members' probabilities, of a regression of their outputs; None
            when one model answers alone.
    """

    logits: Floats
    embedding: NDArray[np.float32]
    slots: Numbers | None
    spread: Floats | None = None

    def spread_in_units(self, task: Task) -> Floats | None:
        """The spread of a regression in the unit of each task."""
        return None if self.spread is None else self.spread * np.array(task.scales or 1.0)

    def take(self, rows: Numbers) -> Outputs:
        """Those of some graphs."""
        if len(rows) == len(self.logits):
            return self
        return Outputs(
            self.logits[rows],
            self.embedding[rows],
            None if self.slots is None else self.slots[rows],
            None if self.spread is None else self.spread[rows],
        )


def ask(method: Method, batches: Iterable[Batch], advance: Advance = lambda done: None) -> Outputs:
    """Everything a method in evaluation mode can say about graphs; the encoder works once for each.

    Args:
        method: who is asked.
        batches: the graphs.
        advance: told how many more are done, batch by batch.
    """
    asked = questions(remembering(method))
    found: dict[str, list[Tensor]] = {name: [] for name in asked}
    with torch.no_grad(), one_thread():
        for batch in batches:
            for name, question in asked.items():
                found[name].append(question(batch).cpu())
            advance(len(batch.ptr) - 1)
    task = method.task
    widths = {"logits": task.n_outputs, "slots": task.n_tasks}
    joined = {
        name: (torch.cat(answers) if answers else torch.empty(0, widths.get(name, 0))).numpy()
        for name, answers in found.items()
    }
    rows = len(joined["logits"])
    slots = joined.get("slots")
    return Outputs(
        logits=joined["logits"].astype(np.float64),
        embedding=joined.get("embedding", np.empty((rows, 0), np.float32)),
        slots=None if slots is None else slots.astype(np.int64),
    )


def combined(first: Outputs, said: Floats, weights: Floats, task: Task) -> Outputs:
    """What a committee says: logits of the mean probabilities, and their spread; all else is of its first network.

    Of a regression, the mean of the outputs. One member alone has no spread.

    Args:
        first: of the first network.
        said: (m, k, outputs) probabilities of all members; NaN where one of them has no answer.
        weights: (m,) of the members.
        task: what is asked.
    """
    apart = spread(said, weights) if len(weights) > 1 else None
    return replace(first, logits=as_logits(combine(said, weights), task.kind), spread=apart)


def questions(method: Method) -> dict[str, Callable[[Batch], Tensor]]:
    """What can be asked of a method, by the name of the output."""
    asked: dict[str, Callable[[Batch], Tensor]] = {"logits": method.predict}
    if implements(method, "embed"):
        asked["embedding"] = method.embed
    if (nearest := getattr(method, "nearest_prototype", None)) is not None:
        asked["slots"] = nearest
    return asked


def implements(method: Method, name: str) -> bool:
    """Whether a method has an optional part of the contract."""
    return getattr(type(method), name) is not getattr(Method, name)


def remembering(method: Method) -> Method:
    """The same method, weights and all, that embeds a batch once and keeps the result with the batch.

    Prediction and prototype each begin with the embedding, which is nearly all of the work.
    """
    twin = copy.copy(method)

    def embed(batch: Batch) -> Tensor:
        if "remembered" not in batch:
            batch.remembered = method.embed(batch)
        found: Tensor = batch.remembered
        return found

    if implements(method, "embed"):
        twin.embed = embed  # type: ignore[method-assign]
    return twin


def distance(
    score: Score, outputs: Outputs, references: References, task: Task, similarity: Floats | None = None
) -> Floats:
    """(k,) how far from training each graph is, by the score that the bundle was made with.

    Args:
        score: its name.
        outputs: what the model says about k graphs.
        references: the training graphs.
        task: what is asked.
        similarity: (k,) of the nearest training molecule, for the score that looks at molecules.
    """
    if score == "tanimoto":
        if similarity is None:
            raise UsageError("this model tells distance by fingerprints of molecules, and was asked about graphs")
        return 1 - similarity
    if score == "knn":
        return ood.knn(outputs.embedding, references.embeddings)
    return ood.energy(outputs.logits, task)


def best_score(method: Method, molecules: bool) -> Score:
    """The score to use: fingerprints for molecules, or else the nearest training graphs, or else the logits.

    Why the score of MPHIL's prototypes is not among them: docs/explanation/trust.md.

    Raises:
        UsageError: a regression of graphs without an embedding has none of these.
    """
    if method.task.kind == "regression" and not molecules and not implements(method, "embed"):
        raise UsageError(f"{method.name} has no embedding to tell how far from training a graph is; use erm or mphil+")
    if molecules:
        return "tanimoto"
    return "knn" if implements(method, "embed") else "energy"


class Members:
    """All models of a bundle.

    Args:
        bundle: with a committee.
        device: where networks work.

    Attributes:
        weights: (m,) of all members.
        networks: those but the first, by name.
    """

    def __init__(self, bundle: Bundle, device: str) -> None:
        committee, config = bundle.config.committee, bundle.config
        assert committee is not None
        self._bundle, self._committee, self._task = bundle, committee, config.task
        self.weights = np.array([member.weight for member in committee.members])
        self.networks: dict[str, Method] = {}
        for name, state in bundle.networks.items():
            member = next(one for one in committee.members if one.name == name)
            assert member.method is not None
            encoder = config.encoder_of(member)
            method = build_method(member.method.name, config.task, encoder, member.method.args)
            method.load_state_dict(state)
            self.networks[name] = method.to(device).eval()

    def said(self, first: Floats, batches: Callable[[], Iterable[Batch]], features: MoleculeFeatures | None) -> Floats:
        """(m, n, outputs) probabilities of all members.

        Args:
            first: (n, outputs) logits of the first network.
            batches: the graphs, anew for every network.
            features: of the molecules, when there are trees.
        """
        task = self._task
        own = Calibration("none", task.kind, task.n_outputs)
        found = np.full((len(self._committee.members), *first.shape), np.nan)
        x = None if features is None else features.matrix()
        for place, member in enumerate(self._committee.members):
            if member.kind == "network":
                logits = self._logits(self.networks[member.name], batches()) if place else first
                finite = np.isfinite(logits).all(1)
                found[place, finite] = own.apply(logits[finite])
            else:
                assert x is not None
                found[place] = probabilities(self._bundle.trees[member.name], x, task)
        return found

    def _logits(self, method: Method, batches: Iterable[Batch]) -> Floats:
        with torch.no_grad(), one_thread():
            answers = [method.predict(batch).cpu() for batch in batches]
        if not answers:
            return np.empty((0, self._task.n_outputs))
        found: Floats = torch.cat(answers).double().numpy()
        return found
