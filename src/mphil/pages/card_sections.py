"""Sections of a card: choices with their reasons, errors of measured numbers, what verdicts and sets were worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mphil.pages.charts import bar_chart
from mphil.pages.elements import MISSING, listing
from mphil.pages.score_charts import scatter_chart
from mphil.pages.template import Grid, Section
from mphil.pages.view import METRIC_NAMES, PART_NAMES
from mphil.task import MEASURES

Values = Mapping[str, Any]

COLOURS = ("blue", "vermillion")
SPACE = "\N{NO-BREAK SPACE}"
SHOWN = 12
"""Targets that are listed one by one."""


def calibrated_on(trust: Values) -> str:
    """The parts that probabilities were calibrated on, in words; older bundles name the one for everything."""
    return listing([PART_NAMES.get(part, MISSING) for part in trust.get("calibrated_on") or [trust["fitted_on"]]])


def errors_section(config: Values, metrics: Values) -> Section:
    """Errors of every target, predicted beside measured numbers, and what is left between them."""
    parts, targets = metrics["trust"]["parts"], config["targets"]
    rows = [
        [target, PART_NAMES[part], *(_number(found["errors"][name][task]) for name in MEASURES)]
        for task, target in enumerate(targets[:SHOWN])
        for part, found in parts.items()
    ]
    header = ["Target", "Part", *(METRIC_NAMES[name] for name in MEASURES)]
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
    if value is None:
        return MISSING
    return f"{value:.3g}" if abs(value) >= 100 else f"{round(value, 3) + 0.0:.3f}"


FEW = 20
"""Labels below which a share of errors says little."""


def verdict_section(metrics: Values) -> Section | None:
    """How often the model was wrong in domain, borderline and out of domain; None where that was not measured."""
    measured = metrics["trust"].get("verdicts")
    if not measured:
        return None
    kind = METRIC_NAMES[metrics["metric"]]
    groups = {
        PART_NAMES.get(part, "Both tests"): [_verdict(word, found) for word, found in words.items()]
        for part, words in measured.items()
    }
    error = "Mean error" if "mean_error" in measured["both"]["in domain"] else "Wrong"
    header = ["Verdict", "Rows", "Labels", error, kind[0].upper() + kind[1:]]
    grid = Grid("Errors by verdict, on the test parts", header, groups)
    return Section("worth", "What the verdicts are worth", [_lesson(measured["both"])], tables=[grid])


def _verdict(word: str, found: Values) -> list[str]:
    error = _number(found["mean_error"]) if "mean_error" in found else percent(found["error"])
    score = MISSING if found["score"] is None else f"{found['score']:.3f}"
    return [word, f"{found['rows']:,}", f"{found['labels']:,}", error, score]


def _lesson(words: Values) -> str:
    """What the errors of both tests together say, in sentences."""
    inside, outside = words["in domain"], words["out of domain"]
    if inside["labels"] < FEW or outside["labels"] < FEW:
        fewer = "out of domain" if outside["labels"] < FEW else "in domain"
        return (
            f"Fewer than {FEW} labelled test rows are {fewer}: whether the verdict warns of errors is not known from "
            "this file."
        )
    if "mean_error" in inside:
        near, far = (one["mean_error"] for one in (inside, outside))
        told = f"In domain the mean error was {_number(near)}, out of domain {_number(far)}."
        variances = [one["standard_error"] ** 2 for one in (inside, outside)]
    else:
        near, far = (one["error"] for one in (inside, outside))
        told = f"In domain {percent(near)} of the answers were wrong, out of domain {percent(far)}."
        variances = [one["error"] * (1 - one["error"]) / one["labels"] for one in (inside, outside)]
    gap, noise = far - near, 2 * sum(variances) ** 0.5  # two standard errors of the difference
    if gap > noise:
        return f"{told} The verdict warns of errors."
    if gap < -noise:
        return f"{told} Here the verdict does not warn of errors: rows out of domain were answered better."
    return f"{told} The difference is no more than chance: do not read “in domain” as “right”."


def weighted_section(metrics: Values, trust: Values) -> Section | None:
    """Plain and weighted sets side by side; None where they were not measured."""
    measured = {part: found for part, found in (metrics["trust"].get("weighted") or {}).items() if found}
    if not measured or trust["conformal"] is None:
        return None
    promise = 100 * (1 - trust["conformal"]["alpha"])
    rows = []
    for part, found in measured.items():
        plain = metrics["trust"]["parts"][part]["coverage"]
        rows.append(
            [
                PART_NAMES[part],
                percent(plain["covered"]),
                percent(found["covered"]),
                _two_decimals(plain["size"]),
                _two_decimals(found["size"]),
                percent(found["unsupported"]),
                f"{found['effective_rows']:.0f}",
            ]
        )
    header = ["Part", "Covered, plain", "Weighted", "Size, plain", "Weighted", "No support", "Effective rows"]
    text = (
        "Weighted sets count a held-out row as often as rows like it occur in the part, by a logistic regression on "
        "fingerprints and on the distance from training. Where the held-out rows have nothing like a row, its set "
        "holds every class. Effective rows: how many equally weighted held-out rows are worth as much. "
        "The option --weighted of mphil predict gives such sets for your rows."
    )
    caption = f"Sets that hold the true class, without and with weights for the shift; {promise:.0f}{SPACE}% is the aim"
    return Section("weighted", "Sets under the shift", [text], tables=[Grid(caption, header, rows)])


def percent(value: float | None) -> str:
    return MISSING if value is None else f"{100 * value:.1f}{SPACE}%"


def _two_decimals(value: float | None) -> str:
    return MISSING if value is None else f"{value:.2f}"


QUESTIONS = {
    "scaffold": "it asks about ring systems that training has not seen",
    "cluster": "it asks about molecules unlike those of training",
    "size": "it asks about other sizes than those of training",
    "time": "it asks about what came later than training",
    "random": "it asks about rows like those of training",
    "predefined": "the table says which row is in which part",
}


def choices_section(config: Values) -> Section | None:
    """Every choice with its reason and the option that changes it; None where no file was trained on."""
    data = config["data"]
    if "duplicates" not in data:
        return None
    facts = [("Answer", _answer(config)), ("Split", _split(data)), ("Models", _models(config))]
    if networks(config):
        facts += [("Epoch", _epoch(config)), ("Training", _training(config))]
    if config["molecules"]:
        facts += [("Molecules", _molecules(config["molecules"])), ("Contradicting rows", _duplicates(config))]
    return Section("choices", "What was chosen, and why", facts=facts)


def networks(config: Values) -> int:
    """How many networks answer; 0 when trees answer alone."""
    committee = config.get("committee")
    return sum(one["kind"] == "network" for one in committee["members"]) if committee else 1


def _answer(config: Values) -> str:
    if config["task"]["kind"] == "regression":
        return "numbers, since the labels are measurements; --threshold NUMBER makes two classes"
    classes = ", ".join(config["classes"][:4]) + (", ..." if len(config["classes"]) > 4 else "")
    if threshold := config["data"].get("threshold"):
        return f"{classes}: active is {threshold}, as --threshold says"
    return f"{classes}, since the labels are few different values; --target names other columns"


def _split(data: Values) -> str:
    why = QUESTIONS.get(data["split"], "it asks about values that training has not seen")
    return f"{data['split']}: {why}; --split chooses another, --test FILE an external test set"


def _models(config: Values) -> str:
    committee = config.get("committee")
    if not committee:
        return f"one network, {config['method']['name']}, as --fast says; without it, a committee"
    members = committee["members"]
    if len(members) == 1:
        return f"{members[0]['name']}, as --method says; without it, a committee"
    count = networks(config)
    trees = len(members) - count
    told = f"{count} network{'s' if count > 1 else ''}"
    told += f" and {trees} ensembles of trees" if trees else ""
    return f"{told}, since models of several kinds make different mistakes; --members, --method and --fast change it"


def _epoch(config: Values) -> str:
    part = PART_NAMES[config["selection"]]
    why = "its rows are as new as those to come" if config["selection"] == "ood_val" else "its labels can be scored"
    return f"the best on {part}, since {why}; --selection chooses on the other part"


def _training(config: Values) -> str:
    settings, rows = config["data"]["settings"], config["data"]["parts"]["train"]
    if not {"epochs", "batch_size", "lr"} <= settings.keys():
        return MISSING
    told = f"{settings['epochs']} epochs, batches of {settings['batch_size']}, learning rate {settings['lr']:g}"
    start = " and the pretrained weights that networks start from" if settings.get("start") else ""
    return f"{told}: by the number of training rows, {rows:,}{start}; --set train.epochs=30 and the like change it"


def _molecules(reading: Values) -> str:
    if reading["standardised"] == "none":
        return "as they are written, as --no-standardise says"
    return (
        "the largest organic fragment, neutralised where that is safe, since a salt and its parent are one molecule; "
        "--no-standardise leaves them as they are"
    )


def _duplicates(config: Values) -> str:
    rule = config["data"]["duplicates"]
    if rule == "majority" and config["task"]["kind"] == "regression":
        rule = "median"
    told = {"keep": "all are kept", "drop": "all are dropped"}.get(rule, f"their {rule} is taken")
    return f"{told}; --duplicates keep, drop or majority chooses"
