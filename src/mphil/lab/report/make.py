"""From a folder of records to a folder with a report."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

from mphil.errors import DataError, UnknownName
from mphil.files import write_text
from mphil.lab.cells import Request
from mphil.lab.records import Record, read_folder
from mphil.lab.report import tables
from mphil.lab.report.document import Block, Chapter, Document, DrawnMolecules, ReportTable
from mphil.lab.report.figures import figures, pooled_diagrams, score_figures
from mphil.lab.report.latex import latex
from mphil.lab.report.rendering import figure_file, html, markdown, svg
from mphil.lab.report.sheets import Sheet, SheetEntry, failures_of, fill, known_names, same_data, unused
from mphil.lab.report.tables import NONE, RULES, compares_methods, interval, printed_figure, spread
from mphil.lab.suite import Suite, known_methods, load_suite, suite_names
from mphil.methods.base import METHODS
from mphil.methods.published import read_published
from mphil.model.committee.trees import TREE_FACTS, is_tree_kind

SHOWN = ("ood_val", "id_val")


def cards(sheets: Sequence[Sheet]) -> list[Chapter]:
    """A page for every method that has records as a row of its own name."""
    return [card(name, sheets) for name in known_methods() if any(True for _ in _lines(name, sheets))]


def card(method: str, sheets: Sequence[Sheet]) -> Chapter:
    """The page of one method."""
    if is_tree_kind(method):
        facts = TREE_FACTS[method]
        intro = [f"Paper: {facts.paper}.", f"{facts.about} The trees are grown by scikit-learn."]
    else:
        cls, source = METHODS[method], read_published(method).source
        intro = [f"Paper: {cls.paper}."] if cls.paper else []
        intro += [f"Published hyperparameters: {source}."] if source else []
        intro += deviations(inspect.getdoc(cls) or "") or ["No difference from the authors' code or paper is noted."]
    page = f"method-{re.sub(r'[^A-Za-z0-9+._-]', '-', method)}"
    return Chapter(page, method, intro, [_table(method, sheets)], page=page)


def deviations(doc: str) -> list[str]:
    """The paragraphs of a docstring that say what differs from the published method, without mark-up.

    Example:
        >>> deviations("Differs from the paper: :math:`u` is a sum.")
        ['Differs from the paper: u is a sum.']
    """
    paragraphs = [" ".join(text.split()) for text in doc.split("\n\n")]
    found = [text for text in paragraphs if text.startswith("Differs from")]
    return [re.sub(r":\w+:`([^`]*)`|`+([^`]*)`+", r"\1\2", text) for text in found]


def _table(method: str, sheets: Sequence[Sheet]) -> ReportTable:
    header = ["benchmark", "paper", "reported by others", "seeds"]
    header += [text for rule in SHOWN for text in (RULES[rule], f"95 % interval, {RULES[rule]}")]
    header += [RULES["last5"], "tuned on validation", "parameters", "CPU s a run", "suite", "budget"]
    rows = []
    for sheet, benchmark, entry in _lines(method, sheets):
        others = "; ".join(f"{printed_figure(figure)}, {who}" for who, figure in entry.others.items())
        ours = [_scores(entry, rule) for rule in SHOWN]
        rows.append(
            [
                benchmark,
                printed_figure(entry.paper),
                others or NONE,
                f"{len(entry.records)} of {entry.wanted}",
                *(text for scores in ours for text in (spread(scores), interval(scores))),
                spread(_scores(entry, "last5")),
                _tuned(method, benchmark, sheets),
                _amount(record.get("parameters") for record in entry.records),
                _amount(record.get("cpu_seconds") for record in entry.records),
                sheet.suite.name,
                f"{sheet.budget} ({sheet.efforts[benchmark]})",
            ]
        )
    what = "OOD test score in per cent, mean (sd) over seeds and 95 % t interval; the paper's figures as printed"
    empty = ("reported by others", RULES["last5"], "tuned on validation", "parameters", "CPU s a run", "paper")
    return ReportTable(what, header, rows).without(empty, NONE)


def _lines(method: str, sheets: Iterable[Sheet]) -> Iterable[tuple[Sheet, str, SheetEntry]]:
    """What was run of the method with settings that were not tuned, in suites that are about test scores."""
    for sheet in sheets:
        for benchmark in sheet.benchmarks if compares_methods(sheet) and not _is_tuned(sheet) else ():
            entry = sheet.entries.get((method, benchmark))
            if entry and entry.records:
                yield sheet, benchmark, entry


def _is_tuned(sheet: Sheet) -> bool:
    return sheet.suite.tuned or sheet.request.tuned is not None


def _tuned(method: str, benchmark: str, sheets: Iterable[Sheet]) -> str:
    """The scores of the settings that a search chose on validation, and the budget they were run with."""
    entries = [(s, e) for s in sheets if _is_tuned(s) and (e := s.entries.get((method, benchmark))) and e.scores()]
    return "; ".join(f"{spread(entry.scores().values())}, budget {sheet.budget}" for sheet, entry in entries) or NONE


def _scores(entry: SheetEntry, rule: str) -> list[float]:
    return list(entry.scores(rule=rule).values())


def _amount(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{mean(known):,.0f}" if known else NONE


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
