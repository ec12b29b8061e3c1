"""What held-out graphs teach about a trained model, and what the test parts say of that."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mphil.model.bundle import Trust
from mphil.model.bundle.contents import Score
from mphil.model.predictor.asking import Outputs
from mphil.model.product.measured import errors_of
from mphil.task import Task
from mphil.training.metrics import roc_auc
from mphil.trust.calibration import Calibration
from mphil.trust.conformal import Conformal
from mphil.trust.intervals import Intervals
from mphil.trust.ood import VERDICTS, Bands
from mphil.trust.reliability import expected_calibration_error, log_loss, reliability, squared_calibration_error

ALPHA = 0.1
"""Share of true classes that a conformal set may miss."""

ENOUGH = 20
"""Held-out labels of every class from which on each class gets a threshold of its own."""

BINS = 16
"""Of the histogram of scores."""

Floats = NDArray[np.float64]


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
    """Floats of the rarest class in any task."""
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
