"""The sections of a card that are about measured numbers: errors, residuals, intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mphil.pages.charts import bar_chart
from mphil.pages.scatter import scatter_chart
from mphil.pages.template import Grid, Section
from mphil.pages.text import MISSING
from mphil.pages.verdict import METRIC_NAMES
from mphil.pages.view import PART_NAMES

Values = Mapping[str, Any]

MEASURES = ("rmse", "mae", "r2", "spearman")
COLOURS = ("blue", "vermillion")
SPACE = "\N{NO-BREAK SPACE}"
SHOWN = 12
"""Targets that are listed one by one."""


def errors_section(config: Values, metrics: Values) -> Section:
    """Errors of every target, predicted beside measured numbers, and what is left between them."""
    parts, targets = metrics["trust"]["parts"], config["targets"]
    rows = [
        [target, PART_NAMES[part], *(_number(found["errors"][name][task]) for name in MEASURES)]
        for task, target in enumerate(targets[:SHOWN])
        for part, found in parts.items()
    ]
    header = ["Target", "Part", *(METRIC_NAMES[name] for name in MEASURES)]  # type: ignore[index]
    points = {PART_NAMES[part]: found["points"][0] for part, found in parts.items()}
    beside = scatter_chart(
        {name: (measured, predicted) for name, (measured, predicted) in points.items()},
        title=f"Predicted and measured: {targets[0][:30]}",
        x_label="measured",
        y_label="predicted",
        diagonal=True,
        colours=COLOURS,
    )
    left = scatter_chart(
        {name: (predicted, _residuals(measured, predicted)) for name, (measured, predicted) in points.items()},
        title=f"Residuals: {targets[0][:30]}",
        x_label="predicted",
        y_label="measured minus predicted",
        level=0.0,
        colours=COLOURS,
    )
    text = (
        "RMSE and MAE are in the unit of the table; R² is 1 for perfect predictions and 0 for those no better than the "
        "mean of the part; Spearman's correlation looks at the order alone. Points should lie along the dashed lines: "
        "a slope in the residuals means that high values are predicted too low, as regressions tend to do."
    )
    grid = Grid("Errors on the test parts", header, rows, numeric_from=2)
    return Section("errors", "Errors", [text], tables=[grid], charts=[beside, left])


def intervals_section(config: Values, metrics: Values, trust: Values) -> Section:
    """How often the intervals hold the measured number."""
    intervals = trust.get("intervals")
    if intervals is None:
        why = metrics["left_out"].get("intervals", "there were no labels to fit them on")
        return Section("intervals", "Intervals", [f"There are none: {why}."])
    promise, targets = 100 * (1 - intervals["alpha"]), config["targets"]
    rows, series = [], {}
    for part, found in metrics["trust"]["parts"].items():
        cover = found["coverage"]
        series[PART_NAMES[part]] = [None if v is None else 100 * v for v in cover["by_task"][:SHOWN]]
        for task, target in enumerate(targets[:SHOWN]):
            share, width = cover["by_task"][task], cover["width"][task]
            told = MISSING if share is None else f"{100 * share:.1f}{SPACE}%"
            rows.append([target, PART_NAMES[part], told, _number(width)])
    chart = bar_chart(
        [target[:14] for target in targets[:SHOWN]],
        series,
        title="Coverage of the intervals",
        y_label="inside their interval, %",
        y_range=(0, 100),
        reference=("aim", promise),
        colours=COLOURS,
        show=lambda value: f"{value:.0f}",
        size=(400, 280),
    )
    text = (
        f"A predicted number comes with an interval. On data like the held-out part {promise:.0f}{SPACE}% of the "
        "intervals hold the measured number. That is promised for ID test; for OOD test it is only measured."
    )
    few = sum(value is None for value in intervals["quantiles"])
    notes = [f"{few} targets had too few held-out labels for an interval."] if few else []
    header = ["Target", "Part", "Covered", "Mean width"]
    grid = Grid(f"Intervals; {promise:.0f}{SPACE}% is the aim", header, rows, numeric_from=2)
    return Section("intervals", "Intervals", [text], beside=(grid, chart), notes=notes)


def told_labels(labels: Values) -> str:
    """The measurements of a part, for a reader."""
    if not labels.get("count"):
        return MISSING
    return f"{labels['count']:,}, from {labels['lowest']:.4g} to {labels['highest']:.4g}, mean {labels['mean']:.4g}"


def _residuals(measured: Sequence[float], predicted: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(measured, predicted, strict=True)]


def _number(value: float | None) -> str:
    return MISSING if value is None else f"{value:.3g}" if abs(value) >= 100 else f"{value:.3f}"
