"""Which settings matter for tables of one's own? A study on the validation parts of the development tables.

    python benchmarks/recipe.py list       # what the tables are
    mphil lab run recipe
    python benchmarks/recipe.py report     # writes docs/reference/recipe.md, also when runs are missing

A row differs from the base in one thing. One named `ROW + CHANGE` is compared with the row ROW.

The test parts are scored by nothing here, and the report reads validation scores only.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from mphil.benchmarks import Benchmark, benchmark
from mphil.benchmarks.development import TABLES
from mphil.graphs.split import PARTS
from mphil.lab.cells import Request
from mphil.lab.records import RecordFile
from mphil.lab.report.document import ReportTable
from mphil.lab.report.rendering import table_text
from mphil.lab.report.sheets import Sheet, fill, same_data, unused
from mphil.lab.suite import load_suite
from mphil.model.product.runs import fingerprints_of
from mphil.model.product.tree_runs import forest_scores, n_trees
from mphil.provenance import machine, versions

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
FOREST = RESULTS / "recipe-forest.jsonl"
PAGE = ROOT / "docs" / "reference" / "recipe.md"
NOTE = "<!-- Written by `python benchmarks/recipe.py report`. -->"
SEEDS = (0, 1, 2)
SCORED = ("id_val", "ood_val")
RULES = {"last": "last epoch", "id_val": "epoch chosen on ID validation", "ood_val": "epoch chosen on OOD validation"}
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
    """The scores of a row on a validation part, at the epoch that a rule chose."""
    found = {}
    for table in sheet.benchmarks:
        for record in sheet.entries[row, table].records:
            chosen = record["last"] if rule == "last" else record["selections"].get(rule, {"scores": {}})
            score = chosen["scores"].get(part)
            if score is not None:
                found[table, int(record["seed"])] = 100 * float(score)
    return found


def effects_table(sheet: Sheet, base: str) -> ReportTable:
    """Every row against the base, the largest differences first."""
    changed = [row for row in sheet.rows if row != base]
    found = {
        row: [paired_effect(scores_of(sheet, row, rule), scores_of(sheet, base, rule)) for rule in RULES]
        for row in changed
    }
    order = sorted(changed, key=lambda row: -abs(found[row][0].mean or 0))
    lines = []
    for row in order:
        first = found[row][0]
        lines.append([row, *map(shown, found[row]), f"{first.better} of {first.tables}", str(first.runs)])
    strong = frozenset((n, c) for n, row in enumerate(order) for c, one in enumerate(found[row], 1) if one.counts)
    what = (
        f"Difference to {base} in points of OOD validation, mean over tables (standard error); bold: more than "
        f"{SURE:g} standard errors and {WORTH:g} points"
    )
    return ReportTable(what, ["change", *RULES.values(), "better on (last epoch)", "pairs of runs"], lines, strong)


def scores_table(sheet: Sheet, part: str, forest: Scores) -> ReportTable:
    """Rows by tables: mean over seeds at the last epoch, and the mean over tables."""
    lines = []
    for row, scores in [*((row, scores_of(sheet, row, "last", part)) for row in sheet.rows), ("random forest", forest)]:
        means = table_means(scores)
        cells = [f"{means[table]:.1f}" if table in means else "-" for table in sheet.benchmarks]
        whole = len(means) == len(sheet.benchmarks)
        lines.append([row, *cells, f"{mean(means.values()):.1f}" if whole else "-"])
    names = [name.removeprefix("dev-") for name in sheet.benchmarks]
    which = {"ood_val": "OOD", "id_val": "ID"}[part]
    return ReportTable(f"{which} validation at the last epoch, mean over seeds", ["row", *names, "mean"], lines)


def shown(effect: Effect) -> str:
    if effect.mean is None:
        return "-"
    return f"{effect.mean:+.2f}" + ("" if effect.se is None else f" ({effect.se:.2f})")


def verdict(sheet: Sheet, base: str, forest: Scores) -> list[str]:
    """What matters and how much, in sentences."""
    changed = [row for row in sheet.rows if row != base]
    found = {row: paired_effect(scores_of(sheet, row, "last"), scores_of(sheet, base, "last")) for row in changed}
    lines = []
    for word, sign in (("Better", 1), ("Worse", -1)):
        chosen = [row for row, one in found.items() if one.counts and sign * (one.mean or 0) > 0]
        chosen.sort(key=lambda row: -abs(found[row].mean or 0))
        named = ", ".join(f"{row} {shown(found[row])}" for row in chosen) or "nothing"
        lines.append(f"{word} than {base} at the last epoch: {named}.")
    rest = [row for row, one in found.items() if one.mean is not None and not one.counts]
    lines.append(f"No difference that counts: {', '.join(rest) or 'nothing'}.")
    if absent := [row for row, one in found.items() if one.mean is None]:
        lines.append(f"Not run yet, or not on a table and seed of {base}: {', '.join(absent)}.")
    for rule, words in RULES.items():
        one = forest_effect(sheet, base, rule, forest)
        if one.mean is not None:
            lines.append(
                f"{base} less the random forest, OOD validation, {words}: {shown(one)} points, better on "
                f"{one.better} of {one.tables} tables."
            )
    lines.append("An epoch chosen on OOD validation is scored on the rows that chose it, so that figure flatters.")
    return lines


def page(sheet: Sheet, problems: Sequence[str], base: str, forest: Mapping[str, Scores]) -> str:
    """The report, however many runs there are; `problems` tells what was left out, `forest` has scores by part."""
    done = sum(len(entry.records) for entry in sheet.entries.values())
    wanted = sum(entry.wanted for entry in sheet.entries.values())
    intro = [
        NOTE,
        "# A training recipe for tables of one's own",
        "What single settings of training change on the [development tables](../how-to/data.md#development-tables).",
        f"{done:,} of {wanted:,} runs are recorded (`mphil lab run {sheet.suite.name}`). "
        "Choices are made on validation parts alone; test scores are not shown.",
    ]
    parts = [*intro]
    if done:
        parts += ["## What matters", "\n".join(f"- {line}" for line in verdict(sheet, base, forest["ood_val"]))]
        parts += [table_text(effects_table(sheet, base)), "## Scores"]
    parts += [table_text(scores_table(sheet, part, forest[part])) for part in ("ood_val", "id_val")]
    if problems:
        parts += ["## Left out", "\n".join(f"- {problem}" for problem in problems)]
    return "\n\n".join(parts) + "\n"


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
    found, broken = RecordFile(folder / f"{asked.name}.jsonl").read()
    records, strange = same_data(found)
    return fill(asked, Request(), records), [*broken, *strange, *unused(asked, Request(), records)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("list", "forest", "report"))
    parser.add_argument("--tables", nargs="+", default=list(TABLES), help="development tables; all when left out")
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS), help="of the forests")
    parser.add_argument("--suite", default="recipe", help="name or TOML file of the suite to report")
    parser.add_argument("--records", type=Path, default=RESULTS, help="folder of the lab's records")
    parser.add_argument("--forest", type=Path, default=FOREST, help="record of the forests")
    parser.add_argument("--out", type=Path, default=PAGE, help="page of the report")
    options = parser.parse_args()
    if options.what == "list":
        lines = [described(name, benchmark(name)) for name in options.tables]
        header = ["table", "rows", "positive labels", " / ".join(PARTS)]
        print(table_text(ReportTable("The development tables", header, lines)))
    elif options.what == "forest":
        record_forest(options.tables, options.seeds, options.forest)
    else:
        sheet, problems = sheet_of(options.suite, options.records)
        forest = {part: read_forest(options.forest, part) for part in SCORED}
        options.out.write_text(page(sheet, problems, sheet.suite.against, forest), encoding="utf-8")


if __name__ == "__main__":
    main()
