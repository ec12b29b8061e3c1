"""The card of a trained model: what it is, how it scored beside baselines, how far to trust it, where its limits are.

Everything on it is in the files of the bundle: `config.json`, `metrics.json` and `trust.json`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from mphil.pages.card_sections import (
    SPACE,
    calibrated_on,
    choices_section,
    errors_section,
    intervals_section,
    networks,
    percent,
    told_labels,
    verdict_section,
    weighted_section,
)
from mphil.pages.charts import line_chart
from mphil.pages.elements import MISSING, listing
from mphil.pages.score_charts import part_chart
from mphil.pages.template import Grid, Section, page
from mphil.pages.view import METRIC_NAMES, PART_NAMES
from mphil.task import LOWER_IS_BETTER
from mphil.trust.reliability import root

Values = Mapping[str, Any]

TESTED = ("id_test", "ood_test")
SHOWN = 12
"""Classes or tasks that are listed one by one."""
MANY_TARGETS = 6
"""More targets than these are only counted where their labels would be told."""
CALIBRATIONS = {"platt": "Platt scaling", "temperature": "a temperature", "isotonic": "isotonic regression"}

SCORE_NAMES = {
    "tanimoto": "1 minus the Tanimoto similarity (Morgan fingerprints) to the nearest training molecule",
    "knn": "the distance from the nearest training graphs, as the model sees them",
    "energy": "the energy of the model's outputs",
}
SPLITS = {"scaffold": "scaffolds", "size": "sizes", "random": "parts drawn at random", "predefined": "parts as given"}


def card_page(config: Values, metrics: Values, trust: Values, weights: str) -> str:
    """The whole page as HTML.

    Args:
        config: what the model is, as in `config.json`.
        metrics: how it scored, as in `metrics.json`.
        trust: what was fitted on held-out data, as in `trust.json`.
        weights: checksum of the weights.
    """
    of_answers = (
        [errors_section(config, metrics), intervals_section(config, metrics, trust)]
        if _is_regression(config)
        else [_probabilities(metrics, trust), _sets(config, metrics, trust), weighted_section(metrics, trust)]
    )
    measured = [_scores(config, metrics), *of_answers, _domain(metrics, trust), verdict_section(metrics)]
    sections = [
        *(measured if _tested(metrics) else [_untested(config, trust)]),
        _members(config),
        choices_section(config),
        _data(config),
        _limits(config, metrics, trust),
        _making(config, metrics, weights),
        _use(config),
    ]
    file = config["data"]["file"]
    return page(
        "sections",
        f"mphil model card: {file}",
        eyebrow=f"mphil model card · {file}",
        headline=_headline(config, metrics),
        lead=_lead(config, metrics),
        sections=[section for section in sections if section is not None],
    )


def _noun(config: Values) -> str:
    return "molecules" if config["molecules"] else "graphs"


def _is_regression(config: Values) -> bool:
    return bool(config["task"]["kind"] == "regression")


def _tested(metrics: Values) -> bool:
    """Whether there was a test part to measure anything on."""
    return bool(metrics["trust"]["parts"])


def _headline(config: Values, metrics: Values) -> str:
    name = list(metrics["scores"])[-1]
    found = metrics["scores"][name]
    kind = METRIC_NAMES[metrics["metric"]]
    who = "The committee" if name == "committee" else name.upper()
    if not _tested(metrics):
        return f"{who}: not tested, no rows were kept for a test"
    if found["ood_test"] is None:
        return f"{who}: no {kind} on the shifted test part, whose labels do not define it"
    return f"{who}: {kind} {found['ood_test']:.3f} under the shift, {_number(found['id_test'])} without it"


def _lead(config: Values, metrics: Values) -> str:
    data, targets = config["data"], config["targets"]
    asked = f"{len(targets)} targets" if len(targets) > 3 else listing([f"“{name}”" for name in targets])
    classes = config["classes"]
    kind = f"{len(classes)} classes" if config["task"]["kind"] == "multiclass" else " or ".join(classes)
    if threshold := data.get("threshold"):
        kind += f"; active is {threshold}"
    kind, what = ("numbers", "regression") if _is_regression(config) else (kind, "classifier")
    made = (
        f"A {what} of {_noun(config)} that predicts {asked} ({kind}), trained on "
        f"{data['parts']['train']:,} of the {data['rows']:,} rows of {data['file']}. "
    )
    chosen = f"The epoch with the best {PART_NAMES[metrics['selection']]} score was kept"
    committee = config.get("committee")
    if not committee:
        return f"{made}{chosen}: epoch {metrics['epoch']}."
    if len(committee["members"]) == 1:
        return f"{made}One model answers: {committee['members'][0]['name']}."
    return f"{made}{len(committee['members'])} models answer together, as a committee. {chosen}, for each network."


def _untested(config: Values, trust: Values) -> Section:
    """What takes the place of all figures when there is none."""
    if _is_regression(config):
        unknown, fitted = "how often its intervals hold the true number", "Intervals"
    else:
        unknown = "how far its probabilities can be trusted and how often its sets hold the true class"
        fitted = f"Probabilities were calibrated on {calibrated_on(trust)}; sets"
    text = (
        f"All {_noun(config)} went into training and validation. How good the model is, {unknown} is not known from "
        "this file: score it on rows it has not seen, such as in a cross-validation. "
        f"{fitted} and bands were fitted on {PART_NAMES[trust['fitted_on']]}."
    )
    return Section("scores", "Scores", [text])


def _scores(config: Values, metrics: Values) -> Section:
    kind, scores = METRIC_NAMES[metrics["metric"]], metrics["scores"]
    rows = [[name, *(_number(found[part]) for part in TESTED)] for name, found in scores.items()]
    caption = f"{kind[0].upper()}{kind[1:]}; every method trained on the same split"
    if metrics["metric"] in LOWER_IS_BETTER:
        caption += "; lower is better"
    dots = part_chart(
        {name: [found[part] for part in TESTED] for name, found in scores.items()},
        [PART_NAMES[part] for part in TESTED],
        title="Without and with the shift",
        unit=kind,
    )
    text = (
        f"ID test is drawn like the training part; OOD test has other {_shift(config)}. One seed, one split: with "
        f"{config['data']['parts']['ood_test']:,} {_noun(config)} in OOD test, small differences mean nothing."
    )
    standing = metrics.get("standing")
    best = [f"{standing['sentence'][0].upper()}{standing['sentence'][1:]}."] if standing else []
    why = metrics["left_out"].get("random forest")
    return Section(
        "scores",
        "Scores",
        [text, *best],
        beside=(Grid(caption, ["Method", "ID test", "OOD test"], rows), dots),
        notes=[f"Not compared with a random forest: {why}."] if why else [],
    )


def _members(config: Values) -> Section | None:
    """The members of a committee and how much each counts; nothing for one model alone."""
    committee = config.get("committee")
    if not committee or len(committee["members"]) == 1:
        return None
    rows = [
        [one["name"], one["kind"], MISSING if one["epoch"] is None else str(one["epoch"]), _number(one["weight"], 2)]
        for one in committee["members"]
    ]
    fitted = listing([PART_NAMES[part] for part in committee["fitted_on"]]) or "no part: all count alike"
    answer = "The probability is the weighted mean of what these models say, calibrated afterwards."
    loss = "log loss"
    if _is_regression(config):
        answer, loss = "The predicted number is the weighted mean of what these models say.", "squared error"
    text = (
        f"{answer} Weights of least {loss} on {fitted}, each part counting alike, were shrunk towards "
        f"{_start(committee['members'])}. The uncertainty of an answer is the spread of the models. Explanations show "
        f"what the first network, {committee['members'][0]['name']}, goes by: trees have no atoms to colour."
    )
    grid = Grid("Members of the committee", ["Model", "Kind", "Epoch", "Weight"], rows, numeric_from=2)
    return Section("members", "Who answers", [text], tables=[grid])


def _start(members: Sequence[Values]) -> str:
    """What the weights of a committee are before any label is seen."""
    mixed = 0 < sum(one["kind"] == "network" for one in members) < len(members)
    return "fixed ones that count trees more than networks" if mixed else "equal ones"


def _shift(config: Values) -> str:
    split = config["data"]["split"]
    return SPLITS.get(split, f"values of “{split}”")


def _probabilities(metrics: Values, trust: Values) -> Section:
    parts = metrics["trust"]["parts"]
    rows = []
    for part, found in parts.items():
        error, loss = found["calibration_error"], found["log_loss"]
        debiased = root(found.get("squared_calibration_error", {}).get("after"))
        shown = (error["before"], error["after"], debiased, loss["before"], loss["after"])
        rows.append([PART_NAMES[part], *map(_number, shown)])
    series: dict[str, Sequence[float | None]] = {"ideal": [5.0 + 10 * i for i in range(10)]}
    for part, found in parts.items():
        series[PART_NAMES[part]] = [None if v is None else 100 * v for v in found["reliability"]["observed"]]
    chart = line_chart(
        series,
        title="Reliability",
        x_label="predicted probability, %",
        y_label="came true, %",
        x=[5.0 + 10 * i for i in range(10)],
        y_range=(0, 100),
        colours=("slate", "blue", "vermillion"),
        show=lambda value: f"{value:.0f}",
        size=(400, 280),
    )
    how = trust["calibration"]["method"]
    header = ["Part", "ECE before", "ECE after", "debiased, after", "log loss before", "log loss after"]
    text = (
        f"Probabilities were calibrated by {CALIBRATIONS.get(how, how)} on {calibrated_on(trust)}. "
        f"A calibrated 70{SPACE}% comes true seven times in ten; the lines should follow the ideal one. A point with "
        "few predictions is off it by chance, so that the mean gap (ECE) is above 0 even for true probabilities. The "
        "debiased error, a root mean square gap, leaves out what chance adds."
    )
    why = metrics["left_out"].get("calibration")
    return Section(
        "probabilities",
        "Are the probabilities calibrated?",
        [text],
        beside=(Grid("Calibration error (15 bins) and log loss", header, rows), chart),
        notes=[f"Not calibrated: {why}."] if why else [],
    )


def _sets(config: Values, metrics: Values, trust: Values) -> Section:
    conformal = trust["conformal"]
    if conformal is None:
        why = metrics["left_out"].get("conformal sets", "there were no labels to fit them on")
        return Section("sets", "Sets of classes", [f"There are none: {why}."])
    promise = 100 * (1 - conformal["alpha"])
    how = "for each class by itself" if conformal["per_class"] else "over all classes together"
    rows = []
    for part, found in metrics["trust"]["parts"].items():
        cover = found["coverage"]
        cells = [percent(cover["covered"]), _number(cover["size"], 2), percent(cover["single"])]
        by_class = [percent(value) for value in cover["by_class"][:SHOWN]]
        rows.append([PART_NAMES[part], *cells, *by_class])
    header = ["Part", "Covered", "Mean size", "One class", *(f"Class {name}" for name in config["classes"][:SHOWN])]
    text = (
        f"A prediction comes with the set of plausible classes. On data like the held-out part {promise:.0f}{SPACE}% "
        f"of the sets hold the true class, {how}. That is promised for ID test; for OOD test it is only measured."
    )
    never = sum(limit is None for row in conformal["thresholds"] for limit in row)
    notes = [f"{never} thresholds had too few labels: their classes are in every set."] if never else []
    caption = f"Sets that hold the true class; {promise:.0f}{SPACE}% is the aim"
    return Section("sets", "Sets of classes", [text], tables=[Grid(caption, header, rows)], notes=notes)


def _domain(metrics: Values, trust: Values) -> Section:
    measured = metrics["trust"]
    edges = measured["histogram"]["edges"]
    centres = [(a + b) / 2 for a, b in pairwise(edges)]
    chart = line_chart(
        {PART_NAMES[part]: [100 * v for v in share] for part, share in measured["histogram"]["share"].items()},
        title="Distance from training",
        x_label="score, further to the right",
        y_label="share of the part, %",
        x=centres,
        colours=("blue", "vermillion"),
        show=lambda value: f"{value:.1f}",
        size=(400, 280),
    )
    bands = trust["bands"]
    rows = []
    for part, found in measured["parts"].items():
        counts = found["domain"] or {}
        rows.append([PART_NAMES[part], *(_share(counts.get(word), found["graphs"]) for word in counts)])
    verdicts = list(next(iter(measured["parts"].values()))["domain"] or {}) if measured["parts"] else []
    auroc = measured.get("ood_auroc")
    text = (
        f"How far a row is from training is told by {SCORE_NAMES[trust['score']]}. A score above "
        f"{bands['borderline']:.3g} is borderline (one held-out row in twenty), above {bands['out']:.3g} out of domain "
        "(one in a hundred)."
    )
    if auroc is not None:
        text += f" The score tells OOD test from ID test with ROC-AUC {auroc:.2f}; 0.5 is guessing."
    grid = Grid("Verdicts", ["Part", *verdicts], rows)
    return Section("domain", "In or out of domain", [text], beside=(grid, chart))


def labels_told(labels: Sequence[Values], config: Values, classes: int | None = None) -> str:
    """The labels of a part: the rows of each class or the range of the measurements, for each of a few targets.

    Args:
        labels: of each target, its classes or what is known of its measurements.
        config: of the bundle.
        classes: how many of each target to show; all of them when absent.
    """
    if len(labels) > MANY_TARGETS:
        return f"{len(labels)} targets"
    names = config["classes"]
    told = [
        ", ".join(f"{names[int(c)]}: {n:,}" for c, n in list(one.items())[:classes]) if names else told_labels(one)
        for one in labels
    ]
    if len(labels) > 1:
        told = [f"{target}: {text or MISSING}" for target, text in zip(config["targets"], told, strict=True)]
    return "; ".join(told) or MISSING


def _data(config: Values) -> Section:
    data, rows = config["data"], []
    for part, size in data["parts"].items():
        labels = data["labels"][part]
        rows.append([PART_NAMES[part], labels_told(labels, config, SHOWN), f"{size:,}"])
    entries = [
        ("File", data["file"]),
        ("Rows", f"{data['rows']:,}, of which {data['set_aside']:,} were excluded"),
        ("Split", f"{data['split']}" + ("" if data["domains"] is None else f", {data['domains']:,} domains")),
        ("Data", data["data_digest"]),
        ("Parts", data["split_digest"]),
    ]
    reading = config["molecules"]
    if reading is not None:
        whole = "salts and fragments kept" if reading["standardised"] == "none" else "the largest organic fragment"
        entries.insert(1, ("Molecules", f"column “{reading['column']}”, canonical spelling, {whole}"))
    grid = Grid("Parts and their labels", ["Part", "Labels", "Rows"], rows, numeric_from=2)
    notes = [f"{note[0].upper()}{note[1:]}." for note in data.get("assumed", ())]
    return Section("data", "Data", facts=entries, tables=[grid], notes=notes)


def _limits(config: Values, metrics: Values, trust: Values) -> Section:
    noun = _noun(config)
    texts = [
        f"It knows what is in {config['data']['parts']['train']:,} training {noun} and nothing else. A label is a "
        "pattern in this table, not a cause.",
        "Scores, coverage and calibration were measured once, on one split of one file. Under another shift they will "
        "be others: the ID figures promise nothing there."
        if _tested(metrics)
        else "Nothing about it was measured on a test part.",
        "In domain means near the training data. It does not mean that the answer is right.",
    ]
    if config["molecules"]:
        texts.append(
            "A molecule is its graph: no conformers, no tautomers beyond what is written"
            + (", salts counted as part of the molecule." if config["molecules"]["standardised"] == "none" else ".")
        )
    texts += [f"Left out: {what}, because {why}." for what, why in metrics["left_out"].items()]
    return Section("limits", "Limits", texts)


def _making(config: Values, metrics: Values, weights: str) -> Section:
    args = ", ".join(f"{key}={value}" for key, value in config["method"]["args"].items()) or "none"
    encoder = config["encoder"]
    versions = ", ".join(f"{name} {value}" for name, value in config["versions"].items())
    if not networks(config):
        facts = [("Method", config["method"]["name"]), ("Seed", str(config["seed"])), ("Versions", versions)]
        return Section("making", "How it was made", facts=facts)
    entries = [
        ("Method", config["method"]["name"]),
        ("Encoder", f"{encoder['kind']}, {encoder['layers']} layers, width {encoder['width']}, {encoder['readout']}"),
        ("Seed", str(config["seed"])),
        ("Epoch", f"{metrics['epoch']}, chosen on {PART_NAMES[metrics['selection']]}"),
        ("Training", f"{metrics['seconds']:.0f} s"),
        ("Weights", weights),
        ("Versions", versions),
    ]
    settings = ", ".join(f"{key}={value}" for key, value in config["data"]["settings"].items())
    return Section(
        "making", "How it was made", facts=entries, settings=[("Hyperparameters", args), ("Training", settings)]
    )


def _use(config: Values) -> Section:
    asked = "new.csv" if config["molecules"] else "GRAPHS"
    return Section("use", "Use it", commands=[f"mphil predict BUNDLE {asked} --out answers.csv"])


def _number(value: float | None, digits: int = 3) -> str:
    return MISSING if value is None else f"{value:.{digits}f}"


def _share(count: int | None, total: int) -> str:
    return MISSING if count is None or not total else f"{count:,} ({100 * count / total:.0f}{SPACE}%)"
