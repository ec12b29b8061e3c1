"""The tables of a report: where MPHIL stands, and of each sheet one over all benchmarks and one for each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import mean

from mphil.lab.report.document import Table
from mphil.lab.report.gather import Entry, Sheet
from mphil.lab.statistics import bootstrap_interval, centre_and_spread, paired_p, ranks, signed_rank_p
from mphil.methods.base import METHODS
from mphil.page.text import listing

NONE = "-"
METRICS = {"roc_auc": "ROC-AUC", "average_precision": "average precision"}
WORDS = {"missing": "not run", "failed": "failed", "refused": "n/a"}


def caption(sheet: Sheet, what: str, benchmark: str | None = None) -> str:
    """What a table shows, and under which rule, budget and settings."""
    rule = "last epoch" if sheet.suite.selection == "last" else f"epoch chosen on {sheet.suite.selection}"
    spent = sheet.efforts[benchmark] if benchmark else _all_efforts(sheet.efforts)
    told = [what, rule, f"budget {sheet.budget} ({spent})"]
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


def overview(sheet: Sheet) -> Table:
    """Rows by benchmarks: mean (sd) of the OOD test score, and in brackets the difference to the paper.

    The mean rank is over the benchmarks on which all rows have as many seeds: first of two is no better than third of
    ten.
    """
    header = ["method", *sheet.benchmarks, "mean rank"]
    places = {benchmark: _ranks(sheet, benchmark) for benchmark in sheet.benchmarks}
    unfinished = {
        benchmark
        for (row, benchmark), entry in sheet.entries.items()
        if entry.state == "missing" or (entry.scores() and places[benchmark] and row not in places[benchmark])
    }
    means = {row: _means(sheet, row) for row in sheet.rows}
    against = sheet.suite.against
    tested = {row: signed_rank_p(means[row], means[against]) for row in sheet.rows} if against else {}
    if any(p is not None for p in tested.values()):
        header.append(f"p against {against}")
    rows, notes = [], _Notes()
    for row in sheet.rows:
        cells = [_brief(sheet.entries[row, benchmark], notes) for benchmark in sheet.benchmarks]
        own = [of[row] for benchmark, of in places.items() if benchmark not in unfinished and row in of]
        line = [row, *cells, f"{mean(own):.1f}" if own else NONE]
        rows.append([*line, _p(tested[row])] if len(header) > len(line) else line)
    strong = {
        (number, column)
        for column, benchmark in enumerate(sheet.benchmarks, start=1)
        for number, row in enumerate(sheet.rows)
        if places[benchmark].get(row) == 1
    }
    what = "OOD test score in per cent, mean (sd) over seeds"
    if any(entry.paper for entry in sheet.entries.values()):
        what += " [difference to the paper]"
    return Table(caption(sheet, what), header, rows, frozenset(strong), [*notes.texts, *_states(sheet)])


def _states(sheet: Sheet) -> Iterable[str]:
    """A sentence if more than one state of the code made the records."""
    known = sum(count for state, count in sheet.states.items() if state)
    if len(sheet.states) > 1:
        yield (
            f"{known} of {sum(sheet.states.values())} records say which state of the code made them: "
            f"{len(sheet.states) - ('' in sheet.states)}. States differ in rounding and in the masks of dropout, "
            "which moves single scores as another seed would."
        )


def detail(sheet: Sheet, benchmark: str) -> Table:
    """One benchmark: seeds, mean (sd), confidence interval, rank, the paper's figure, a paired test, and what else."""
    against = sheet.suite.against
    header = ["method", "seeds", "OOD test", "95 % interval", "rank", "paper", "difference"]
    header += [f"p against {against}"] if against else []
    header += ["ID test", "OOD test, last epoch"]
    base = sheet.entries[against, benchmark].scores() if against else {}
    places, notes, rows = _ranks(sheet, benchmark), _Notes(), []
    for row in sheet.rows:
        entry = sheet.entries[row, benchmark]
        scores = entry.scores()
        paper = f"{entry.paper.mean:.2f} ({entry.paper.sd:.2f})" if entry.paper else NONE
        cells = [row, f"{len(entry.records)} of {entry.wanted}", _status(entry, notes) or spread(scores.values())]
        cells += [_interval(list(scores.values())), f"{places[row]:g}" if row in places else NONE]
        cells += [paper, _difference(entry) or NONE]
        cells += [_p(paired_p(scores, base) if row != against else None)] if against else []
        cells += [spread(entry.scores("id_test").values()), spread(entry.last().values())]
        rows.append(cells)
    strong = frozenset((n, 2) for n, row in enumerate(sheet.rows) if places.get(row) == 1)
    what = caption(sheet, f"{benchmark}, {_metric(sheet, benchmark)} in per cent", benchmark)
    return Table(what, header, rows, strong, notes.texts)


OURS, PLUS, PLAIN, ALIKE = "mphil", "mphil+", "erm", "erm + max readout"


def standing(sheets: Sequence[Sheet]) -> Table:
    """A line a benchmark: MPHIL, MPHIL+ and ERM with the readout of either, the best of the others, and the paper.

    Of the suites that compare scores of methods over several seeds, where MPHIL, ERM and another one have been run.
    Benchmarks are counted once, when all seeds are there: under the usual budget of their suite, with the settings
    that were not tuned.
    """
    rows, notes, found = [], _Notes(), []
    for sheet in sheets:
        suite = sheet.suite
        compares = suite.against == OURS and len(suite.seeds) > 1 and not suite.probes
        asides = [word for word, said in (("tuned", suite.tuned), (sheet.budget, sheet.budget != suite.budget)) if said]
        for benchmark in sheet.benchmarks if compares else ():
            places = _ranks(sheet, benchmark)
            entries = {row: e for row in sheet.rows if (e := sheet.entries[row, benchmark]).scores()}
            others = [row for row in places if row in METHODS and row not in (OURS, PLUS, PLAIN)]
            if not others or not {OURS, PLAIN} <= entries.keys():
                continue
            if not asides and all(len(entry.records) >= entry.wanted for entry in entries.values()):
                found.append(places)
            best = min(others, key=places.__getitem__)
            told = {
                row: _brief(replace(entries[row], paper=None), notes) + (f"; {places[row]:g}." if row in places else "")
                for row in (PLAIN, ALIKE, best, OURS, PLUS)
                if row in entries
            }
            paper = sheet.entries[OURS, benchmark].paper
            name = ", ".join([benchmark, *asides])
            cells = [name, told[OURS], told.get(PLUS, NONE), told[PLAIN], told.get(ALIKE, NONE)]
            cells += [
                f"{best} {told[best]}",
                str(len(places)),
                f"{paper.mean:.1f}" if paper else NONE,
                sheet.efforts[benchmark],
            ]
            rows.append([*cells, f"mphil lab run {suite.name} --budget {sheet.budget} --benchmarks {benchmark}"])
    header = ["benchmark", OURS, PLUS, PLAIN, ALIKE, "best other", "rows", f"{OURS} in the paper", "spent", "command"]
    rules = sorted({sheet.suite.selection for sheet in sheets})
    what = f"OOD test score in per cent, mean (sd) over seeds, and place; epochs chosen on {', '.join(rules)}"
    return Table("; ".join([what, *_counted(found)]), header, rows, notes=notes.texts)


def _counted(places: Sequence[Mapping[str, float]]) -> Iterable[str]:
    """On how many benchmarks MPHIL and MPHIL+ are in front, and above ERM."""
    for row in (OURS, PLUS):
        own = [(of[row], of[PLAIN]) for of in places if row in of]
        front, above = sum(place <= 2 for place, _ in own), sum(place < plain for place, plain in own)
        if own:
            yield f"{row} is first or second on {front} of {len(own)} benchmarks and above {PLAIN} on {above}"


def timing(sheet: Sheet) -> Table:
    """Rows by benchmarks: seconds of an epoch."""
    notes, rows = _Notes(), []
    for row in sheet.rows:
        entries = [sheet.entries[row, benchmark] for benchmark in sheet.benchmarks]
        rows.append([row, *(_status(entry, notes) or f"{mean(entry.seconds()):.2f}" for entry in entries)])
    return Table(caption(sheet, "Seconds of an epoch"), ["method", *sheet.benchmarks], rows, notes=notes.texts)


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


def _status(entry: Entry, notes: _Notes) -> str:
    """What stands in the place of a number; nothing when there is one."""
    if entry.state == "run":
        return "" if entry.scores() else "no score"
    word = WORDS[entry.state]
    return f"{word} ({notes.mark(entry.note)})" if entry.note else word


def _brief(entry: Entry, notes: _Notes) -> str:
    status = _status(entry, notes)
    if status:
        return status
    text, difference = spread(entry.scores().values()), _difference(entry)
    text += f" [{difference}]" if difference else ""
    return text if len(entry.records) >= entry.wanted else f"{text}, {len(entry.records)}/{entry.wanted} seeds"


def _mean(entry: Entry) -> float | None:
    scores = entry.scores()
    return mean(scores.values()) if scores else None


def _means(sheet: Sheet, row: str) -> dict[str, float]:
    """Benchmark to the mean score of a row, where it has one."""
    found = {benchmark: _mean(sheet.entries[row, benchmark]) for benchmark in sheet.benchmarks}
    return {benchmark: value for benchmark, value in found.items() if value is not None}


def _ranks(sheet: Sheet, benchmark: str) -> dict[str, float]:
    """Place of every row that has a score over as many seeds as any; a row alone has none."""
    entries = {row: sheet.entries[row, benchmark] for row in sheet.rows}
    most = max(len(entry.scores()) for entry in entries.values())
    scores = {row: mean(found.values()) for row, e in entries.items() if most and len(found := e.scores()) == most}
    return ranks(scores) if len(scores) > 1 else {}


def _difference(entry: Entry) -> str:
    ours = _mean(entry)
    return "" if entry.paper is None or ours is None else f"{ours - entry.paper.mean:+.1f}"


def _interval(values: Sequence[float]) -> str:
    interval = bootstrap_interval(values)
    return NONE if interval is None else f"{interval[0]:.1f} to {interval[1]:.1f}"


def _p(value: float | None) -> str:
    return NONE if value is None else ("< 0.001" if value < 0.001 else f"{value:.3f}")


def _metric(sheet: Sheet, benchmark: str) -> str:
    found = [record["metric"] for row in sheet.rows for record in sheet.entries[row, benchmark].records]
    return METRICS.get(found[0], found[0]) if found else "score"
