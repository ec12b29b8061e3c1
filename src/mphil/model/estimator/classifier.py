"""`MPHILClassifier`: fit, predict, score, for scikit-learn's tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score

from mphil.model.estimator.base import GraphEstimator
from mphil.model.estimator.inputs import InputError, value_errors
from mphil.model.estimator.labels import Labels, read_labels
from mphil.training.metrics import score as score_logits


class MPHILClassifier(ClassifierMixin, GraphEstimator):  # type: ignore[misc]
    """A classifier of molecules and graphs that is trained for a shift.

    X holds SMILES, RDKit molecules or PyG graphs, one a row. y is one column of classes of any kind, or several columns
    of 0 and 1 that are learned together, with NaN where a label is missing.

    Inside `fit` a share of the rows is held out: half of it are whole domains (groups, or scaffolds of molecules, or
    sizes of graphs), on which the epoch is chosen; the other half is drawn at random, and calibrates probabilities.
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
        members: networks of a committee, which for molecules also has a random forest and a boosted model; the method
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
