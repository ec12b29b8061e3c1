"""`MPHILClassifier` and `MPHILRegressor`: fit, predict, score, for scikit-learn's tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score

from mphil.model.estimator.inputs import InputError, Labels, OnBad, read_labels, read_numbers, value_errors
from mphil.model.estimator.shared import GraphEstimator
from mphil.training.metrics import score as score_logits


class MPHILClassifier(ClassifierMixin, GraphEstimator):  # type: ignore[misc]
    """A classifier of molecules and graphs that is trained for a shift.

    X holds SMILES, RDKit molecules or PyG graphs, one a row. y is one column of classes of any kind, or several columns
    of 0 and 1 that are learned together, with NaN where a label is missing.

    Inside `fit` a share of the rows is held out: half of it are whole domains (groups, or scaffolds of molecules, or
    sizes of graphs), on which the epoch is chosen; the other half is drawn at random. Both calibrate probabilities.
    The same rows, labels, settings and seed give the same model.

    Args:
        method: name of a method, as `mphil methods` lists them.
        options: hyperparameters of the method, as `mphil methods show NAME` lists them.
        epochs: passes over the training rows; None chooses by their number.
        batch_size: graphs in a step, at most all training rows; None chooses by their number.
        lr: learning rate; None is 0.001, or half of that with pretrained weights.
        weight_decay: L2 penalty.
        patience: stop after so many epochs without a better score; None or 0 = never.
        start: weights that the encoders start from: `molecules`, a file, or empty for random ones; None is `molecules`
            where they fit, as in `mphil train FILE`.
        encoder: its kind, such as `gin` or `vgin`; `mphil encoders` lists them.
        layers: message-passing layers.
        width: size of the node features.
        dropout: share of features dropped after every layer.
        readout: how node features become one vector: `mean`, `sum`, `max` or `attention`.
        validation: share of the rows that is held out inside `fit`.
        on_bad: what to do about molecules that cannot be read. `raise` names their rows in an error. `skip` warns;
            `fit` leaves them out, `predict_proba` gives them NaN, and `predict` gives NaN, or None when the classes are
            no numbers.
        members: networks of a committee, which for molecules also has two forests and a boosted model; the method
            and ERM take turns, each time with the next seed. 0 = one network alone.
        seed: of everything random.
        device: where the model is trained and asked, such as `cpu` or `cuda:0`.

    Attributes:
        classes_: the classes, in the order of the columns of `predict_proba`; 0 and 1 for several tasks.
        n_outputs_: columns of y.
        bundle_: the trained model with all that its answers need; see `save`.
        predictor_: answers in full: conformal sets, distance from training, nearest molecule.
        history_: losses and validation scores of every epoch; trees have none.
        skipped_: rows of X that `fit` left out.

    Example:
        >>> smiles = ["CCO", "CCN", "CCCO", "CCCN", "CCCCO", "CCCCN", "OCCO", "NCCN", "CC(C)O", "CC(C)N"]
        >>> model = MPHILClassifier("erm", epochs=2, width=8, layers=2).fit(smiles, ["alcohol", "amine"] * 5)
        >>> model.predict_proba(["OCC", "CCCCCN"]).shape
        (2, 2)
    """

    def predict(self, X: Any) -> NDArray[Any]:
        """(n,) the likeliest class of each row, or (n, tasks) for several tasks."""
        found = self._ask(X)
        chosen: NDArray[Any] = self.classes_[found.prediction]
        if not found.answered.all():
            numbers = np.issubdtype(self.classes_.dtype, np.number)
            chosen = chosen.astype(np.float64 if numbers else object)
            chosen[~found.answered] = np.nan if numbers else None
        return chosen[:, 0] if self.n_outputs_ == 1 else chosen

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """(n, classes) calibrated probabilities, or (n, tasks) those of label 1 for several tasks."""
        found = self._ask(X)
        if found.task.kind == "binary":
            return np.concatenate([1 - found.probability, found.probability], axis=1)
        return found.probability

    def score(self, X: Any, y: Any, sample_weight: Sequence[float] | None = None) -> float:
        """Accuracy; for several tasks the mean ROC-AUC of those that have labels of both kinds.

        Rows that cannot be read are left out, after a warning, when `on_bad` is `skip`.
        """
        found = self._ask(X)
        known = found.answered
        if self.n_outputs_ == 1:
            weight = None if sample_weight is None else np.asarray(sample_weight)[known]
            chosen = self.classes_[found.prediction[known, 0]]
            return float(accuracy_score(np.asarray(y)[known], chosen, sample_weight=weight))
        if sample_weight is not None:
            raise InputError("the ROC-AUC of several tasks takes no sample_weight")
        truth = torch.from_numpy(np.asarray(y, np.float64)[known])
        with value_errors():
            area = score_logits(torch.from_numpy(found.probability[known]), truth, found.task)
        if area is None:
            raise InputError("no task has labels of both kinds; there is nothing to score")
        return area

    def _read_labels(self, y: Any, rows: int) -> Labels:
        return read_labels(y, rows)

    def _know(self, labels: Labels) -> None:
        self.classes_: NDArray[Any] = labels.classes


class MPHILRegressor(RegressorMixin, GraphEstimator):  # type: ignore[misc]
    """A regression of molecules and graphs that is trained for a shift.

    X holds SMILES, RDKit molecules or PyG graphs, one a row. y is one column of numbers, or several that are learned
    together, with NaN where one is missing. Rows are held out inside `fit` as `MPHILClassifier` does; those drawn at
    random make the intervals.

    Args:
        method: name of a method that learns numbers, as `mphil methods` lists them.
        options: hyperparameters of the method, as `mphil methods show NAME` lists them.
        epochs: passes over the training rows; None chooses by their number.
        batch_size: graphs in a step, at most all training rows; None chooses by their number.
        lr: learning rate; None is 0.001, or half of that with pretrained weights.
        weight_decay: L2 penalty.
        patience: stop after so many epochs without a better score; None or 0 = never.
        start: weights that the encoders start from: `molecules`, a file, or empty for random ones; None is `molecules`
            where they fit, as in `mphil train FILE`.
        encoder: its kind, such as `gin` or `vgin`; `mphil encoders` lists them.
        layers: message-passing layers.
        width: size of the node features.
        dropout: share of features dropped after every layer.
        readout: how node features become one vector: `mean`, `sum`, `max` or `attention`.
        validation: share of the rows that is held out inside `fit`.
        on_bad: what to do about molecules that cannot be read. `raise` names their rows in an error. `skip` warns;
            `fit` leaves them out, and `predict` gives them NaN.
        members: networks of a committee, as in `MPHILClassifier`. 0 = one network alone.
        seed: of everything random.
        device: where the model is trained and asked, such as `cpu` or `cuda:0`.

    Attributes:
        n_outputs_: columns of y.
        bundle_: the trained model with all that its answers need; see `save`.
        predictor_: answers in full: intervals, distance from training, nearest molecule.
        history_: losses and validation scores of every epoch.
        skipped_: rows of X that `fit` left out.

    Example:
        >>> smiles = ["CCO", "CCN", "CCCO", "CCCN", "CCCCO", "CCCCN", "OCCO", "NCCN", "CC(C)O", "CC(C)N"]
        >>> model = MPHILRegressor("erm", epochs=2, width=8, layers=2).fit(smiles, [0.1 * n for n in range(10)])
        >>> model.predict(["OCC", "CCCCCN"]).shape
        (2,)
    """

    def __init__(
        self,
        method: str = "mphil+",
        *,
        options: Mapping[str, Any] | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        weight_decay: float = 0.0,
        patience: int | None = None,
        start: str | None = None,
        encoder: str = "gin",
        layers: int = 3,
        width: int = 128,
        dropout: float = 0.1,
        readout: str = "max",
        validation: float = 0.2,
        on_bad: OnBad = "raise",
        members: int = 0,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        super().__init__(
            method,
            options=options,
            epochs=epochs,
            batch_size=batch_size,
            lr=lr,
            weight_decay=weight_decay,
            patience=patience,
            start=start,
            encoder=encoder,
            layers=layers,
            width=width,
            dropout=dropout,
            readout=readout,
            validation=validation,
            on_bad=on_bad,
            members=members,
            seed=seed,
            device=device,
        )

    def predict(self, X: Any) -> NDArray[np.float64]:
        """(n,) the number of each row, or (n, tasks) for several columns; NaN for rows that cannot be read."""
        found = self._ask(X).predicted
        assert found is not None
        return found[:, 0] if self.n_outputs_ == 1 else found

    def predict_interval(self, X: Any) -> NDArray[np.float64]:
        """(n, 2) lower and upper ends, or (n, tasks, 2); infinite where too few rows were held out.

        Raises:
            InputError: no label was held out.
        """
        found = self._ask(X).intervals
        if found is None:
            raise InputError("no row with a label was held out to make intervals of; give more rows to fit")
        return found[:, 0] if self.n_outputs_ == 1 else found

    def score(self, X: Any, y: Any, sample_weight: Sequence[float] | None = None) -> float:
        """R2, for several columns the mean over them; missing labels and rows without an answer are left out."""
        predicted, truth = (np.asarray(v, np.float64).reshape(len(v), -1) for v in (self.predict(X), y))
        weight = None if sample_weight is None else np.asarray(sample_weight)
        scores = []
        for column, labels in zip(predicted.T, truth.T, strict=True):
            known = ~np.isnan(column) & ~np.isnan(labels)
            own = None if weight is None else weight[known]
            scores.append(float(r2_score(labels[known], column[known], sample_weight=own)))
        return float(np.mean(scores))

    def _read_labels(self, y: Any, rows: int) -> Labels:
        return read_numbers(y, rows)
