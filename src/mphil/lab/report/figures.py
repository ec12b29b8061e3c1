"""The figures of a sheet, from its records alone."""

from __future__ import annotations

from statistics import mean

from mphil.lab.records import Record
from mphil.lab.report.document import Bars, Block, Curves, Molecules, Scatter, Table
from mphil.lab.report.gather import Entry, Sheet
from mphil.lab.report.tables import NONE, caption, spread
from mphil.lab.statistics import centre_and_spread

HEALTH = {
    "together": "cosine inside a class",
    "apart": "cosine between classes",
    "used": "slots used",
    "score": "mean S",
    "score_spread": "spread of S",
}
DISTANCES = {"intra": "inside a class (lower is tighter)", "inter": "between classes (higher is wider)"}


def figures(sheet: Sheet) -> list[Block]:
    """What the suite says shall be drawn; a figure without records is left out."""
    draw = {
        "": lambda sheet: [],
        "curve": _curves,
        "bars": _bars,
        "time": _times,
        "separability": _separability,
        "prototypes": _prototypes,
        "health": _health,
    }
    return draw[sheet.suite.figure](sheet)


def _curves(sheet: Sheet) -> list[Block]:
    rows = [row for row in sheet.suite.rows() if row.x is not None and row.name in sheet.rows]
    series = {
        benchmark: [_centre(sheet.entries[row.name, benchmark]) for row in rows] for benchmark in sheet.benchmarks
    }
    drawn = {name: values for name, values in series.items() if any(value is not None for value in values)}
    if not drawn or sheet.suite.vary is None:
        return []
    name = sheet.suite.vary.key.rpartition(".")[2]
    places = [row.x for row in rows if row.x is not None]
    return [Curves(sheet.suite.title, name, "OOD test score, per cent", places, drawn)]


def _bars(sheet: Sheet) -> list[Block]:
    charts: list[Block] = []
    for benchmark in sheet.benchmarks:
        known = {row: scores for row in sheet.rows if (scores := sheet.entries[row, benchmark].scores())}
        spread = {row: centre_and_spread(list(scores.values())) for row, scores in known.items()}
        errors = {row: sd for row, (_, sd) in spread.items() if sd is not None}
        if spread:
            values = {row: centre for row, (centre, _) in spread.items()}
            charts.append(Bars(f"{sheet.suite.title}: {benchmark}", "OOD test score, per cent", values, errors))
    return charts


def _times(sheet: Sheet) -> list[Block]:
    charts: list[Block] = []
    for benchmark in sheet.benchmarks:
        known = {row: mean(s) for row in sheet.rows if (s := sheet.entries[row, benchmark].seconds())}
        if known:
            ordered = dict(sorted(known.items(), key=lambda item: item[1]))
            charts.append(Bars(f"{sheet.suite.title}: {benchmark}", "seconds of an epoch", ordered))
    return charts


def _separability(sheet: Sheet) -> list[Block]:
    charts: list[Block] = []
    for benchmark in sheet.benchmarks:
        measured = {row: _probes(sheet.entries[row, benchmark], "separability") for row in sheet.rows}
        measured = {row: found for row, found in measured.items() if found}
        for what, title in DISTANCES.items():
            values = {row: mean(probe[what] for probe in found) for row, found in measured.items()}
            if values:
                charts.append(Bars(f"1-Wasserstein distance {title}: {benchmark}", "relative distance", values))
        for row, found in measured.items():
            charts.append(Scatter(f"t-SNE of {row}: {benchmark}", found[0]["points"], found[0]["labels"]))
    return charts


def _prototypes(sheet: Sheet) -> list[Block]:
    charts: list[Block] = []
    for (row, benchmark), entry in sheet.entries.items():
        for probe in _probes(entry, "prototypes")[:1]:
            drawings = [
                (
                    molecule["smiles"],
                    molecule["atoms"],
                    f"class {molecule['class']}, prototype {molecule['prototype']}, "
                    f"similarity {molecule['similarity']:.2f}, label {molecule['label']:g}",
                )
                for molecule in probe["molecules"]
            ]
            charts.append(Molecules(f"Nearest to the prototypes of {row}: {benchmark}", drawings))
    return charts


def _health(sheet: Sheet) -> list[Block]:
    rows = []
    for (row, benchmark), entry in sheet.entries.items():
        found = _probes(entry, "health")
        known = {what: [probe[what] for probe in found if probe.get(what) is not None] for what in HEALTH}
        if entry.records:
            told = [f"{mean(values):.2f}" if values else NONE for values in known.values()]
            scores = [spread(entry.scores(part).values()) for part in ("id_val", "ood_val")]
            rows.append([f"{row} on {benchmark}", *told, *scores])
    what = caption(sheet, "State of the prototypes on ID validation, and validation scores in per cent")
    return [Table(what, ["method", *HEALTH.values(), "ID val", "OOD val"], rows)] if rows else []


def _probes(entry: Entry, name: str) -> list[Record]:
    """What a probe found in each record; nothing where the method could not be measured."""
    found = [record["probes"].get(name, {}) for record in entry.records]
    return [probe for probe in found if probe and "missing" not in probe]


def _centre(entry: Entry) -> float | None:
    scores = entry.scores()
    return mean(scores.values()) if scores else None
