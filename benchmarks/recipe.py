"""Which settings matter for tables of one's own? A study on the validation parts of the development tables.

    python benchmarks/recipe.py list       # what the tables are
    mphil lab run recipe
    python benchmarks/recipe.py report     # writes docs/reference/recipe.md, also when runs are missing

A row differs from the base in one thing. One named `ROW + CHANGE` is compared with the row ROW.

The test parts are scored by nothing here, and the report reads validation scores only.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

from mphil.benchmarks import Benchmark, benchmark
from mphil.benchmarks.development import TABLES
from mphil.graphs.split import PARTS
from mphil.lab.cells import Request
from mphil.lab.records import read_folder
from mphil.lab.report.document import ReportTable
from mphil.lab.report.rendering import table_text
from mphil.lab.report.sheets import Sheet, fill, same_data, unused
from mphil.lab.suite import load_suite

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "reference" / "recipe.md"
NOTE = "<!-- Written by `python benchmarks/recipe.py report`. -->"
RULES = {
    "last5": "mean of the last five epochs",
    "id_val": "epoch chosen on ID validation",
    "ood_val": "epoch chosen on OOD validation",
}
FIRST = RULES["last5"]
SURE, WORTH = 2.0, 0.5
"""A difference counts when it is more than so many standard errors, and more than so many points."""

Scores = Mapping[tuple[str, int], float]
"""(table, seed) to a score in per cent."""


@dataclass(frozen=True)
class Effect:
    """What a change does to the scores.

    Attributes:
        mean: mean over tables of the mean difference over common seeds, in points; None without a common run.
        se: its standard error, from the spread between tables; None for fewer than two tables.
        better: tables on which the difference is positive.
        tables: tables with a common seed.
        runs: pairs of runs.
    """

    mean: float | None
    se: float | None
    better: int
    tables: int
    runs: int

    @property
    def counts(self) -> bool:
        """Whether it is both large enough and sure enough."""
        return self.mean is not None and self.se is not None and abs(self.mean) > max(WORTH, SURE * self.se)


def paired_effect(scores: Scores, base: Scores) -> Effect:
    """The effect of a change, from runs of the same table and seed with and without it.

    The runs of a table are not independent of each other, so the tables are what is counted: their mean differences
    carry the noise of seeds and of tables.
    """
    differences: dict[str, list[float]] = defaultdict(list)
    for table, seed in scores.keys() & base.keys():
        differences[table].append(scores[table, seed] - base[table, seed])
    return effect_of([mean(values) for values in differences.values()], sum(map(len, differences.values())))


def effect_of(differences: Sequence[float], runs: int) -> Effect:
    """The effect from the difference on each table."""
    n = len(differences)
    se = stdev(differences) / n**0.5 if n > 1 else None
    return Effect(mean(differences) if n else None, se, sum(one > 0 for one in differences), n, runs)


def table_means(scores: Scores) -> dict[str, float]:
    """Table to its mean over seeds."""
    found: dict[str, list[float]] = defaultdict(list)
    for (table, _), score in scores.items():
        found[table].append(score)
    return {table: mean(values) for table, values in found.items()}


def scores_of(sheet: Sheet, row: str, rule: str, part: str = "ood_val") -> dict[tuple[str, int], float]:
    """The scores of a row on a validation part, by a rule."""
    found = {}
    for table in sheet.benchmarks:
        for record in sheet.entries[row, table].records:
            scores = record["last5"] if rule == "last5" else record["selections"].get(rule, {"scores": {}})["scores"]
            if scores.get(part) is not None:
                found[table, int(record["seed"])] = 100 * float(scores[part])
    return found


def reference(sheet: Sheet, row: str) -> str:
    """The row that a row is compared with: the one that its name begins with, before the last ` + `, or the base."""
    before = row.rpartition(" + ")[0]
    return before if before in sheet.rows else sheet.suite.against


def effects(sheet: Sheet, row: str) -> list[Effect]:
    """What a row changes, by each rule."""
    other = reference(sheet, row)
    return [paired_effect(scores_of(sheet, row, rule), scores_of(sheet, other, rule)) for rule in RULES]


def effects_table(sheet: Sheet, found: Mapping[str, Sequence[Effect]]) -> ReportTable:
    """Every row against the one it is compared with, the largest differences first."""
    order = sorted(found, key=lambda row: -abs(found[row][0].mean or 0))
    lines = []
    for row in order:
        first = found[row][0]
        shares = [f"{first.better} of {first.tables}", str(first.runs)]
        lines.append([row, reference(sheet, row), *map(shown, found[row]), *shares])
    strong = frozenset((n, c) for n, row in enumerate(order) for c, one in enumerate(found[row], 2) if one.counts)
    what = (
        "Differences in points of OOD validation, mean over tables (standard error); bold: more than "
        f"{SURE:g} standard errors and {WORTH:g} points"
    )
    return ReportTable(what, ["row", "less", *RULES.values(), f"better on ({FIRST})", "pairs of runs"], lines, strong)


def scores_table(sheet: Sheet, part: str) -> ReportTable:
    """Rows by tables: mean over seeds of the last five epochs, and the mean over tables."""
    lines = []
    for row in sheet.rows:
        means = table_means(scores_of(sheet, row, "last5", part))
        cells = [f"{means[table]:.1f}" if table in means else "-" for table in sheet.benchmarks]
        whole = len(means) == len(sheet.benchmarks)
        lines.append([row, *cells, f"{mean(means.values()):.1f}" if whole else "-"])
    names = [name.removeprefix("dev-") for name in sheet.benchmarks]
    which = {"ood_val": "OOD", "id_val": "ID"}[part]
    return ReportTable(f"{which} validation, {FIRST}, mean over seeds", ["row", *names, "mean"], lines)


def shown(effect: Effect) -> str:
    if effect.mean is None:
        return "-"
    return f"{effect.mean:+.2f}" + ("" if effect.se is None else f" ({effect.se:.2f})")


def verdict(sheet: Sheet, found: Mapping[str, Sequence[Effect]]) -> list[str]:
    """What matters and how much, in sentences, by the first rule."""
    lines = []
    for word, sign in (("Better", 1), ("Worse", -1)):
        chosen = [row for row, (one, *_) in found.items() if one.counts and sign * (one.mean or 0) > 0]
        chosen.sort(key=lambda row: -abs(found[row][0].mean or 0))
        named = ", ".join(f"{row} {shown(found[row][0])}" for row in chosen) or "nothing"
        lines.append(f"{word} than the row it is compared with: {named}.")
    rest = [row for row, (one, *_) in found.items() if one.mean is not None and not one.counts]
    lines.append(f"No difference that counts: {', '.join(rest) or 'nothing'}.")
    if absent := [row for row, (one, *_) in found.items() if one.mean is None]:
        lines.append(f"Not run yet, or not on a table and seed of the other row: {', '.join(absent)}.")
    lines.append(
        "An epoch chosen on OOD validation is scored on the rows that chose it, so that figure flatters networks."
    )
    return lines


def page(sheet: Sheet, problems: Sequence[str]) -> str:
    """The report, however many runs there are; `problems` tells what was left out."""
    done = sum(len(entry.records) for entry in sheet.entries.values())
    wanted = sum(entry.wanted for entry in sheet.entries.values())
    parts = [
        NOTE,
        "# A training recipe for tables of one's own",
        "What single settings of training change on the [development tables](../how-to/data.md#development-tables).",
        f"{done:,} of {wanted:,} runs are recorded (`mphil lab run {sheet.suite.name}`). "
        "Choices are made on validation parts alone; test scores are not shown.",
        "\n".join(f"- {note}" for note in sheet.suite.notes),
    ]
    if done:
        found = {row: effects(sheet, row) for row in sheet.rows if row != sheet.suite.against}
        parts += ["## What matters", "\n".join(f"- {line}" for line in verdict(sheet, found))]
        parts += [table_text(effects_table(sheet, found)), "## Scores"]
    parts += [table_text(scores_table(sheet, part)) for part in ("ood_val", "id_val")]
    if problems:
        parts += ["## Left out", "\n".join(f"- {problem}" for problem in problems)]
    return "\n\n".join(part for part in parts if part) + "\n"


def described(name: str, data: Benchmark) -> list[str]:
    """A line of the list: rows, positive share of the labels, and sizes of the parts."""
    y = data.store.y
    known = ~y.isnan()
    share = 100 * float((y == 1).sum() / known.sum())
    labels = f"{share:.0f} %" + (f" of {100 * float(known.float().mean()):.0f} %" if data.task.n_tasks > 1 else "")
    return [name, f"{len(data.store):,}", labels, " / ".join(f"{data.split.sizes[part]:,}" for part in PARTS)]


def sheet_of(suite: str, folder: Path) -> tuple[Sheet, list[str]]:
    """The suite, filled in from the records of the folder, and a sentence about everything left out."""
    asked = load_suite(suite)
    found, broken = read_folder(folder)
    records, strange = same_data(found)
    problems = [*broken, *strange, *unused(asked, Request(), records)]
    return fill(asked, Request(), records), [one for one in problems if one.startswith(f"{asked.name}.jsonl")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("list", "report"))
    parser.add_argument("--tables", nargs="+", default=list(TABLES), help="development tables; all when left out")
    parser.add_argument("--suite", default="recipe", help="name or TOML file of the suite to report")
    parser.add_argument("--records", type=Path, default=RESULTS, help="folder of the lab's records")
    parser.add_argument("--out", type=Path, default=PAGE, help="page of the report")
    options = parser.parse_args()
    if options.what == "list":
        lines = [described(name, benchmark(name)) for name in options.tables]
        header = ["table", "rows", "positive labels", " / ".join(PARTS)]
        print(table_text(ReportTable("The development tables", header, lines)))
    else:
        options.out.write_text(page(*sheet_of(options.suite, options.records)), encoding="utf-8")


if __name__ == "__main__":
    main()
