"""The report on somebody's data as a page: what can be used, and a picture of what each split would do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mphil.chem.draw import molecule_svg
from mphil.graphs.split import PARTS
from mphil.pages.document import RowGroup, details, image, page, paragraph, section, table
from mphil.pages.palette import CLASSES
from mphil.pages.svg import bar_chart, line_chart
from mphil.pages.text import MISSING, escape
from mphil.tables.audit import Group
from mphil.tables.check import Report, SplitPreview
from mphil.tables.labels import Target
from mphil.trust.hardness import hardness

SHOWN = 100
"""Rows of a list on the page; the JSON report has more."""

DRAWN = 3
"""Molecules drawn of a part."""

LABELS = {"train": "train", "id_val": "ID val.", "id_test": "ID test", "ood_val": "OOD val.", "ood_test": "OOD test"}
COMPARED = ("train", "ood_val", "ood_test")


def check_page(report: Report) -> str:
    """The whole page as HTML."""
    survey = report.survey
    share = f"{len(survey):,} of {survey.rows:,} rows can be used"
    intro = (
        f'<header><p class="eyebrow">mphil check · {escape(report.path.name)}</p><h1>{share}</h1>'
        + "".join(paragraph(_plain(note)) for note in report.notes)
        + "</header>"
    )
    sections = [
        _rows(report),
        _labels(report),
        _duplicates(report),
        *(_split(report, split, number) for number, split in enumerate(report.splits)),
        _columns(report),
    ]
    return page(f"mphil check: {report.path.name}", f"{intro}<main>{''.join(filter(None, sections))}</main>")


def _plain(text: str) -> str:
    """Text from a table in a paragraph, where backquotes would mark code."""
    return text.replace("`", "'")


def _rows(report: Report) -> str:
    bad = report.survey.bad
    if not bad:
        return section("rows", "Rows set aside", paragraph(f"None: all rows hold {report.noun} that can be read."))
    reasons = [[code, f"{count:,}"] for code, count in report.reasons().items()]
    named = any(one.name for one in bad)
    rows = [[f"{one.line:,}", *([one.name] if named else []), one.status, one.message] for one in bad[:SHOWN]]
    caption = f"The first {len(rows):,} of {len(bad):,}" if len(bad) > SHOWN else "All of them"
    header = ["Line", *(["ID"] if named else []), "Reason", "What is wrong"]
    listed = table(caption, header, [RowGroup(rows)], numeric_from=len(header))
    return section(
        "rows",
        "Rows set aside",
        table("Rows by reason", ["Reason", "Rows"], [RowGroup(reasons)]),
        details("Line by line", listed),
    )


def _columns(report: Report) -> str:
    if report.roles is None:
        return ""
    rows = [[name, role, why] for name, (role, why) in report.roles.why.items()]
    shown = rows[:SHOWN]
    caption = f"What each column was taken for{f' (the first {SHOWN} of {len(rows):,})' if len(rows) > SHOWN else ''}"
    return section("columns", "Columns", table(caption, ["Column", "Role", "Why"], [RowGroup(shown)], numeric_from=3))


def _labels(report: Report) -> str:
    targets = report.survey.targets
    if not targets:
        return ""
    rows = [
        [
            target.name,
            target.kind,
            target.told or MISSING,
            f"{int(np.isnan(target.y).sum()):,}",
        ]
        for target in targets[:SHOWN]
    ]
    header = ["Target", "Kind", "Rows of each class, or range", "Missing"]
    content = table("Labels of the usable rows", header, [RowGroup(rows)], numeric_from=3)
    first = _main_target(targets)
    if first is not None:
        counts = first.counts()
        bars = bar_chart(
            [name[:14] for name in counts],
            {"rows": list(map(float, counts.values()))},
            title=f"Balance of {first.name[:40]}",
            y_label="rows",
            show=lambda value: f"{value:,.0f}",
        )
        content = f'<div class="beside">{content}<figure>{bars}</figure></div>'
    return section("labels", "Labels", content)


def _main_target(targets: Sequence[Target]) -> Target | None:
    """The first target that has few enough classes for a picture."""
    return next((target for target in targets if 2 <= len(target.classes) <= len(CLASSES)), None)


def _duplicates(report: Report) -> str:
    found, noun = report.duplicates, report.noun
    if not found.groups:
        return section("duplicates", "Duplicates", paragraph(f"None: all {noun} are different."))
    text = (
        f"{len(found.groups):,} {noun} occur more than once, in {found.rows:,} surplus rows; "
        f"{len(found.conflicts):,} of them with labels that contradict each other."
    )
    content = [paragraph(text)]
    for caption, groups in (("Contradicting labels", found.conflicts), ("All duplicates", found.groups)):
        if groups:
            content.append(details(f"{caption}: {len(groups):,}", _group_table(report, caption, groups[:SHOWN])))
    return section("duplicates", "Duplicates", *content)


def _group_table(report: Report, caption: str, groups: Sequence[Group]) -> str:
    survey = report.read
    names = report.names()
    keys, labels = list(survey.keys.texts), survey.y
    rows = []
    for group in groups:
        first = group.rows[:6]
        told = "; ".join(",".join(MISSING if np.isnan(v) else f"{v:g}" for v in labels[row][:8]) for row in first)
        more = ", ..." if len(group.rows) > 6 else ""
        lines = ", ".join(f"{survey.line[row]:,}" for row in first) + more
        called = ", ".join(names.get(int(survey.row[row]), "") for row in first) + more
        rows.append([keys[survey.keys.codes[group.rows[0]]][:80], lines, *([called] if names else []), told])
    header = [report.noun.capitalize(), "Lines", *(["IDs"] if names else []), "Labels"]
    return table(caption, header, [RowGroup(rows)], numeric_from=len(header))


def _split(report: Report, split: SplitPreview, number: int) -> str:
    heading, identifier = f"Split by {split.name}" if split.domain else f"Split: {split.name}", f"split-{number}"
    if split.assignment is None or split.leaks is None:
        return section(identifier, heading, paragraph(_plain(f"Not possible: {split.obstacle}.")))
    text = f"{split.leaks.molecules:,} {report.noun} stand in more than one part."
    if split.domain is not None:
        text = f"{len(set(split.domain)):,} domains, none in training and in a shifted part. {text}"
    if told := hardness(split.similarity):
        text += f" {told[0].upper()}{told[1:]} (median Tanimoto similarity to the nearest training molecule)."
    charts = [_size_chart(report, split.assignment.part), _balance_chart(report, split.assignment.part)]
    figures = "".join(f"<figure>{chart}</figure>" for chart in charts if chart)
    return section(
        identifier,
        heading,
        paragraph(text),
        f'<div class="beside">{_part_table(report, split)}<figure>{_count_chart(split.assignment.part)}</figure></div>',
        f'<div class="pair">{figures}</div>',
        _drawings(report, split.assignment.part) if report.table else "",
    )


def _part_table(report: Report, split: SplitPreview) -> str:
    survey, assignment = report.survey, split.assignment
    assert assignment is not None
    rows = []
    for code, name in enumerate(PARTS):
        chosen = np.flatnonzero(assignment.part == code)
        domains = MISSING if split.domain is None else f"{len({split.domain[row] for row in chosen.tolist()}):,}"
        env = np.unique(assignment.env[chosen])
        mean = f"{survey.size[chosen].mean():.1f}" if len(chosen) else MISSING
        rows.append([LABELS[name], f"{len(chosen):,}", domains, f"{int((env >= 0).sum())}", mean])
    header = ["Part", "Rows", "Domains", "Environments", "Mean size"]
    return table("The five parts", header, [RowGroup(rows)])


def _count_chart(part: NDArray[np.int64]) -> str:
    counts = [float((part == code).sum()) for code in range(len(PARTS))]
    return bar_chart(
        [LABELS[name] for name in PARTS],
        {"rows": counts},
        title="Rows of each part",
        y_label="rows",
        show=lambda value: f"{value:,.0f}",
        size=(380, 250),
    )


def _size_chart(report: Report, part: NDArray[np.int64]) -> str:
    """How large the molecules of the three parts are that a shift tells apart."""
    size = report.survey.size
    if size.min() == size.max():
        return ""
    low, high = np.percentile(size, [0.5, 99.5])
    edges = np.unique(np.linspace(low, max(high, low + 1), 25).astype(int))
    if len(edges) < 3:
        return ""
    lines = {}
    for name in COMPARED:
        chosen = size[part == PARTS.index(name)]
        if len(chosen):
            lines[LABELS[name]] = (100 * np.histogram(chosen, edges)[0] / len(chosen)).tolist()
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


def _balance_chart(report: Report, part: NDArray[np.int64]) -> str:
    """Share of each class in every part: a split that shifts the classes too is harder to read."""
    target = _main_target(report.survey.targets)
    if target is None:
        return ""
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


def _drawings(report: Report, part: NDArray[np.int64]) -> str:
    """The first molecules of the training part and of the shifted test part."""
    texts = list(report.survey.keys.texts)
    cards = []
    for name in ("train", "ood_test"):
        rows = np.flatnonzero(part == PARTS.index(name))
        chosen = [texts[report.survey.keys.codes[row]] for row in rows[:: max(1, len(rows) // DRAWN)][:DRAWN].tolist()]
        figures = "".join(f"<figure>{image(molecule_svg(smiles), smiles)}</figure>" for smiles in chosen)
        if figures:
            cards.append(
                f'<article><h3>From {escape(LABELS[name])}</h3><div class="drawings">{figures}</div></article>'
            )
    return f'<div class="molecules">{"".join(cards)}</div>'
