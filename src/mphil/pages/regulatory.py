"""A report for regulators: the five OECD principles for (Q)SAR models, with fields like those of a QMRF.

The fields are filled from a bundle. What a bundle cannot know is marked, so that its author sees what is left to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mphil.pages.card import CALIBRATIONS, SCORE_NAMES, labels_told
from mphil.pages.card_sections import calibrated_on
from mphil.pages.elements import MISSING, listing
from mphil.pages.template import Grid, Section, page
from mphil.pages.view import METRIC_NAMES, PART_NAMES
from mphil.task import MEASURES
from mphil.trust.reliability import root

Values = Mapping[str, Any]

OPEN = "To be filled in by the author."
TITLE = "(Q)SAR model report"
LEAD = (
    "Structured by the OECD principles for the validation of (Q)SAR models, with fields like those of the QSAR Model "
    "Reporting Format (QMRF). It is no official QMRF. Fields were filled from the bundle of the model; what a bundle "
    "cannot know is marked."
)


def chapters(
    config: Values, metrics: Values, trust: Values, *, weights: str, digest: str, fit: float | None = None
) -> list[Section]:
    """Everything in the report.

    Args:
        config: what the model is, as in `config.json` of a bundle.
        metrics: how it scored, as in `metrics.json`.
        trust: what was fitted on held-out data, as in `trust.json`.
        weights: checksum of the weights.
        digest: checksum of the bundle.
        fit: the metric on the training rows; None when it was not computed.
    """
    return [
        _identity(config, digest),
        _endpoint(config),
        _algorithm(config, metrics, weights),
        _domain(metrics, trust),
        _internal(config, metrics, trust, fit),
        _external(config, metrics),
        _mechanism(config),
        _rest(config, metrics),
    ]


def _chapter(heading: str, fields: Sequence[tuple[str, str]], tables: Sequence[Grid] = ()) -> Section:
    return Section(f"chapter-{heading[0]}", heading, facts=fields, tables=tables)


def _identity(config: Values, digest: str) -> Section:
    versions = ", ".join(f"{name} {value}" for name, value in config["versions"].items())
    fields = [
        (
            "1.1 Title",
            f"{_model(config)} for {', '.join(config['targets'])}, trained on {_data(config, 'file')}",
        ),
        ("1.2 Software", versions),
        ("1.3 Identifier of the bundle (SHA-256)", digest or MISSING),
        ("1.4 Author and contact", OPEN),
        ("1.5 Date", OPEN),
        ("1.6 Related models and references", OPEN),
    ]
    return _chapter("1. Identification", fields)


def _endpoint(config: Values) -> Section:
    task = config["task"]
    kind = {
        "binary": "classification, yes or no",
        "multitask": "several classifications, each yes or no",
        "multiclass": "classification into several classes",
        "regression": "regression: a number in the unit of the table",
    }[task["kind"]]
    if config["classes"]:
        kind += f": {', '.join(config['classes'])}"
    threshold = _data(config, "threshold", "")
    assumed = "; ".join(_data(config, "assumed", [])) or "nothing"
    fields = [
        ("2.1 Endpoint", ", ".join(config["targets"])),
        ("2.2 Kind of answer", kind),
        ("2.3 Species, tissue, assay", OPEN),
        ("2.4 Units and threshold", f"Active is {threshold}. Unit: {_later(OPEN)}" if threshold else OPEN),
        ("2.5 Experimental protocol", OPEN),
        (
            "2.6 Data quality",
            f"{_data(config, 'rows', 0):,} rows, of which {_data(config, 'set_aside', 0):,} were excluded. Assumed "
            f"when the table was read: {assumed}. Variability of the measurements: {_later(OPEN)}",
        ),
    ]
    return _chapter("2. A defined endpoint (OECD principle 1)", fields)


def _algorithm(config: Values, metrics: Values, weights: str) -> Section:
    encoder, reading = config["encoder"], config["molecules"]
    members = (config.get("committee") or {}).get("members", [])
    networks = [one for one in members if one["kind"] == "network"]
    args = ", ".join(f"{key}={value}" for key, value in config["method"]["args"].items()) or "none"
    settings = ", ".join(f"{key}={value}" for key, value in _data(config, "settings", {}).items()) or MISSING
    described = "graphs with the features of the file"
    if reading is not None:
        standardised = "" if reading["standardised"] == "none" else f", standardised by {reading['standardised']}"
        described = (
            f"molecular graphs of canonical SMILES ({reading['fragments']} fragments{standardised}), features "
            f"{reading['featuriser']}; fingerprints {reading['fingerprint']}"
        )
    if members and (features := config["committee"]["features"]):
        described += f"; of trees {features}"
    network = f"{encoder['kind']}, {encoder['layers']} layers, width {encoder['width']}, readout {encoder['readout']}"
    fields = [
        ("3.1 Type of model", _type(config, members)),
        ("3.2 Descriptors", described),
    ]
    if networks or not members:
        epochs = listing([f"{one['epoch']} ({one['name']})" for one in networks]) or str(config["epoch"])
        several = "s" if len(networks) > 1 else ""
        fields += [
            ("3.3 Network", network),
            ("3.4 Settings of the method", f"{config['method']['name']}: {args}"),
            ("3.5 Training", settings),
            ("3.6 Choice of the epoch", f"epoch{several} {epochs}, chosen on {PART_NAMES[config['selection']]}"),
        ]
    fields += [
        ("3.7 Seed", str(config["seed"])),
        ("3.8 Weights (SHA-256)", weights),
        ("3.9 Reproducibility", "the same file, command, seed and versions give the same weights on the same machine"),
    ]
    return _chapter("3. An unambiguous algorithm (OECD principle 2)", fields)


def _model(config: Values) -> str:
    """What answers, in a word or two."""
    members = (config.get("committee") or {}).get("members", [])
    if not members:
        return str(config["method"]["name"])
    return str(members[0]["name"]) if len(members) == 1 else "committee"


def _type(config: Values, members: Sequence[Values]) -> str:
    if not members:
        return f"graph neural network, {config['method']['name']}"
    if len(members) == 1:
        return f"ensemble of trees, {members[0]['name']}"
    told = listing([f"{one['name']} ({one['weight']:.2f})" for one in members])
    return f"committee, whose answer is the weighted mean of graph neural networks and trees: {told}"


def _domain(metrics: Values, trust: Values) -> Section:
    bands, score = trust["bands"], str(trust["score"])
    limits = "none: there were no held-out rows"
    if bands is not None:
        limits = f"borderline above {bands['borderline']:.3g}, out of domain above {bands['out']:.3g}"
    fields = [
        ("4.1 Distance from training", SCORE_NAMES.get(score, score)),
        ("4.2 Limits", f"{limits}; set on {PART_NAMES.get(trust['fitted_on'], trust['fitted_on'] or MISSING)}"),
        ("4.3 Limitations by chemical class", OPEN),
    ]
    grids = []
    measured = metrics["trust"].get("verdicts")
    if measured:
        kind, measures = _metric(metrics), "mean_error" in measured["both"]["in domain"]
        rows = [
            [
                PART_NAMES.get(part, "both tests"),
                word,
                f"{one['labels']:,}",
                _score(one["mean_error"]) if measures else _percent(one["error"]),
                _score(one["score"]),
            ]
            for part, words in measured.items()
            for word, one in words.items()
        ]
        error = "Mean error" if measures else "Wrong"
        grids.append(Grid("Errors by verdict", ["Part", "Verdict", "Labels", error, kind], rows, numeric_from=2))
    return _chapter("4. A defined domain of applicability (OECD principle 3)", fields, grids)


def _internal(config: Values, metrics: Values, trust: Values, fit: float | None) -> Section:
    kind = _metric(metrics)
    parts, calibration = _data(config, "parts", {}), trust["calibration"]["method"]
    fields = [
        ("5.1 Training set", f"{parts.get('train', 0):,} rows, kept in the bundle with their labels"),
        ("5.2 Split", f"{_data(config, 'split')}; checksum of the parts {_data(config, 'split_digest')}"),
        ("5.3 Goodness-of-fit", OPEN if fit is None else f"{kind} {fit:.3f} on the training rows"),
        (
            "5.4 Robustness: calibration",
            f"{CALIBRATIONS.get(calibration, calibration)}, fitted on {calibrated_on(trust)}",
        )
        if config["classes"]
        else ("5.4 Robustness: intervals", f"fitted on {PART_NAMES.get(trust['fitted_on'], MISSING)}"),
        ("5.5 Robustness: repeated splits, leave-many-out, permuted labels", OPEN),
    ]
    labels = _data(config, "labels", {})
    rows = [[PART_NAMES[part], f"{size:,}", labels_told(labels.get(part, []), config)] for part, size in parts.items()]
    return _chapter(
        "5. Goodness-of-fit and robustness (OECD principle 4)",
        fields,
        [Grid("Parts", ["Part", "Rows", "Labels"], rows)] if rows else [],
    )


def _external(config: Values, metrics: Values) -> Section:
    kind = _metric(metrics)
    scores = [
        [name, *(_score(found.get(part)) for part in ("id_test", "ood_test"))]
        for name, found in metrics["scores"].items()
    ]
    fields = [
        ("6.1 Test sets", "ID test is drawn like the training part; OOD test is shifted by the split of 5.2"),
        ("6.2 Independence", "no molecule is in two parts; the test parts chose nothing"),
        ("6.3 Test sets from another source", OPEN),
    ]
    grids = [Grid(kind[0].upper() + kind[1:], ["Method", "ID test", "OOD test"], scores)]
    parts = metrics["trust"]["parts"]
    if parts:
        grids.append(_sets(parts) if config["classes"] else _intervals(parts, config["targets"]))
    return _chapter("6. Predictivity (OECD principle 4)", fields, grids)


def _sets(parts: Values) -> Grid:
    rows = []
    for part, found in parts.items():
        cover, error = found.get("coverage"), found.get("calibration_error")
        square = found.get("squared_calibration_error")
        rows.append(
            [
                PART_NAMES[part],
                _score(error["after"] if error else None),
                _score(root(square["after"]) if square else None),
                _percent(cover["covered"] if cover else None),
                _score(cover["size"] if cover else None),
            ]
        )
    header = ["Part", "Calibration error", "Debiased (root mean square)", "Covered", "Mean set size"]
    return Grid("Probabilities and sets", header, rows)


def _intervals(parts: Values, targets: Sequence[str]) -> Grid:
    """Errors of every target, and how often its intervals hold the measured number."""
    rows = []
    for task, target in enumerate(targets):
        for part, found in parts.items():
            cover, errors = found.get("coverage"), [_score(found["errors"][name][task]) for name in MEASURES]
            held = [_percent(cover["by_task"][task]), _score(cover["width"][task])] if cover else [MISSING, MISSING]
            rows.append([target, PART_NAMES[part], *errors, *held])
    header = ["Target", "Part", *(METRIC_NAMES[name] for name in MEASURES), "Covered", "Mean width"]
    return Grid("Errors and intervals", header, rows, numeric_from=2)


def _mechanism(config: Values) -> Section:
    explained = (
        "mphil explain marks the atoms and named substructures that a prediction rests on, and says what becomes of "
        "it without them"
    )
    fields = [
        ("7.1 Mechanistic basis of the model", "none was assumed: it is fitted to the data"),
        ("7.2 Interpretation of single predictions", explained if config["molecules"] else MISSING),
        ("7.3 Mechanistic plausibility", OPEN),
    ]
    return _chapter("7. Mechanistic interpretation (OECD principle 5)", fields)


def _rest(config: Values, metrics: Values) -> Section:
    left_out = "; ".join(f"{what}: {why}" for what, why in metrics["left_out"].items()) or "nothing"
    fields = [
        ("8.1 Left out", left_out),
        ("8.2 Checksum of the data", _data(config, "data_digest")),
        ("8.3 Comments", OPEN),
    ]
    return _chapter("8. Miscellaneous", fields)


def regulatory_page(found: Sequence[Section]) -> str:
    """The report as HTML."""
    return page("sections", TITLE, eyebrow="mphil report", headline=TITLE, lead=LEAD, sections=found)


def regulatory_markdown(found: Sequence[Section]) -> str:
    """The report as Markdown."""
    lines = [f"# {TITLE}", "", LEAD, ""]
    for one in found:
        lines += [f"## {one.heading}", ""]
        lines += [line for name, text in one.facts for line in (f"**{_marked(name)}**: {_marked(text)}", "")]
        for grid in one.tables:
            header = [_marked(name) for name in grid.header]
            lines += [f"{_marked(grid.caption)}:", "", _line(header), _line(["---"] * len(header))]
            rows = [row for group in grid.groups.values() for row in group]
            lines += [*(_line([_marked(str(cell)) for cell in row]) for row in rows), ""]
    return "\n".join(lines)


def open_fields(found: Sequence[Section]) -> list[str]:
    """Names of the fields that the author has to fill in."""
    return [name for one in found for name, text in one.facts if OPEN.rstrip(".").lower() in text.lower()]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _marked(text: str) -> str:
    """Text that Markdown shows as it is."""
    plain = " ".join(text.split())
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#" else c for c in plain)


def _later(text: str) -> str:
    """A sentence as it stands behind a colon."""
    return text[0].lower() + text[1:]


def _metric(metrics: Values) -> str:
    name = str(metrics["metric"])
    return {str(metric): words for metric, words in METRIC_NAMES.items()}.get(name, name)


def _data(config: Values, name: str, absent: Any = MISSING) -> Any:
    return config["data"].get(name, absent)


def _percent(value: float | None) -> str:
    return MISSING if value is None else f"{100 * value:.1f} %"


def _score(value: float | None) -> str:
    return MISSING if value is None else f"{round(value, 3) + 0.0:.3f}"
