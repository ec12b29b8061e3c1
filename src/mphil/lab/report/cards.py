"""Reproduction cards: what is reported of a method, what its records here say, what they cost, and what differs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from statistics import mean

from mphil.lab.report.document import Chapter, ReportTable
from mphil.lab.report.gather import Sheet, SheetEntry
from mphil.lab.report.tables import NONE, RULES, compares_methods, interval, printed_figure, spread
from mphil.methods.base import METHODS
from mphil.methods.published import read_published

SHOWN = ("ood_val", "id_val")


def cards(sheets: Sequence[Sheet]) -> list[Chapter]:
    """A page for every method that has records as a row of its own name."""
    return [card(name, sheets) for name in METHODS if any(True for _ in _lines(name, sheets))]


def card(method: str, sheets: Sequence[Sheet]) -> Chapter:
    """The page of one method."""
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
