"""What the test parts say of a regression: its errors, how often intervals hold, and points for the card."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mphil.model.bundle import Trust
from mphil.model.predictor.asking import Outputs
from mphil.task import Task
from mphil.training.metrics import REGRESSION_METRICS

POINTS = 300
"""Graphs of a part that the card draws, evenly spaced when there are more."""

Floats = NDArray[np.float64]


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
