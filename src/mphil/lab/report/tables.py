"""The tables of a sheet: one over all benchmarks, one for each of them, and where a method stands among the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import mean

from mphil.lab.report.document import ReportTable
from mphil.lab.report.sheets import Sheet, SheetEntry
from mphil.lab.statistics import (
    MeanRanks,
    centre_and_spread,
    differences,
    holm,
    mean_ranks,
    paired_p,
    ranks,
    seed_agreement,
    t_interval,
)
from mphil.lab.suite import Printed, known_methods
from mphil.pages.elements import listing

NONE = "-"
PLAIN = "erm"
"""The baseline of every method."""
METRICS = {"roc_auc": "ROC-AUC", "average_precision": "average precision"}
WORDS = {"missing": "not run", "failed": "failed", "refused": "n/a"}
RULES = {"ood_val": "best OOD val", "id_val": "best ID val", "last": "last epoch", "last5": "last 5 epochs"}
"""What chooses the epochs of a score, as it stands over a column."""
SHOWN_RULES = ("ood_val", "id_val", "last5")


def caption(sheet: Sheet, what: str, benchmark: str | None = None) -> str:
    """What a table shows, and under which rule, budget and settings."""
    rule = "last epoch" if sheet.suite.selection == "last" else f"epoch chosen on {sheet.suite.selection}"
    spent = sheet.efforts[benchmark] if benchmark else _all_efforts(sheet.efforts)
    told = [what, rule, f"budget {sheet.budget} ({spent})"]
    if not sheet.ranked:
        told.append("too little for ranks and tests")
    if sheet.suite.published:
        told.append("published hyperparameters where there are any")
    if sheet.suite.tuned:
        told.append("settings tuned on validation, the same number of trials for each method")
    if sheet.request.tuned is not None:
        told.append(f"settings tuned on validation ({sheet.request.tuned}) where there are any")
    return "; ".join([*told, *(f"with {text}" for text in sheet.request.sets)])


def _all_efforts(efforts: Mapping[str, str]) -> str:
    """What was spent on all benchmarks, those with the same effort told together."""
    together: dict[str, list[str]] = {}
    for benchmark, effort in efforts.items():
        together.setdefault(effort, []).append(benchmark)
    if len(together) == 1:
        return next(iter(together))
    return "; ".join(f"{listing(names)}: {effort}" for effort, names in together.items())


def overview(sheet: Sheet) -> ReportTable:
    """Rows by benchmarks: mean (sd) of the OOD test score, in brackets the difference to the paper, and mean ranks."""
    found = sheet_ranks(sheet)
    header = ["method", *sheet.benchmarks, *(["mean rank"] if found else [])]
    rows, notes = [], _Notes()
    for row in sheet.rows:
        cells = [_brief(sheet.entries[row, benchmark], notes) for benchmark in sheet.benchmarks]
        rank = [f"{found.ranks[row]:.1f}" if row in found.ranks else NONE] if found else []
        rows.append([row, *cells, *rank])
    places = {benchmark: _ranks(sheet, benchmark) for benchmark in sheet.benchmarks}
    strong = {
        (number, column)
        for column, benchmark in enumerate(sheet.benchmarks, start=1)
        for number, row in enumerate(sheet.rows)
        if places[benchmark].get(row) == 1
    }
    what = "OOD test score in per cent, mean (sd) over seeds"
    if any(entry.paper for entry in sheet.entries.values()):
        what += " [difference to the paper]"
    about = [_about(found)] if found else []
    return ReportTable(caption(sheet, what), header, rows, frozenset(strong), [*about, *notes.texts, *_states(sheet)])


def sheet_ranks(sheet: Sheet) -> MeanRanks | None:
    """Mean ranks of the complete rows of a sheet; None under a budget whose scores are not ranked."""
    return mean_ranks(_complete(sheet)) if sheet.ranked else None


def pooled_ranks(sheets: Iterable[Sheet]) -> dict[str, MeanRanks]:
    """Budget to mean ranks over the benchmarks of all its suites that compare methods, where there are several.

    A benchmark counts once, in the first suite that has complete rows on it: scores of different suites are not mixed.
    """
    pools: dict[str, dict[str, dict[str, float]]] = {}
    suites: dict[str, set[str]] = {}
    for sheet in sheets:
        if sheet.ranked and compares_methods(sheet) and not sheet.suite.tuned:
            pool = pools.setdefault(sheet.budget, {})
            fresh = {name: own for name, own in _complete(sheet).items() if len(own) > 1 and name not in pool}
            pool |= fresh
            suites.setdefault(sheet.budget, set()).update([sheet.suite.name] if fresh else [])
    return {
        budget: found
        for budget, pool in pools.items()
        if len(suites[budget]) > 1 and (found := mean_ranks(pool)) is not None
    }


def compares_methods(sheet: Sheet) -> bool:
    """Whether the suite is about the test scores of methods."""
    suite = sheet.suite
    return not (suite.probes or suite.hide_test or suite.vary or suite.figure == "time")


def _complete(sheet: Sheet) -> dict[str, dict[str, float]]:
    """Benchmark to row to mean score, of the rows that have all their seeds."""
    entries = [(row, name, entry) for (row, name), entry in sheet.entries.items() if entry.complete]
    return {
        name: {row: mean(entry.scores().values()) for row, own, entry in entries if own == name}
        for name in sheet.benchmarks
    }


def _about(found: MeanRanks) -> str:
    """What mean ranks are made of, and whether they say anything."""
    test = (
        ""
        if found.p is None
        else f"; Friedman test that all rows are alike: p {'' if found.p < 0.001 else '= '}{_p(found.p)}"
    )
    return (
        f"Mean rank over {listing(list(found.benchmarks))}, of the {len(found.ranks)} rows with all seeds on all of "
        f"them{test}; mean ranks that differ by less than {found.difference:.1f} are not told apart (Nemenyi, 0.05)."
    )


def _states(sheet: Sheet) -> Iterable[str]:
    """A sentence if more than one state of the code made the records."""
    known = sum(count for state, count in sheet.states.items() if state)
    if len(sheet.states) > 1:
        yield (
            f"{known} of {sum(sheet.states.values())} records say which state of the code made them: "
            f"{len(sheet.states) - ('' in sheet.states)}. States differ in rounding and in the masks of dropout, "
            "which moves single scores as another seed would."
        )


def detail(sheet: Sheet, benchmark: str) -> ReportTable:
    """One benchmark: scores under every rule with the interval of the suite's own, rank, test, and others' figures."""
    entries = {row: sheet.entries[row, benchmark] for row in sheet.rows}
    rule, against = sheet.suite.selection, sheet.against if sheet.ranked else ""
    rules = [rule, *(other for other in SHOWN_RULES if other != rule)]
    places, base = _ranks(sheet, benchmark), entries[against].scores() if against in entries else {}
    tests = holm({row: paired_p(entry.scores(), base) for row, entry in entries.items() if row != against})
    header = ["method", "seeds", RULES[rule], "95 % interval", *(RULES[other] for other in rules[1:]), "ID test"]
    header += ["rank"] if places else []
    header += [f"minus {against}", "p (Holm)"] if base else []
    notes, rows = _Notes(), []
    sources = list(dict.fromkeys(source for entry in entries.values() for source in entry.others))
    for row, entry in entries.items():
        scores = [spread(entry.scores(rule=other).values()) for other in rules]
        cells = [row, f"{len(entry.records)} of {entry.wanted}", _status(entry, notes) or scores[0]]
        cells += [interval(entry.scores().values()), *scores[1:], spread(entry.scores("id_test").values())]
        cells += [f"{places[row]:g}" if row in places else NONE] if places else []
        cells += [*_minus(entry, base, row == against), _p(tests.get(row))] if base else []
        rows.append(
            [*cells, printed_figure(entry.paper), *(printed_figure(entry.others.get(source)) for source in sources)]
        )
    what = f"{benchmark}, OOD test, {_metric(sheet, benchmark)} in per cent, mean (sd) over seeds"
    strong = frozenset((n, 2) for n, row in enumerate(sheet.rows) if places.get(row) == 1)
    told = [*notes.texts, *_agreement(sheet, benchmark)]
    table = ReportTable(caption(sheet, what, benchmark), [*header, "paper", *sources], rows, strong, told)
    return table.without(("paper", "ID test", *(RULES[other] for other in rules[1:])), NONE)


def _minus(entry: SheetEntry, base: Mapping[int, float], itself: bool) -> list[str]:
    found = [] if itself else differences(entry.scores(), base)
    return [f"{mean(found):+.1f}" if found else NONE]


def _agreement(sheet: Sheet, benchmark: str) -> Iterable[str]:
    """A sentence about how far seeds alone move a rank."""
    complete = {row: e.scores() for row in sheet.rows if (e := sheet.entries[row, benchmark]).complete}
    found = seed_agreement(complete) if sheet.ranked else None
    if found:
        yield (
            f"Seeds alone: the ranking of {found.rows} rows by one seed agrees with that by another by a Spearman "
            f"correlation of {found.correlation:.2f} (mean over pairs of {found.seeds} seeds), and the rank of a row "
            f"moves by {found.typical:.1f} on average, by {found.widest:g} at most."
        )


def standing(sheets: Sequence[Sheet], methods: Sequence[str]) -> ReportTable:
    """A line a benchmark: the methods asked for beside ERM, the best of the others and the paper.

    The figure of the paper is that of the first of the methods that is in it.

    Of the suites that compare methods by their scores, where the first of the methods and another one have been run.
    The others are methods as they are, and ERM in every form: it must not be beaten by its readout or augmentation.
    """
    first, shown = methods[0], [*methods, *([] if PLAIN in methods else [PLAIN])]
    rows, notes, known = [], _Notes(), known_methods()
    printed = next(
        (m for m in methods if any(row == m and e.paper for s in sheets for (row, _), e in s.entries.items())), first
    )
    for sheet in sheets:
        suite = sheet.suite
        if first not in sheet.rows or not compares_methods(sheet):
            continue
        asides = [word for word, said in (("tuned", suite.tuned), (sheet.budget, sheet.budget != suite.budget)) if said]
        for benchmark in sheet.benchmarks:
            entries = {row: e for row in sheet.rows if (e := sheet.entries[row, benchmark]).scores()}
            rivals = [r for r in entries if r not in shown and (r in known or r.startswith(f"{PLAIN} "))]
            others = {rival: mean(entries[rival].scores().values()) for rival in rivals}
            if first not in entries or not (others or entries.keys() & {*shown} - {first}):
                continue
            places, best = _ranks(sheet, benchmark), max(others, key=others.__getitem__, default="")
            told = {row: _placed(entries[row], places.get(row), notes) for row in (*shown, best) if row in entries}
            rows.append(
                [
                    ", ".join([benchmark, *asides]),
                    *(told.get(row, NONE) for row in shown),
                    f"{best} {told[best]}" if best else NONE,
                    _against(entries[first], entries.get(PLAIN) if first != PLAIN else None),
                    _against(entries[first], entries.get(best)),
                    str(len(places) or NONE),
                    printed_figure(sheet.entries[printed, benchmark].paper if printed in sheet.rows else None),
                    suite.name,
                    sheet.efforts[benchmark],
                ]
            )
    header = ["benchmark", *shown, "best other", f"{first} minus {PLAIN}", f"{first} minus best other"]
    header += ["ranked rows", f"{printed} in the paper", "suite", "spent"]
    rules = listing(sorted({RULES[sheet.suite.selection] for sheet in sheets}))
    what = (
        f"OOD test score in per cent, mean (sd) over seeds, # rank among all rows of the suite, variants too; {rules}; "
        "differences over common seeds with their 95 % interval, not corrected for the number of lines"
    )
    empty = [f"{first} minus {PLAIN}", f"{printed} in the paper", *shown]
    return ReportTable(what, header, rows, notes=notes.texts).without(empty, NONE)


def _placed(entry: SheetEntry, place: float | None, notes: _Notes) -> str:
    text = _brief(entry, notes, paper=False)
    return text if place is None else f"{text} #{place:g}"


def _against(entry: SheetEntry, other: SheetEntry | None) -> str:
    """The mean difference over common seeds, with its interval."""
    found = differences(entry.scores(), other.scores()) if other else []
    if not found:
        return NONE
    return f"{mean(found):+.1f}" + (f" ({interval(found)})" if len(found) > 1 else "")


def timing(sheet: Sheet) -> ReportTable:
    """Rows by benchmarks: seconds of an epoch."""
    notes, rows = _Notes(), []
    for row in sheet.rows:
        entries = [sheet.entries[row, benchmark] for benchmark in sheet.benchmarks]
        rows.append([row, *(_status(entry, notes) or f"{mean(entry.seconds()):.2f}" for entry in entries)])
    return ReportTable(caption(sheet, "Seconds of an epoch"), ["method", *sheet.benchmarks], rows, notes=notes.texts)


def spread(values: Iterable[float]) -> str:
    """Mean (sd); the mean alone for one value.

    Example:
        >>> spread([60.0, 62.0]), spread([60.0]), spread([])
        ('61.0 (1.4)', '60.0', '-')
    """
    numbers = list(values)
    if not numbers:
        return NONE
    centre, sd = centre_and_spread(numbers)
    return f"{centre:.1f}" if sd is None else f"{centre:.1f} ({sd:.1f})"


class _Notes:
    """Footnotes, each told once and called by a letter."""

    def __init__(self) -> None:
        self._marks: dict[str, str] = {}

    def mark(self, text: str) -> str:
        return self._marks.setdefault(text, chr(ord("a") + len(self._marks) % 26))

    @property
    def texts(self) -> list[str]:
        return [f"{mark}: {text}" for text, mark in self._marks.items()]


def _status(entry: SheetEntry, notes: _Notes) -> str:
    """What stands in the place of a number; nothing when there is one."""
    if entry.state == "run":
        return "" if entry.scores() else "no score"
    word = WORDS[entry.state]
    return f"{word} ({notes.mark(entry.note)})" if entry.note else word


def _brief(entry: SheetEntry, notes: _Notes, *, paper: bool = True) -> str:
    status = _status(entry, notes)
    if status:
        return status
    text, difference = spread(entry.scores().values()), _difference(entry) if paper else ""
    text += f" [{difference}]" if difference else ""
    return text if len(entry.records) >= entry.wanted else f"{text}, {len(entry.records)}/{entry.wanted} seeds"


def _ranks(sheet: Sheet, benchmark: str) -> dict[str, float]:
    """Rank of every row that has all its seeds; a row alone has none, nor has any under a budget without ranks."""
    scores = _complete(sheet)[benchmark]
    return ranks(scores) if len(scores) > 1 and sheet.ranked else {}


def _difference(entry: SheetEntry) -> str:
    scores = entry.scores()
    return "" if entry.paper is None or not scores else f"{mean(scores.values()) - entry.paper.mean:+.1f}"


def printed_figure(figure: Printed | None) -> str:
    """Mean (sd) as a user printed it."""
    if figure is None:
        return NONE
    return f"{figure.mean:.2f}" + ("" if figure.sd is None else f" ({figure.sd:.2f})")


def interval(values: Iterable[float]) -> str:
    """Ends of the t interval of the mean.

    Example:
        >>> interval([60.0, 62.0, 64.0]), interval([60.0])
        ('57.0 to 67.0', '-')
    """
    ends = t_interval(list(values))
    return NONE if ends is None else f"{ends[0]:.1f} to {ends[1]:.1f}"


def _p(value: float | None) -> str:
    return NONE if value is None else ("< 0.001" if value < 0.001 else f"{value:.3f}")


def _metric(sheet: Sheet, benchmark: str) -> str:
    found = [record["metric"] for row in sheet.rows for record in sheet.entries[row, benchmark].records]
    return METRICS.get(found[0], found[0]) if found else "score"
