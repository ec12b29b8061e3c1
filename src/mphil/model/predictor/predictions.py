"""Answers as columns, a row for every row that came in, and promises made anew from the held-out rows of a bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mphil.errors import UsageError
from mphil.model.bundle import Bundle
from mphil.model.bundle.contents import HeldOut
from mphil.task import Task
from mphil.trust.conformal import Conformal
from mphil.trust.shift import DensityRatio, effective_size, fingerprint_features, weighted_sets

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

Column = list[Any]
"""Cells of a column: text, numbers, and None where there is nothing to say."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a model says about n rows. A row without an answer has a `status` that says why, NaN, -1 or empty text.

    Attributes:
        task: what was asked.
        targets: names of the tasks.
        classes: names of the classes of each task.
        status: (n,) `ok`, or the code of a refusal.
        message: (n,) the reason in a sentence, empty when all is well.
        probability: (n, outputs) calibrated, of the classes, or of the positive label of each task.
        prediction: (n, tasks) number of the likeliest class.
        ood_score: (n,) how far from training, higher is further.
        embedding: (n, p) float32, the vector a graph is classified by; p = 0 when the method has none.
        sets: (n, tasks, classes) the classes that are plausible; None when the bundle has no conformal thresholds.
        domain: (n,) `in domain`, `borderline` or `out of domain`; None when the bundle has no bands.
        prototype: (n, tasks) slot of the nearest prototype of the predicted class, from 0; None without prototypes.
        smiles: (n,) canonical spelling; None when the rows are graphs.
        nearest: (n,) the most similar training molecule, its place among the references; None likewise.
        nearest_smiles: (n,) its canonical spelling; None likewise.
        similarity: (n,) its Tanimoto similarity; None likewise.
        nearest_name: (n,) what the training table calls it; None when it had no column of names.
        reason: (n,) why a molecule is not in domain, in words; None likewise as `nearest`.
        weighted_sets: (n, tasks, classes) the plausible classes, held-out rows weighted for how these rows are drawn;
            None when they were not asked for.
        changed: (n,) whether standardisation changed the molecule; None when the bundle does not standardise.
        uncertainty: (n, outputs) standard deviation of the probabilities that the models of a committee give, before
            calibration, of a regression of their numbers; None when one model answers alone.
        predicted: (n, tasks) numbers of a regression, in the unit of each task; None for classes. Probabilities and
            classes of a regression are empty.
        intervals: (n, tasks, 2) lower and upper ends around these, infinite where nothing can be promised; None when
            the bundle has no intervals.
    """

    task: Task
    targets: tuple[str, ...]
    classes: tuple[str, ...]
    status: Sequence[str]
    message: Sequence[str]
    probability: Floats
    prediction: Numbers
    ood_score: Floats
    embedding: NDArray[np.float32]
    sets: NDArray[np.bool_] | None = None
    domain: NDArray[np.str_] | None = None
    prototype: Numbers | None = None
    smiles: Sequence[str] | None = None
    nearest: Numbers | None = None
    nearest_smiles: Sequence[str] | None = None
    similarity: Floats | None = None
    changed: NDArray[np.bool_] | None = None
    nearest_name: Sequence[str] | None = None
    reason: Sequence[str] | None = None
    weighted_sets: NDArray[np.bool_] | None = None
    uncertainty: Floats | None = None
    predicted: Floats | None = None
    intervals: Floats | None = None

    def __len__(self) -> int:
        return len(self.status)

    @property
    def answered(self) -> NDArray[np.bool_]:
        """(n,) whether a row has an answer."""
        found: NDArray[np.bool_] = self.prediction[:, :1] >= 0 if self.predicted is None else ~np.isnan(self.predicted)
        return found[:, 0]

    def spread(self, rows: Numbers, total: int, status: str = "", message: str = "") -> Predictions:
        """These answers in some of `total` rows, the others without an answer.

        Args:
            rows: (n,) where each answer goes.
            total: how many rows there are.
            status: of the others.
            message: of the others.
        """
        if len(rows) == total:
            return self

        def wide(values: NDArray[Any] | None, empty: float | str | bool) -> Any:
            if values is None:
                return None
            found = np.full((total, *values.shape[1:]), empty, values.dtype)
            found[rows] = values
            return found

        statuses, messages = [status] * total, [message] * total
        for row, own, words in zip(rows.tolist(), self.status, self.message, strict=True):
            statuses[row], messages[row] = own, words
        return replace(
            self,
            status=statuses,
            message=messages,
            probability=wide(self.probability, np.nan),
            prediction=wide(self.prediction, -1),
            ood_score=wide(self.ood_score, np.nan),
            embedding=wide(self.embedding, np.nan),
            sets=wide(self.sets, False),
            weighted_sets=wide(self.weighted_sets, False),
            domain=wide(self.domain, ""),
            prototype=wide(self.prototype, -1),
            uncertainty=wide(self.uncertainty, np.nan),
            predicted=wide(self.predicted, np.nan),
            intervals=wide(self.intervals, np.nan),
        )

    def columns(self) -> dict[str, Column]:
        """The table to show: name to its n cells, None where there is nothing to say.

        One task gives `prediction`, `probability` (of the positive label; with several classes of the predicted one,
        and then a `probability_CLASS` each), `uncertainty` (the spread of the models that answer together, about the
        class whose probability it is), `conformal_set`, `conformal_set_weighted` and `prototype`; several tasks
        give these for each, as `prediction_TARGET`. A regression gives `predicted`, `lower`, `upper` and `uncertainty`
        instead. Then follow `ood_score`, `domain`, `domain_reason`, `nearest_training_id`, `nearest_training_molecule`,
        `similarity`, `standardised_smiles` (where standardisation changed the molecule), `status` and `message`.
        What the bundle or the method does not have is no column.

        A set is written `{inactive|active}`, a prototype `active#2`: its class and its number, from 1.
        """
        table: dict[str, Column] = {}
        for number, target in enumerate(self.targets):
            suffix = f"_{target}" if len(self.targets) > 1 else ""
            table |= {f"{name}{suffix}": cells for name, cells in self._task_columns(number).items()}
        table["ood_score"] = _numbers(self.ood_score)
        if self.domain is not None:
            table["domain"] = _texts(self.domain)
        if self.domain is not None and self.reason is not None:
            table["domain_reason"] = _texts(self.reason)
        if self.nearest_name is not None:
            table["nearest_training_id"] = _texts(self.nearest_name)
        if self.nearest_smiles is not None and self.similarity is not None:
            table["nearest_training_molecule"] = _texts(self.nearest_smiles)
            table["similarity"] = _numbers(self.similarity)
        if self.changed is not None and self.smiles is not None:
            cells = zip(self.smiles, self.changed.tolist(), strict=True)
            table["standardised_smiles"] = [smiles if changed else None for smiles, changed in cells]
        table["status"] = list(self.status)
        table["message"] = list(self.message)
        return table

    def _task_columns(self, number: int) -> dict[str, Column]:
        """The columns of one task, under their short names."""
        if self.predicted is not None:
            columns = {"predicted": _numbers(self.predicted[:, number])}
            if self.intervals is not None:
                ends = np.where(np.isfinite(self.intervals[:, number]), self.intervals[:, number], np.nan)
                columns |= {"lower": _numbers(ends[:, 0]), "upper": _numbers(ends[:, 1])}
            if self.uncertainty is not None:
                columns["uncertainty"] = _numbers(self.uncertainty[:, number])
            return columns
        chosen = self.prediction[:, number].tolist()
        columns = {"prediction": [self.classes[c] if c >= 0 else None for c in chosen]}
        if self.task.kind == "multiclass":
            own = np.where(self.answered, self.probability.max(1), np.nan)
            columns["probability"] = _numbers(own)
            columns |= {f"probability_{name}": _numbers(self.probability[:, c]) for c, name in enumerate(self.classes)}
        else:
            columns["probability"] = _numbers(self.probability[:, number])
        if self.uncertainty is not None:
            several = self.task.kind == "multiclass"
            place = np.maximum(self.prediction[:, number], 0) if several else np.full(len(self), number)
            columns["uncertainty"] = _numbers(self.uncertainty[np.arange(len(self)), place])
        for name, sets in (("conformal_set", self.sets), ("conformal_set_weighted", self.weighted_sets)):
            if sets is not None:
                rows = zip(chosen, sets[:, number].tolist(), strict=True)
                columns[name] = [None if c < 0 else self._set(members) for c, members in rows]
        if self.prototype is not None:
            slots = zip(chosen, self.prototype[:, number].tolist(), strict=True)
            columns["prototype"] = [None if c < 0 else f"{self.classes[c]}#{slot + 1}" for c, slot in slots]
        return columns

    def _set(self, members: Sequence[bool]) -> str:
        return "{" + "|".join(name for name, inside in zip(self.classes, members, strict=True) if inside) + "}"


def is_number(name: str) -> bool:
    """Whether a column of `Predictions.columns` holds numbers."""
    numbers = ("probability", "uncertainty", "ood_score", "similarity", "predicted", "lower", "upper")
    return name.startswith(numbers)


def _numbers(values: Floats) -> Column:
    return [None if value != value else value for value in values.tolist()]


def _texts(values: Sequence[str] | NDArray[np.str_]) -> Column:
    return [str(value) or None for value in values]


LEAST_ROWS = 20
"""New rows below which nothing can be said about how they are drawn."""

NO_SUPPORT = "no held-out rows are like it, so the weighted set holds every class"


def with_coverage(bundle: Bundle, coverage: float) -> Bundle:
    """The bundle with conformal sets that hold the true class in another share of cases.

    Raises:
        UsageError: the share is none, or the bundle keeps no labelled held-out rows.
    """
    if not 0 < coverage < 1:
        raise UsageError(f"--coverage is a share between 0 and 1, such as 0.8, not {coverage:g}")
    held, conformal = _held_out(bundle)
    alpha = round(1 - coverage, 12)
    task = bundle.config.task
    fitted = Conformal.fit(held.probability, held.labels, task, alpha=alpha, per_class=conformal.per_class)
    return replace(bundle, trust=replace(bundle.trust, conformal=fitted))


@dataclass(frozen=True, eq=False)
class Shift:
    """What is known about rows that are drawn differently from the held-out ones.

    Attributes:
        held: the n held-out rows.
        conformal: the sets without a shift, which say what is promised.
        ratio: how much more frequent rows like a given one are now.
        weights: (n,) the ratio at the held-out rows.
    """

    held: HeldOut
    conformal: Conformal
    ratio: DensityRatio
    weights: Floats

    @classmethod
    def fit(cls, bundle: Bundle, fingerprints: NDArray[np.uint8], distance: Floats) -> Shift:
        """From the new rows; their labels are not needed.

        Args:
            bundle: the model.
            fingerprints: (m, bytes) of the new rows.
            distance: (m,) how far from training they are.

        Raises:
            UsageError: there are too few rows, or the bundle keeps no labelled held-out rows.
        """
        held, conformal = _held_out(bundle)
        if bundle.config.molecules is None:
            raise UsageError("sets are weighted by fingerprints of molecules, and this bundle takes graphs")
        if len(distance) < LEAST_ROWS:
            raise UsageError(f"{len(distance)} molecules do not show how they are drawn; {LEAST_ROWS} or more do")
        known, new = fingerprint_features(held.fingerprints), fingerprint_features(fingerprints)
        ratio = DensityRatio.fit(known, held.distance, new, distance)
        return cls(held, conformal, ratio, ratio(known, held.distance))

    @property
    def effective_rows(self) -> float:
        """How many of the held-out rows are left, as it were: few when the new rows are unlike most of them."""
        return effective_size(self.weights)

    def apply(self, answers: Predictions, fingerprints: NDArray[np.uint8]) -> Predictions:
        """Answers about m molecules with weighted sets beside the plain ones."""
        rows = np.flatnonzero(answers.answered)
        own = self.ratio(fingerprint_features(fingerprints[rows]), answers.ood_score[rows])
        found, unsupported = weighted_sets(
            self.held.probability,
            self.held.labels,
            self.weights,
            answers.probability[rows],
            own,
            answers.task,
            alpha=self.conformal.alpha,
            per_class=self.conformal.per_class,
        )
        sets = np.zeros((len(answers), *found.shape[1:]), bool)
        sets[rows] = found
        message = list(answers.message)
        for row in rows[unsupported.any(1)].tolist():
            message[row] = NO_SUPPORT
        return replace(answers, weighted_sets=sets, message=message)


def _held_out(bundle: Bundle) -> tuple[HeldOut, Conformal]:
    if bundle.held_out is None or bundle.trust.conformal is None:
        raise UsageError("this bundle keeps no labelled held-out rows to make sets from; train it again")
    return bundle.held_out, bundle.trust.conformal
