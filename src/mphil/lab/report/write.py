"""From a folder of records to a folder with a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mphil.errors import DataError, UnknownName
from mphil.files import write_text
from mphil.lab.cells import Request
from mphil.lab.records import Record, read_folder
from mphil.lab.report import tables
from mphil.lab.report.cards import cards
from mphil.lab.report.document import Block, Chapter, Document, DrawnMolecules, ReportTable
from mphil.lab.report.figures import figures, pooled_diagrams, score_figures
from mphil.lab.report.gather import Sheet, failures_of, fill, known_names, same_data, unused
from mphil.lab.report.html import html
from mphil.lab.report.latex import latex
from mphil.lab.report.markdown import figure_file, markdown
from mphil.lab.report.pictures import svg
from mphil.lab.suite import Suite, load_suite, suite_names


@dataclass(frozen=True)
class Written:
    """What went into a report: records, HTML pages, and what was left out."""

    records: int
    pages: int
    problems: Sequence[str]


def write_report(
    names: Sequence[str], records: Path, out: Path, request: Request | None = None, against: Sequence[str] = ()
) -> Written:
    """Write index.html, a page for each suite and method, report.md, report.tex and the figures.

    Args:
        names: suites; all that have records when empty.
        records: folder of the records.
        out: folder of the report.
        request: budget (all that have records when absent) and other settings, as they were given to the sweeps.
        against: methods whose standing among the others is shown; rows are tested against the first. The row that
            each suite names when empty.

    Raises:
        DataError: there is nothing to report.
        UsageError: no suite with records has a row of the first of these methods.
    """
    document = make_document(names, records, request or Request(), against)
    if not document.chapters:
        left_out = "".join(f"\n{problem}" for problem in document.problems)
        what = ", ".join(names) or "any suite"
        raise DataError(f"{records}: no records of {what}; run one with `mphil lab run`{left_out}")
    (out / "figures").mkdir(parents=True, exist_ok=True)
    for chapter in document.chapters:
        for number, block in enumerate(chapter.blocks):
            if not isinstance(block, ReportTable | DrawnMolecules):
                write_text(out / figure_file(chapter.name, number), svg(block))
    pages = html(document)
    for name, text in {"report.md": markdown(document), "report.tex": latex(document), **pages}.items():
        write_text(out / name, text)
    runs = {line for chapter in document.chapters for line in chapter.commands}
    return Written(len(runs), len(pages), document.problems)


def make_document(names: Sequence[str], folder: Path, request: Request, against: Sequence[str] = ()) -> Document:
    """All chapters that records make possible: where methods stand, then a suite under a budget each."""
    found, problems = read_folder(folder)
    for check in (known_names, same_data):
        found, strange = check(found)
        problems += strange
    problems += _of_other_suites(found) if not names else []
    sheets = []
    for suite in _suites(names, found):
        failures, broken = failures_of(suite, folder)
        problems += broken + unused(suite, request, found)
        shown: set[object] = set()
        for budget in [request.budget] if request.budget else _usual_first(suite):
            sheet = fill(suite, replace(request, budget=budget), found, failures)
            # A cell that costs the same under two budgets is one cell, and belongs to the usual one.
            if sheet.contents - shown or (names and budget == suite.budget):
                shown |= sheet.contents
                base = against[0] if against and against[0] in sheet.rows else sheet.against
                sheets.append(replace(sheet, against=base))
    chapters = [*_standing(sheets, against), *map(make_chapter, sheets)]
    return Document(chapters, list(dict.fromkeys(problems)), cards(sheets))


def _usual_first(suite: Suite) -> list[str]:
    return sorted(suite.all_budgets, key=lambda name: name != suite.budget)


def _standing(sheets: Sequence[Sheet], against: Sequence[str]) -> list[Chapter]:
    """A chapter about the methods asked for; about those that suites name, if none is and there is something to say."""
    rows = list(dict.fromkeys(row for sheet in sheets for row in sheet.rows))
    if against and sheets and against[0] not in rows:
        raise UnknownName("row of the suites with records:", against[0], rows)
    named = list(against) or list(dict.fromkeys(sheet.against for sheet in sheets if sheet.against))[:1]
    table = tables.standing(sheets, named) if named else None
    if table is None or not table.rows:
        return []
    intro = [
        "The best other method is the one with the best mean on the test part: nobody could have chosen it before."
    ]
    return [Chapter("standing", f"Where {named[0]} stands", intro, [table, *pooled_diagrams(sheets)])]


def make_chapter(sheet: Sheet) -> Chapter:
    """The figures and tables of a sheet, in the order of reading."""
    suite = sheet.suite
    blocks: list[Block] = []
    if suite.figure == "time":
        blocks.append(tables.timing(sheet))
    elif not suite.hide_test:
        blocks += score_figures(sheet) if suite.figure != "curve" else []
        several = len(sheet.benchmarks) > 1
        blocks += [tables.overview(sheet)] if several else []
        run = [name for name in sheet.benchmarks if any(sheet.entries[row, name].records for row in sheet.rows)]
        blocks += [replace(tables.detail(sheet, benchmark), folded=several) for benchmark in run]
    blocks += figures(sheet)
    name = f"{suite.name}-{sheet.budget}"
    intro = [f"In the paper: {suite.paper}."] if suite.paper else []
    title = f"{suite.title} ({sheet.budget})"
    return Chapter(name, title, [*intro, *suite.notes], blocks, _commands(sheet), suite.name)


def _commands(sheet: Sheet) -> list[tuple[str, str]]:
    return [
        (f"{row} on {benchmark}, seed {record['seed']}", record["command"])
        for (row, benchmark), entry in sheet.entries.items()
        for record in entry.records
    ]


def _of_other_suites(records: Sequence[Record]) -> list[str]:
    """A sentence about records of suites that do not come with the package."""
    counts = Counter(record["suite"] for record in records)
    return [
        f"{name}.jsonl: {count} records of a suite that does not come with the package; name its TOML file to see them"
        for name, count in counts.items()
        if name not in suite_names()
    ]


def _suites(names: Sequence[str], records: Sequence[Record]) -> list[Suite]:
    """The suites asked for, or those of the package that something was recorded for."""
    if names:
        return [load_suite(name) for name in names]
    recorded = {record["suite"] for record in records}
    return [load_suite(name) for name in suite_names() if name in recorded]
