"""The report on a user's data as a page: what can be used, and a picture of what each split would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mphil.chem.draw import molecule_svg
from mphil.graphs.split import PARTS
from mphil.pages.charts import bar_chart, line_chart
from mphil.pages.elements import CLASSES, MISSING, Markup
from mphil.pages.template import Grid, page
from mphil.tables.cell_values import Target
from mphil.tables.duplicates import Group
from mphil.tables.inspection import Report, SplitPreview
from mphil.tables.splitting import Assignment
from mphil.trust.neighbours import hardness

SHOWN = 100
"""Rows of a list on the page; the JSON report has more."""

BINS = 24
DRAWN = 3
"""Molecules drawn of a part."""

LABELS = {"train": "train", "id_val": "ID val.", "id_test": "ID test", "ood_val": "OOD val.", "ood_test": "OOD test"}
COMPARED = ("train", "ood_val", "ood_test")


def check_page(report: Report) -> str:
    """The whole page as HTML."""
    found = report.duplicates
    duplicates = [("Contradicting labels", found.conflicts), ("All duplicates", found.groups)]
    return page(
        "check",
        f"mphil check: {report.path.name}",
        report=report,
        reasons=Grid("Rows by reason", ["Reason", "Rows"], [[k, f"{n:,}"] for k, n in report.reasons().items()]),
        bad_rows=_bad_rows(report),
        labels=_labels(report),
        balance=_target_chart(report),
        duplicates=[_duplicates(report, caption, groups) for caption, groups in duplicates if groups],
        splits=[_split(report, split) for split in report.splits],
        columns=_columns(report),
    )


def _bad_rows(report: Report) -> Grid:
    bad = report.survey.bad
    named = any(one.id for one in bad)
    rows = [[f"{one.line:,}", *([one.id] if named else []), one.status, one.message] for one in bad[:SHOWN]]
    caption = f"The first {len(rows):,} of {len(bad):,}" if len(bad) > SHOWN else "All of them"
    header = ["Line", *(["ID"] if named else []), "Reason", "What is wrong"]
    return Grid(caption, header, rows, numeric_from=len(header))


def _columns(report: Report) -> Grid | None:
    if report.roles is None:
        return None
    rows = [[name, role, why] for name, (role, why) in report.roles.why.items()]
    caption = f"What each column was taken for{f' (the first {SHOWN} of {len(rows):,})' if len(rows) > SHOWN else ''}"
    return Grid(caption, ["Column", "Role", "Why"], rows[:SHOWN], numeric_from=3)


def _labels(report: Report) -> Grid:
    rows = [
        [target.name, target.kind, target.told or MISSING, f"{int(np.isnan(target.y).sum()):,}"]
        for target in report.survey.targets[:SHOWN]
    ]
    header = ["Target", "Kind", "Rows of each class, or range", "Missing"]
    return Grid("Labels of the usable rows", header, rows, numeric_from=3)


def _target_chart(report: Report) -> Markup | None:
    target = _main_target(report.survey.targets)
    if target is None:
        return None
    counts = target.counts()
    return bar_chart(
        [name[:14] for name in counts],
        {"rows": list(map(float, counts.values()))},
        title=f"Balance of {target.name[:40]}",
        y_label="rows",
        show=lambda value: f"{value:,.0f}",
    )


def _main_target(targets: Sequence[Target]) -> Target | None:
    """The first target that has few enough classes for a picture."""
    return next((target for target in targets if 2 <= len(target.classes) <= len(CLASSES)), None)


def _duplicates(report: Report, caption: str, groups: Sequence[Group]) -> tuple[int, Grid]:
    """How many groups of equal molecules there are, and the first of them."""
    survey = report.read
    names = survey.names
    keys, labels = list(survey.keys.texts), survey.y
    rows = []
    for group in groups[:SHOWN]:
        first = group.rows[:6]
        told = "; ".join(",".join(MISSING if np.isnan(v) else f"{v:g}" for v in labels[row][:8]) for row in first)
        more = ", ..." if len(group.rows) > 6 else ""
        lines = ", ".join(f"{survey.line[row]:,}" for row in first) + more
        called = [", ".join(names[row] for row in first) + more] if survey.ids is not None else []
        rows.append([keys[survey.keys.codes[group.rows[0]]][:80], lines, *called, told])
    header = [report.noun.capitalize(), "Lines", *(["IDs"] if survey.ids is not None else []), "Labels"]
    return len(groups), Grid(caption, header, rows, numeric_from=len(header))


@dataclass(frozen=True)
class SplitView:
    """A split as the page shows it; `table` is None for one that is not possible, and `text` says why."""

    heading: str
    text: str
    table: Grid | None = None
    counts: Markup | None = None
    charts: Sequence[Markup] = ()
    drawings: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)


def _split(report: Report, split: SplitPreview) -> SplitView:
    heading = f"Split by {split.name}" if split.domain else f"Split: {split.name}"
    if split.assignment is None or split.leaks is None:
        return SplitView(heading, f"Not possible: {split.obstacle}.")
    text = f"{split.leaks.molecules:,} {report.noun} stand in more than one part."
    if split.domain is not None:
        text = f"{len(set(split.domain)):,} domains, none in training and in a shifted part. {text}"
    if told := hardness(split.similarity):
        text += f" {told[0].upper()}{told[1:]} (median Tanimoto similarity to the nearest training molecule)."
    part = split.assignment.part
    charts = [chart for chart in (_size_chart(report, part), _balance_chart(report, part)) if chart]
    drawings = _drawings(report, part) if report.table else {}
    return SplitView(heading, text, _part_table(report, split, split.assignment), _count_chart(part), charts, drawings)


def _part_table(report: Report, split: SplitPreview, assignment: Assignment) -> Grid:
    rows = []
    for code, name in enumerate(PARTS):
        chosen = np.flatnonzero(assignment.part == code)
        domains = MISSING if split.domain is None else f"{len({split.domain[row] for row in chosen.tolist()}):,}"
        env = np.unique(assignment.env[chosen])
        mean = f"{report.survey.size[chosen].mean():.1f}" if len(chosen) else MISSING
        rows.append([LABELS[name], f"{len(chosen):,}", domains, f"{int((env >= 0).sum())}", mean])
    return Grid("The five parts", ["Part", "Rows", "Domains", "Environments", "Mean size"], rows)


def _count_chart(part: NDArray[np.int64]) -> Markup:
    counts = [float((part == code).sum()) for code in range(len(PARTS))]
    return bar_chart(
        [LABELS[name] for name in PARTS],
        {"rows": counts},
        title="Rows of each part",
        y_label="rows",
        show=lambda value: f"{value:,.0f}",
        size=(380, 250),
    )


def _size_chart(report: Report, part: NDArray[np.int64]) -> Markup | None:
    """How large the molecules of the three parts are that a shift tells apart."""
    size = report.survey.size
    if size.min() == size.max():
        return None
    low, high = np.percentile(size, [0.5, 99.5]).astype(int)
    step = max(1, -(-(high - low) // BINS))
    edges = np.arange(low, high + 2 * step, step)
    if len(edges) < 3:
        return None
    lines = _shares(size, part, edges)
    unit = "atoms" if report.table else "nodes"
    return line_chart(
        lines,
        title=f"Size of the {report.noun}",
        x_label=unit,
        y_label="% of the part",
        x=[float(edge) for edge in edges[:-1]],
        show=lambda value: f"{value:.1f} %",
        size=(400, 250),
    )


def _shares(values: NDArray[Any], part: NDArray[np.int64], edges: NDArray[Any]) -> dict[str, list[float]]:
    """Share of the rows of three parts in each bin, in per cent."""
    lines = {}
    for name in COMPARED:
        chosen = values[(part == PARTS.index(name)) & ~np.isnan(values)]
        if len(chosen):
            lines[LABELS[name]] = (100 * np.histogram(chosen, edges)[0] / len(chosen)).tolist()
    return lines


def _measured_chart(report: Report, part: NDArray[np.int64]) -> Markup | None:
    """How the measurements of the first target that has some are distributed in three parts."""
    target = next((one for one in report.survey.targets if one.range and one.range[0] < one.range[1]), None)
    if target is None:
        return None
    low, high = np.nanpercentile(target.y, [0.5, 99.5])
    edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
    return line_chart(
        _shares(target.y, part, edges),
        title=f"Measurements: {target.name[:30]}",
        x_label=target.name[:30],
        y_label="% of the part",
        x=[float(edge) for edge in (edges[:-1] + edges[1:]) / 2],
        show=lambda value: f"{value:.1f} %",
        size=(400, 250),
    )


def _balance_chart(report: Report, part: NDArray[np.int64]) -> Markup | None:
    """Share of each class in every part: a split that shifts the classes too is harder to read."""
    target = _main_target(report.survey.targets)
    if target is None:
        return _measured_chart(report, part)
    counts = {name: target.counts(np.flatnonzero(part == code)) for code, name in enumerate(PARTS)}
    totals = {name: sum(count.values()) for name, count in counts.items()}
    shown = target.classes[1:] if target.kind == "binary" else target.classes
    series = {
        (f"{target.name[:24]} = {value[:14]}" if target.kind == "binary" else value[:14]): [
            100 * counts[name][value] / totals[name] if totals[name] else None for name in PARTS
        ]
        for value in shown
    }
    return bar_chart(
        [LABELS[name] for name in PARTS],
        series,
        title="Label balance of each part",
        y_label="% of the labelled rows",
        colours=CLASSES,
        show=lambda value: f"{value:.1f}",
        size=(400, 250),
    )


def _drawings(report: Report, part: NDArray[np.int64]) -> dict[str, list[tuple[str, str]]]:
    """The first molecules of the training part and of the shifted test part, each with its drawing."""
    texts, drawings = list(report.survey.keys.texts), {}
    for name in ("train", "ood_test"):
        rows = np.flatnonzero(part == PARTS.index(name))
        chosen = [texts[report.survey.keys.codes[row]] for row in rows[:: max(1, len(rows) // DRAWN)][:DRAWN].tolist()]
        if chosen:
            drawings[LABELS[name]] = [(smiles, molecule_svg(smiles)) for smiles in chosen]
    return drawings
