"""What held-out graphs teach about a trained model, and what its words and promises are worth on the test parts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mphil.model.bundle import Trust
from mphil.model.bundle.contents import HeldOut, Score
from mphil.model.predictor.asking import Outputs
from mphil.task import Task
from mphil.training.metrics import REGRESSION_METRICS, roc_auc, score
from mphil.trust.calibration import Calibration
from mphil.trust.conformal import Conformal, Intervals
from mphil.trust.ood import VERDICTS, Bands
from mphil.trust.reliability import expected_calibration_error, log_loss, reliability, squared_calibration_error
from mphil.trust.shift import DensityRatio, effective_size, fingerprint_features, weighted_sets
from mphil.trust.values import class_probabilities

ALPHA = 0.1
"""Share of true classes that a conformal set may miss."""

ENOUGH = 20
"""Held-out labels of every class from which on each class gets a threshold of its own."""

BINS = 16
"""Of the histogram of scores."""

POINTS = 300
"""Graphs of a part that the card draws, evenly spaced when there are more."""

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]


def fit_trust(
    part: str,
    outputs: Outputs,
    y: Floats,
    task: Task,
    score: Score,
    distances: Floats,
    shifted: tuple[str, Outputs, Floats] | None = None,
) -> Trust:
    """Calibration, conformal thresholds and bands from a held-out part; of a regression intervals and bands.

    Args:
        part: its name.
        outputs: what the model says about its n graphs.
        y: (n, tasks) their labels, NaN = missing.
        task: what is asked.
        score: which score tells how far from training a graph is.
        distances: (n,) what it says.
        shifted: name, outputs and labels of another validation part, which helps to calibrate: a bundle is asked about
            graphs like either.
    """
    left_out = {}
    bands = Bands.fit(distances)
    if task.kind == "regression":
        intervals = None
        if np.isnan(y).all():
            left_out["intervals"] = f"{part} has no labels"
        else:
            apart = outputs.spread_in_units(task)
            intervals = Intervals.fit(task.to_units(outputs.logits), y, alpha=ALPHA, spread=apart)
        own = Calibration("none", task.kind, task.n_outputs)
        return Trust(score, part, own, None, bands, left_out, intervals)
    parts = [(part, outputs, y), *([] if shifted is None else [shifted])]
    logits, labels = np.concatenate([one.logits for _, one, _ in parts]), np.concatenate([one for _, _, one in parts])
    calibration = Calibration.fit(logits, labels, task, "temperature" if task.kind == "multiclass" else "platt")
    named = tuple(name for name, _, _ in parts)
    told = " and ".join(named)
    if len(calibration.left) == task.n_tasks:
        left_out["calibration"] = f"there are no labels of two classes in {told}"
    elif calibration.left:
        left_out["calibration"] = f"{len(calibration.left)} tasks have no labels of two classes in {told}"
    conformal = None
    if np.isnan(y).all():
        left_out["conformal sets"] = f"{part} has no labels"
    else:
        probability = calibration.apply(outputs.logits)
        conformal = Conformal.fit(probability, y, task, alpha=ALPHA, per_class=_rarest(y, task) >= ENOUGH)
    return Trust(score, part, calibration, conformal, bands, left_out, calibrated_on=named)


def measure(
    trust: Trust,
    outputs: Mapping[str, Outputs],
    labels: Mapping[str, Floats],
    distances: Mapping[str, Floats],
    task: Task,
) -> dict[str, Any]:
    """What becomes of the promises on the test parts: calibration, coverage, verdicts, reliability, scores.

    Args:
        trust: what was fitted.
        outputs: part to what the model says about it.
        labels: part to its (n, tasks) labels.
        distances: part to how far from training its graphs are.
        task: what is asked.

    Returns:
        Plain values, for JSON.
    """
    found: dict[str, Any] = {"parts": {}, "histogram": _histogram(distances)}
    if distances.keys() >= {"id_test", "ood_test"}:
        inside, outside = distances["id_test"], distances["ood_test"]
        joined, shifted = np.concatenate([inside, outside]), np.repeat([0.0, 1.0], [len(inside), len(outside)])
        found["ood_auroc"] = roc_auc(joined, shifted)
    for part, said in outputs.items():
        measured = errors_of(trust, said, labels[part], task) if task.kind == "regression" else None
        found["parts"][part] = {
            "graphs": len(labels[part]),
            "domain": None if trust.bands is None else _counts(trust.bands, distances[part]),
            **(measured or _of_classes(trust, said, labels[part], task)),
        }
    return found


def errors_of(trust: Trust, said: Outputs, y: Floats, task: Task) -> dict[str, Any]:
    """Metrics of every task, coverage of the intervals, and pairs of measured and predicted numbers.

    Args:
        trust: what was fitted on held-out graphs.
        said: what the model says about n graphs.
        y: (n, tasks) measured, NaN = missing.
        task: what is asked.

    Returns:
        Plain values, for JSON.
    """
    predicted = task.to_units(said.logits)
    found: dict[str, list[float | None]] = {name: [] for name in REGRESSION_METRICS}
    points = []
    for values, measured in zip(predicted.T, y.T, strict=True):
        known = np.flatnonzero(~np.isnan(measured))
        for name, metric in REGRESSION_METRICS.items():
            found[name].append(metric(values[known], measured[known]))
        shown = known[np.unique(np.linspace(0, len(known) - 1, min(POINTS, len(known))).astype(np.int64))]
        points.append([measured[shown].tolist(), values[shown].tolist()])
    covered = None
    if trust.intervals is not None:
        covered = asdict(trust.intervals.coverage(predicted, y, said.spread_in_units(task)))
    return {"errors": found, "coverage": covered, "points": points}


def _of_classes(trust: Trust, said: Outputs, y: Floats, task: Task) -> dict[str, Any]:
    """Calibration, coverage and reliability on a test part."""
    own = Calibration("none", task.kind, task.n_outputs)
    probability = trust.calibration.apply(said.logits)
    points = reliability(probability, y, task)
    chances = {"before": own.apply(said.logits), "after": probability}
    measures = {
        "calibration_error": expected_calibration_error,
        "squared_calibration_error": squared_calibration_error,
        "log_loss": log_loss,
    }
    return {
        **{name: {when: of(values, y, task) for when, values in chances.items()} for name, of in measures.items()},
        "coverage": None if trust.conformal is None else asdict(trust.conformal.coverage(probability, y)),
        "reliability": {name: _plain(getattr(points, name)) for name in ("count", "predicted", "observed")},
    }


def _rarest(y: Floats, task: Task) -> int:
    """Labels of the rarest class in any task."""
    return min(int((column == c).sum()) for column in y.T for c in range(task.n_classes))


def _counts(bands: Bands, scores: NDArray[np.float64]) -> dict[str, int]:
    found = bands.verdict(scores)
    return {verdict: int((found == verdict).sum()) for verdict in VERDICTS}


def _histogram(scores: Mapping[str, NDArray[np.float64]]) -> dict[str, Any]:
    """Share of each part in bins of equal width; the few scores beyond the bulk are counted in the outer bins."""
    values = np.concatenate([np.empty(0), *scores.values()])
    low, high = np.quantile(values, (0.005, 0.995)) if len(values) else (0.0, 1.0)
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    shares = {
        part: (np.histogram(found.clip(edges[0], edges[-1]), edges)[0] / max(1, len(found))).tolist()
        for part, found in scores.items()
    }
    return {"edges": edges.tolist(), "share": shares}


def _plain(values: NDArray[np.float64]) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values.tolist()]


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
