"""Explanations of what a predictor says about rows of SMILES."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mphil.errors import UsageError
from mphil.explain.atoms import By, Explanation, explain_molecules
from mphil.explain.gallery import UNKNOWN, NewMolecules
from mphil.model.bundle import BundleConfig
from mphil.model.predictor import Predictions, Predictor
from mphil.progress import row_bar

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Levels:
    """Thirds of the training labels.

    Attributes:
        low: up to here a number is low.
        high: from here on a number is high.
    """

    low: float
    high: float

    @classmethod
    def of(cls, labels: Floats) -> Levels:
        """The thirds of (n,) labels, NaN = missing.

        Example:
            >>> Levels.of(np.array([1.0, 2.0, 3.0, 4.0, np.nan])).number(np.array([0.0, 2.5, 9.0])).tolist()
            [0.0, 1.0, 2.0]
        """
        known = labels[~np.isnan(labels)]
        low, high = np.quantile(known, (1 / 3, 2 / 3)) if len(known) else (0.0, 0.0)
        return cls(float(low), float(high))

    @property
    def names(self) -> tuple[str, ...]:
        return f"low (up to {self.low:.3g})", "middle", f"high (from {self.high:.3g})"

    def number(self, values: Floats) -> Floats:
        """(n,) 0, 1 or 2; NaN stays NaN."""
        found: Floats = np.where(np.isnan(values), np.nan, 1.0 * (values > self.low) + (values >= self.high))
        return np.minimum(found, 2.0)


def page_classes(config: BundleConfig, labels: Floats) -> tuple[tuple[str, ...], Floats, Levels | None]:
    """Names of the groups of one task, the group of each training molecule, and the levels of a regression.

    Args:
        config: of the model.
        labels: (n,) labels of the training molecules in the task, NaN = missing.
    """
    if config.task.kind != "regression":
        return config.classes, labels, None
    levels = Levels.of(labels)
    return levels.names, levels.number(labels), levels


@dataclass(frozen=True, eq=False)
class ExplainedRows:
    """Answers about n rows, and the reasons for those that have one.

    Attributes:
        predictions: what the model says about every row.
        rows: (k,) the rows that have an answer, ascending.
        explanations: (k,) why.
    """

    predictions: Predictions
    rows: tuple[int, ...]
    explanations: tuple[Explanation, ...]

    def new_molecules(self, task: int = 0, levels: Levels | None = None, names: Sequence[str] = ()) -> NewMolecules:
        """The explained rows, for a page about one task.

        Args:
            task: its number.
            levels: of the numbers of a regression.
            names: (n,) what each row is called, if anything.
        """
        said, rows = self.predictions, np.array(self.rows, np.int64)
        verdicts = [UNKNOWN] * len(rows) if said.domain is None else [str(said.domain[row]) for row in rows]
        embedding = said.embedding[rows].astype(np.float64)
        called = [names[row] for row in self.rows] if names else []
        reasons = [said.reason[row] for row in self.rows] if said.reason is not None else []
        if said.predicted is not None and levels is not None:
            numbers = said.predicted[rows, task]
            classes, told = levels.number(numbers).astype(np.int64), [_told(said, row, task) for row in self.rows]
            return NewMolecules(
                self.explanations, embedding, classes, np.empty(0), verdicts, classes, called, reasons, told
            )
        classes = said.prediction[rows, task]
        several = said.task.kind == "multiclass"
        shown = classes if several else np.ones_like(classes)
        chances = said.probability[rows, shown if several else task]
        return NewMolecules(self.explanations, embedding, classes, chances, verdicts, shown, called, reasons)


def _told(said: Predictions, row: int, task: int) -> str:
    """A predicted number with its interval."""
    assert said.predicted is not None
    number = f"{said.predicted[row, task]:.3g}"
    if said.intervals is None or not np.isfinite(said.intervals[row, task]).all():
        return number
    low, high = said.intervals[row, task]
    return f"{number} ({low:.3g} to {high:.3g})"


def explain_rows(
    predictor: Predictor, smiles: Sequence[str], *, by: By | None = None, progress: bool = False
) -> ExplainedRows:
    """Predict molecules and say why; a row that cannot be read has a status and no explanation.

    Args:
        predictor: a trained model.
        smiles: one molecule a row, in any spelling.
        by: how atoms are scored; see `mphil.explain.atoms.ways`.
        progress: show a bar when there is a terminal.

    Raises:
        UsageError: the model takes graphs that are no molecules.
    """
    if not predictor.takes_molecules:
        raise UsageError("this model takes graphs that are no molecules; explanations are drawn on molecules")
    molecules = predictor.read(smiles)
    predictions = predictor.answer(molecules)
    answered = [place for place, row in enumerate(molecules.kept.tolist()) if predictions.answered[row]]
    rows = molecules.kept[answered].tolist()
    store = molecules.store.select(torch.tensor(answered, dtype=torch.long))
    with row_bar("explaining", len(rows), progress) as advance:
        explanations = explain_molecules(
            predictor.method, store, [smiles[row].strip() for row in rows], by=by, advance=advance
        )
    return ExplainedRows(predictions, tuple(rows), tuple(explanations))
