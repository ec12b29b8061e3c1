"""What the words and promises of a bundle turned out to be worth on its test parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mphil.model.bundle import Trust
from mphil.model.bundle.held_out import HeldOut
from mphil.task import Task
from mphil.training.metrics import score
from mphil.trust.ood import VERDICTS
from mphil.trust.shift import DensityRatio, effective_size, fingerprint_features, weighted_sets
from mphil.trust.values import class_probabilities

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]


def verdict_worth(verdicts: NDArray[np.str_], probability: Floats, y: Floats, task: Task) -> dict[str, Any]:
    """How often the model is wrong in domain, borderline and out of domain.

    Args:
        verdicts: (n,) one for each row.
        probability: (n, outputs) calibrated.
        y: (n, tasks) labels, NaN = missing.
        task: what is asked.

    Returns:
        Verdict to its rows, labels, share of wrong predictions and the task's metric, the latter two None where they
        are not defined.
    """
    known = ~np.isnan(y)
    wrong = class_probabilities(probability, task.kind).argmax(-1) != np.where(known, y, 0)
    found = {}
    for verdict in VERDICTS:
        rows = verdicts == verdict
        labels = int(known[rows].sum())
        found[verdict] = {
            "rows": int(rows.sum()),
            "labels": labels,
            "error": float(wrong[rows][known[rows]].mean()) if labels else None,
            "score": score(torch.from_numpy(probability[rows]), torch.from_numpy(y[rows]), task) if labels else None,
        }
    return found


def regression_worth(verdicts: NDArray[np.str_], predicted: Floats, y: Floats, task: Task) -> dict[str, Any]:
    """How large the errors of a regression are in domain, borderline and out of domain.

    Args:
        verdicts: (n,) one for each row.
        predicted: (n, tasks) outputs of the model, as in `Task.to_units`.
        y: (n, tasks) measured numbers, NaN = missing.
        task: what is asked.

    Returns:
        Verdict to its rows, labels, mean absolute error, its standard error and the task's metric, the latter three
        None where they are not defined. The error is in the unit of the labels; that of several tasks, whose units
        differ, in standard deviations of their training labels.
    """
    unit = task.scales[0] if task.n_tasks == 1 and task.scales else 1.0
    error = unit * np.abs(predicted - task.from_units(y))
    known = ~np.isnan(y)
    found = {}
    for verdict in VERDICTS:
        rows = verdicts == verdict
        errors = error[rows][known[rows]]
        labels = len(errors)
        found[verdict] = {
            "rows": int(rows.sum()),
            "labels": labels,
            "mean_error": float(errors.mean()) if labels else None,
            "standard_error": float(errors.std(ddof=1) / labels**0.5) if labels > 1 else None,
            "score": score(torch.from_numpy(predicted[rows]), torch.from_numpy(y[rows]), task) if labels else None,
        }
    return found


def weighted_coverage(
    held: HeldOut, trust: Trust, probability: Floats, y: Floats, fingerprints: Bytes, distance: Floats, task: Task
) -> dict[str, Any] | None:
    """How often conformal sets weighted for the shift hold the true class; None without sets or rows.

    Args:
        held: the held-out rows.
        trust: what was fitted on them.
        probability: (m, outputs) calibrated, of the rows of a part.
        y: (m, tasks) their labels.
        fingerprints: (m, bytes) of the rows.
        distance: (m,) how far from training they are.
        task: what is asked.
    """
    conformal = trust.conformal
    if conformal is None or not len(held) or not len(distance):
        return None
    known, new = fingerprint_features(held.fingerprints), fingerprint_features(fingerprints)
    ratio = DensityRatio.fit(known, held.distance, new, distance)
    weights = ratio(known, held.distance)
    sets, unsupported = weighted_sets(
        held.probability,
        held.labels,
        weights,
        probability,
        ratio(new, distance),
        task,
        alpha=conformal.alpha,
        per_class=conformal.per_class,
    )
    row, column = np.nonzero(~np.isnan(y))
    true = y[row, column].astype(np.int64)
    hit, size = sets[row, column, true], sets[row, column].sum(-1)
    return {
        "labels": len(true),
        "covered": float(hit.mean()) if len(true) else None,
        "size": float(size.mean()) if len(true) else None,
        "unsupported": float(unsupported.mean()),
        "effective_rows": effective_size(weights),
    }


def measured_worth(
    trust: Trust,
    held: HeldOut | None,
    probability: Mapping[str, Floats],
    labels: Mapping[str, Floats],
    distances: Mapping[str, Floats],
    fingerprints: Mapping[str, Bytes],
    task: Task,
) -> dict[str, Any]:
    """Both for every test part, and the verdicts for all of them together; plain values, for JSON.

    Args:
        trust: what was fitted.
        held: the rows it was fitted on.
        probability: part to its (n, outputs) calibrated probabilities; of a regression, to the outputs of the model.
        labels: part to its (n, tasks) labels.
        distances: part to how far from training its rows are.
        fingerprints: part to (n, bytes) of its molecules; empty for graphs.
        task: what is asked.
    """
    found: dict[str, Any] = {}
    if trust.bands is not None and probability:
        worth = regression_worth if task.kind == "regression" else verdict_worth
        verdicts = {part: trust.bands.verdict(distances[part]) for part in probability}
        found["verdicts"] = {part: worth(verdicts[part], probability[part], labels[part], task) for part in probability}
        found["verdicts"]["both"] = worth(
            np.concatenate([verdicts[part] for part in probability]),
            np.concatenate([probability[part] for part in probability]),
            np.concatenate([labels[part] for part in probability]),
            task,
        )
    if held is not None and fingerprints:
        found["weighted"] = {
            part: weighted_coverage(
                held, trust, probability[part], labels[part], fingerprints[part], distances[part], task
            )
            for part in probability
        }
    return found
