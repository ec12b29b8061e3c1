"""From a folder of records to a folder with a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mphil.errors import DataError
from mphil.files import write_text
from mphil.lab.cells import Request
from mphil.lab.records import Record, read_folder
from mphil.lab.report import tables
from mphil.lab.report.document import Block, Chapter, Document, Molecules, Table
from mphil.lab.report.figures import figures
from mphil.lab.report.gather import Sheet, failures_of, fill, same_data, unused
from mphil.lab.report.html import html
from mphil.lab.report.latex import latex
from mphil.lab.report.markdown import figure_file, markdown
from mphil.lab.report.pictures import svg
from mphil.lab.suite import Suite, load_suite, suite_names


@dataclass(frozen=True)
class Written:
    """What went into a report: records, tables, and what was left out."""

    records: int
    tables: int
    problems: Sequence[str]


def write_report(names: Sequence[str], records: Path, out: Path, request: Request | None = None) -> Written:
    """Write report.md, report.tex, report.html and the figures.

    Args:
        names: suites; all that have records when empty.
        records: folder of the records.
        out: folder of the report.
        request: budget (all that have records when absent) and other settings, as they were given to the sweeps.

    Raises:
        DataError: there is nothing to report.
    """
    document = make_document(names, records, request or Request())
    if not document.chapters:
        left_out = "".join(f"\n{problem}" for problem in document.problems)
        what = ", ".join(names) or "any suite"
        raise DataError(f"{records}: no records of {what}; run one with `mphil lab run`{left_out}")
    (out / "figures").mkdir(parents=True, exist_ok=True)
    for chapter in document.chapters:
        for number, block in enumerate(chapter.blocks):
            if not isinstance(block, Table | Molecules):
                write_text(out / figure_file(chapter.name, number), svg(block))
    for kind, text in (("md", markdown(document)), ("tex", latex(document)), ("html", html(document))):
        write_text(out / f"report.{kind}", text)
    blocks = [block for chapter in document.chapters for block in chapter.blocks]
    runs = {line for chapter in document.chapters for line in chapter.commands}
    return Written(len(runs), sum(isinstance(block, Table) for block in blocks), document.problems)


def make_document(names: Sequence[str], folder: Path, request: Request) -> Document:
    """All chapters that records make possible: a suite, a budget each."""
    found, problems = read_folder(folder)
    records, strange = same_data(found)
    problems += strange
    problems += _of_other_suites(records) if not names else []
    chapters, sheets = [], []
    for suite in _suites(names, records):
        failures, broken = failures_of(suite, folder)
        problems += broken + unused(suite, request, records)
        for budget in [request.budget] if request.budget else suite.all_budgets:
            sheet = fill(suite, replace(request, budget=budget), records, failures)
            if sheet.has_records or (names and budget == suite.budget):
                sheets.append(sheet)
                chapters.append(make_chapter(sheet))
    standing = tables.standing(sheets)
    if standing.rows:
        intro = [
            "The best other method is the one with the best mean on the test part: nobody could have chosen it before.",
            "For a single cell add --methods and its name to the command.",
        ]
        chapters.insert(0, Chapter("standing", "Where MPHIL stands", intro, [standing], []))
    return Document(chapters, list(dict.fromkeys(problems)))


def make_chapter(sheet: Sheet) -> Chapter:
    """The tables and figures of a sheet, in the order of reading."""
    suite = sheet.suite
    blocks: list[Block] = []
    if suite.figure == "time":
        blocks.append(tables.timing(sheet))
    elif not suite.hide_test:
        blocks.append(tables.overview(sheet))
        details = [tables.detail(sheet, benchmark) for benchmark in sheet.benchmarks]
        blocks += [table.without(("paper", "difference"), tables.NONE) for table in details]
    blocks += figures(sheet)
    name = f"{suite.name}-{sheet.budget}"
    intro = [f"In the paper: {suite.paper}."] if suite.paper else []
    return Chapter(name, f"{suite.title} ({sheet.budget})", [*intro, *suite.notes], blocks, _commands(sheet))


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
