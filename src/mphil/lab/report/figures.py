"""The figures of a sheet, from its records alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import mean

from mphil.lab.records import Record
from mphil.lab.report.document import Bars, Block, Curves, Dots, DrawnMolecules, RankDiagram, ReportTable, Scatter
from mphil.lab.report.sheets import Sheet, SheetEntry
from mphil.lab.report.tables import NONE, PLAIN, caption, pooled_ranks, sheet_ranks, spread
from mphil.lab.statistics import MeanRanks, centre_and_spread, t_interval
from mphil.pages.elements import listing

HEALTH = {
    "together": "cosine inside a class",
    "apart": "cosine between classes",
    "used": "slots used",
    "score": "mean S",
    "score_spread": "spread of S",
}
SCORE = "OOD test score, per cent"
DISTANCES = {"intra": "inside a class (lower is tighter)", "inter": "between classes (higher is wider)"}


def figures(sheet: Sheet) -> list[Block]:
    """What the suite says shall be drawn; a figure without records is left out."""
    draw = {
        "": lambda sheet: [],
        "bars": lambda sheet: [],
        "curve": _curves,
        "time": _times,
        "separability": _separability,
        "prototypes": _prototypes,
        "health": _health,
    }
    return draw[sheet.suite.figure](sheet)


def score_figures(sheet: Sheet) -> list[Block]:
    """Every seed of every row on each benchmark, and the mean ranks over benchmarks."""
    charts: list[Block] = [chart for benchmark in sheet.benchmarks for chart in dots(sheet, benchmark)]
    return [*charts, *rank_diagram(sheet)]


def dots(sheet: Sheet, benchmark: str) -> Iterable[Dots]:
    """A row of dots for each row with scores, the best mean first, with what the paper and others report."""
    entries = {row: e for row in sheet.rows if (e := sheet.entries[row, benchmark]).scores()}
    if not entries:
        return
    scores = {row: list(entry.scores().values()) for row, entry in entries.items()}
    ordered = dict(sorted(scores.items(), key=lambda item: -mean(item[1])))
    marks = {"paper": {row: e.paper.mean for row, e in entries.items() if e.paper}}
    for row, entry in entries.items():
        for source, figure in entry.others.items():
            marks.setdefault(source, {})[row] = figure.mean
    known = {row: ends for row, values in ordered.items() if (ends := t_interval(values))}
    seeds = sorted(map(len, scores.values()))
    told = (
        f"{seeds[0]} to {seeds[-1]} seeds"
        if seeds[0] < seeds[-1]
        else "one seed"
        if seeds[0] == 1
        else f"{seeds[0]} seeds"
    )
    what = f"A dot is a seed ({told}), the bar their mean" + (", the line its 95 % t interval" if known else "")
    yield Dots(
        benchmark,
        SCORE,
        ordered,
        known,
        {who: own for who, own in marks.items() if own},
        caption(sheet, what, benchmark),
    )


def rank_diagram(sheet: Sheet) -> Iterable[RankDiagram]:
    """The critical-difference diagram, where three rows or more are complete on two benchmarks."""
    yield from _ranks("Mean rank", sheet_ranks(sheet))


def pooled_diagrams(sheets: Iterable[Sheet]) -> list[Block]:
    """A critical-difference diagram over the benchmarks of several suites, for each budget."""
    found = pooled_ranks(sheets)
    return [chart for budget, own in found.items() for chart in _ranks(f"Mean rank, budget {budget}", own)]


def _ranks(title: str, found: MeanRanks | None) -> Iterable[RankDiagram]:
    if found and len(found.ranks) > 2:
        test = "" if found.p is None else f"; Friedman test: p = {found.p:.3g}"
        told = (
            f"Over {listing(list(found.benchmarks))}{test}; mean ranks that differ by less than "
            f"{found.difference:.1f} are not told apart (Nemenyi, 0.05)"
        )
        yield RankDiagram(title, found.ranks, found.difference, found.groups, told)


def _curves(sheet: Sheet) -> list[Block]:
    rows = [row for row in sheet.suite.rows() if row.x is not None and row.name in sheet.rows]
    found = {name: [list(sheet.entries[row.name, name].scores().values()) for row in rows] for name in sheet.benchmarks}
    drawn = {name: scores for name, scores in found.items() if any(scores)}
    if not drawn or sheet.suite.vary is None:
        return []
    told = {name: [centre_and_spread(own) if own else (None, None) for own in of] for name, of in drawn.items()}
    x_label = sheet.suite.vary.key.rpartition(".")[2]
    shown = replace(sheet, efforts={name: sheet.efforts[name] for name in drawn})
    return [
        Curves(
            sheet.suite.title,
            x_label,
            SCORE,
            [row.x for row in rows if row.x is not None],
            {name: [centre for centre, _ in of] for name, of in told.items()},
            {name: [sd for _, sd in of] for name, of in told.items()},
            caption(shown, over_seeds(len(own) for of in drawn.values() for own in of if own)),
        )
    ]


def _times(sheet: Sheet) -> list[Block]:
    charts: list[Block] = []
    for benchmark in sheet.benchmarks:
        known = {row: sheet.entries[row, benchmark].seconds() for row in sheet.rows}
        ordered = dict(sorted(known.items(), key=lambda item: mean(item[1]) if item[1] else 0.0))
        charts += _chart(sheet, f"{sheet.suite.title}: {benchmark}", "seconds of an epoch", ordered, benchmark)
    return [*charts, *_times_by_classes(sheet)]


def _times_by_classes(sheet: Sheet) -> Iterable[Block]:
    """Seconds of an epoch over those of ERM, against the number of classes; of the rows that were run everywhere.

    Over those of ERM because records do not say how many graphs an epoch has, so seconds of benchmarks do not compare.
    """
    known = {name: count for name, count in sheet.suite.classes.items() if name in sheet.benchmarks}
    found = {row: {name: sheet.entries[row, name].seconds() for name in known} for row in sheet.rows}
    seconds = {row: {name: mean(own) for name, own in of.items()} for row, of in found.items() if all(of.values())}
    counts = sorted(set(known.values()))
    if PLAIN not in seconds or len(seconds) < 2 or len(counts) < 2:
        return
    together = {count: [name for name, own in known.items() if own == count] for count in counts}
    ratios = {
        row: [mean(of[name] / seconds[PLAIN][name] for name in names) for names in together.values()]
        for row, of in seconds.items()
    }
    ordered = dict(sorted(ratios.items(), key=lambda item: item[1][-1]))
    shared = [f"at {count} the mean of {listing(names)}" for count, names in together.items() if len(names) > 1]
    seeds = over_seeds((len(own) for row in seconds for own in found[row].values()), "")
    told = [
        f"Seconds of an epoch over those of {PLAIN} on the same benchmark",
        "benchmarks differ in more than their classes",
        *shared,
        f"methods run on all of {listing(list(known))}",
        seeds.lower(),
    ]
    yield Curves(
        f"{sheet.suite.title} against the number of classes",
        "classes",
        f"time over that of {PLAIN}, logarithmic",
        counts,
        ordered,
        caption=caption(replace(sheet, efforts={name: sheet.efforts[name] for name in known}), "; ".join(told)),
        log=True,
    )


def _separability(sheet: Sheet) -> list[Block]:
    charts: list[Block] = []
    sheet = _as_probed(sheet)
    for benchmark in sheet.benchmarks:
        measured = {row: _probes(sheet.entries[row, benchmark], "separability") for row in sheet.rows}
        for what, title in DISTANCES.items():
            values = {row: [probe[what] for _, probe in found] for row, found in measured.items()}
            name = f"1-Wasserstein distance {title}: {benchmark}"
            charts += _chart(sheet, name, "relative distance", values, benchmark)
        for row, found in measured.items():
            for seed, probe in found[:1]:
                told = caption(sheet, f"Graphs of the OOD test part, seed {seed}", benchmark)
                charts.append(Scatter(f"t-SNE of {row}: {benchmark}", probe["points"], probe["labels"], told))
    return charts


def _prototypes(sheet: Sheet) -> list[Block]:
    charts: list[Block] = []
    sheet = _as_probed(sheet)
    for (row, benchmark), entry in sheet.entries.items():
        for seed, probe in _probes(entry, "prototypes")[:1]:
            drawings = [
                (
                    molecule["smiles"],
                    molecule["atoms"],
                    f"class {molecule['class']}, prototype {molecule['prototype']}, "
                    f"similarity {molecule['similarity']:.2f}, label {molecule['label']:g}",
                )
                for molecule in probe["molecules"]
            ]
            told = caption(sheet, f"Molecules of the OOD test part, seed {seed}", benchmark)
            charts.append(DrawnMolecules(f"Nearest to the prototypes of {row}: {benchmark}", drawings, told))
    return charts


def _health(sheet: Sheet) -> list[Block]:
    rows = []
    for (row, benchmark), entry in sheet.entries.items():
        found = _probes(entry, "health")
        known = {what: [probe[what] for _, probe in found if probe.get(what) is not None] for what in HEALTH}
        if entry.records:
            told = [f"{mean(values):.2f}" if values else NONE for values in known.values()]
            scores = [spread(entry.scores(part).values()) for part in ("id_val", "ood_val")]
            rows.append([f"{row} on {benchmark}", *told, *scores])
    what = caption(sheet, "State of the prototypes on ID validation, and validation scores in per cent")
    return [ReportTable(what, ["method", *HEALTH.values(), "ID val", "OOD val"], rows)] if rows else []


def _chart(
    sheet: Sheet, title: str, unit: str, known: Mapping[str, Sequence[float]], benchmark: str
) -> Iterable[Block]:
    """A bar a row that has values, one for each seed, with their spread; nothing where no row has any."""
    drawn = {row: values for row, values in known.items() if values}
    if drawn:
        told = {row: centre_and_spread(values) for row, values in drawn.items()}
        centres = {row: centre for row, (centre, _) in told.items()}
        errors = {row: sd for row, (_, sd) in told.items() if sd is not None}
        what = caption(sheet, over_seeds(map(len, drawn.values())), benchmark)
        yield Bars(title, unit, centres, errors, what)


def over_seeds(counts: Iterable[int], whiskers: str = ", whiskers: sd") -> str:
    """What a figure is averaged over, and what its whiskers are.

    Example:
        >>> over_seeds([1, 1]), over_seeds([3, 3])
        ('One seed', 'Mean over 3 seeds, whiskers: sd')
        >>> over_seeds([1, 3])
        'Mean over 1 to 3 seeds, whiskers: sd where there are two or more'
    """
    every = sorted(counts)
    fewest, most = every[0], every[-1]
    if most == 1:
        return "One seed"
    if fewest == most:
        return f"Mean over {most} seeds{whiskers}"
    some = " where there are two or more" if whiskers and fewest == 1 else ""
    return f"Mean over {fewest} to {most} seeds{whiskers}{some}"


def _as_probed(sheet: Sheet) -> Sheet:
    """The sheet under the rule of its probes: they look at the weights of the first rule that could choose."""
    rules = [next(iter(record["selections"]), "last") for entry in sheet.entries.values() for record in entry.records]
    return replace(sheet, suite=sheet.suite.model_copy(update={"selection": rules[0]})) if rules else sheet


def _probes(entry: SheetEntry, name: str) -> list[tuple[int, Record]]:
    """The seed of each record and what a probe found in it; nothing where the method could not be measured."""
    found = [(record["seed"], record["probes"].get(name, {})) for record in entry.records]
    return [(seed, probe) for seed, probe in found if probe and "missing" not in probe]
