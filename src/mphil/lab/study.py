"""A comparison of methods in Python: the runs of the lab, and what can be said from them, as tables and pictures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mphil.errors import UnknownName, UsageError
from mphil.files import write_text
from mphil.graphs.split import PARTS
from mphil.lab.cells import Request, expand
from mphil.lab.engine import LocalEngine
from mphil.lab.records import Record, read_folder
from mphil.lab.report.figures import dots, rank_diagram
from mphil.lab.report.rendering import svg
from mphil.lab.report.sheets import Sheet, fill, known_names, same_data
from mphil.lab.report.tables import RULES
from mphil.lab.statistics import centre_and_spread, differences, holm, paired_p, t_interval
from mphil.lab.suite import parse_suite
from mphil.lab.sweep import SweepCallback, sweep
from mphil.provenance import check_committed

if TYPE_CHECKING:
    import pandas as pd

NAME = "study"
SCORED = PARTS[1:]
"""Parts that have scores."""


@dataclass(frozen=True)
class Study:
    """A finished comparison.

    Attributes:
        sheet: the records, by row and benchmark.
        problems: a sentence about everything in the folder that was left out, and about each run that failed.
    """

    sheet: Sheet
    problems: Sequence[str] = ()

    @property
    def runs(self) -> pd.DataFrame:
        """A line for each run: method, benchmark, seed, OOD test score under every rule, ID test, cost, command."""
        return _frame([self._run(row, record) for (row, _), e in self.sheet.entries.items() for record in e.records])

    def means(self, rule: str = "", part: str = "ood_test") -> pd.DataFrame:
        """A line for each method and benchmark: seeds, mean, standard deviation and 95 % t interval, in per cent.

        Args:
            rule: `ood_val`, `id_val`, `last` or `last5`; that of the study when empty.
            part: part of the data.
        """
        _check(rule, part)
        lines = []
        for (row, benchmark), entry in self.sheet.entries.items():
            values = list(entry.scores(part, rule).values())
            centre, sd = centre_and_spread(values) if values else (None, None)
            low, high = t_interval(values) or (None, None)
            line = {"method": row, "benchmark": benchmark, "seeds": len(values), "mean": centre, "sd": sd}
            lines.append(line | {"low": low, "high": high, "state": entry.state, "note": entry.note})
        return _frame(lines)

    def tests(self, against: str, rule: str = "") -> pd.DataFrame:
        """Each method against one of them on common seeds: mean difference, its interval, paired t-test.

        Args:
            against: a method of the study.
            rule: `ood_val`, `id_val`, `last` or `last5`; that of the study when empty.

        Returns:
            A line for each method and benchmark; `p_holm` is corrected for the methods on a benchmark.
        """
        _check(rule)
        if against not in self.sheet.rows:
            raise UnknownName("method of the study", against, self.sheet.rows)
        lines = []
        for benchmark in self.sheet.benchmarks:
            base = self.sheet.entries[against, benchmark].scores(rule=rule)
            own = {r: self.sheet.entries[r, benchmark].scores(rule=rule) for r in self.sheet.rows if r != against}
            p_values = {row: paired_p(scores, base) for row, scores in own.items()}
            corrected = holm(p_values)
            for row, scores in own.items():
                found = differences(scores, base)
                low, high = t_interval(found) or (None, None)
                centre = sum(found) / len(found) if found else None
                line = {"method": row, "against": against, "benchmark": benchmark, "seeds": len(found)}
                line |= {"difference": centre, "low": low, "high": high}
                lines.append(line | {"p": p_values[row], "p_holm": corrected[row]})
        return _frame(lines)

    def plot(self, benchmark: str) -> str:
        """Every seed of every method on a benchmark, as the text of an SVG file."""
        if benchmark not in self.sheet.benchmarks:
            raise UnknownName("benchmark of the study", benchmark, self.sheet.benchmarks)
        for figure in dots(self.sheet, benchmark):
            return svg(figure)
        raise UsageError(f"no run on {benchmark} has a score; see `problems`")

    def plot_ranks(self) -> str:
        """Mean ranks over benchmarks with their critical difference, as the text of an SVG file."""
        for figure in rank_diagram(self.sheet):
            return svg(figure)
        raise UsageError("mean ranks need three methods with all seeds on two benchmarks")

    def _run(self, row: str, record: Record) -> dict[str, Any]:
        entry = replace(self.sheet.entries[row, record["benchmark"]], records=(record,))
        scores = {rule: next(iter(entry.scores(rule=rule).values()), None) for rule in RULES}
        id_test = next(iter(entry.scores("id_test").values()), None)
        known = {key: record.get(key) for key in ("seed", "metric", "parameters", "seconds", "cpu_seconds", "command")}
        return {"method": row, "benchmark": record["benchmark"]} | known | scores | {"id_test": id_test}


def study(
    methods: Sequence[str] | Mapping[str, Mapping[str, Any]],
    benchmarks: Sequence[str],
    seeds: Sequence[int] = (0, 1, 2),
    *,
    out: Path | str = "runs/study",
    selection: str = "ood_val",
    jobs: int = 1,
    dirty: bool = False,
    callback: SweepCallback | None = None,
    **settings: Mapping[str, Any],
) -> Study:
    """Train every method on every benchmark with every seed, each in a process of its own, and compare.

    The records are those of the lab, in `out/study.jsonl`: a run that has one is not repeated, and the same call goes
    on after any interruption. Runs that failed are in `problems` and are tried again. `out/study.toml` is the suite,
    for `mphil lab report`.

    Args:
        methods: names, or a name of your own to `{"name": "mphil", "temperature": 0.2}`.
        benchmarks: names.
        seeds: of training.
        out: folder of the records and of the runs under way.
        selection: the rule that chooses the reported epoch: `ood_val`, `id_val` or `last`.
        jobs: processes at a time, one thread each.
        dirty: run even from a checkout with uncommitted changes; the records say so.
        callback: who is told what happens.
        settings: of all runs by section: `train={"epochs": 20}, encoder={"width": 64}, benchmark={"graphs": 600}`.
    """
    text, folder = _suite_text(methods, benchmarks, seeds, selection, settings), Path(out)
    suite = parse_suite(NAME, text)
    cells = expand(suite)
    if not dirty:
        check_committed()
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / f"{NAME}.toml", text)
    tally = sweep(cells, LocalEngine(folder / "runs", jobs), folder, callback)
    records, problems = read_folder(folder)
    for check in (known_names, same_data):
        records, strange = check(records)
        problems += strange
    problems += [f"failed: {record['command']}: {record['error']}" for record in tally.failed]
    problems += [f"another sweep is at work on: {cell.title}" for cell in tally.busy]
    return Study(fill(suite, Request(), records, tally.failed), problems)


def _suite_text(
    methods: Sequence[str] | Mapping[str, Mapping[str, Any]],
    benchmarks: Sequence[str],
    seeds: Sequence[int],
    selection: str,
    settings: Mapping[str, Mapping[str, Any]],
) -> str:
    """The comparison as the TOML file of a suite."""
    for what, names in (("methods", methods), ("benchmarks", benchmarks)):
        if isinstance(names, str):
            raise UsageError(f"{what}={names!r}: a list of names is expected, such as [{names!r}]")
    lines = ['title = "Study"', f"selection = {json.dumps(selection)}"]
    lines += [f"benchmarks = {json.dumps(list(benchmarks))}", f"seeds = {json.dumps(list(seeds))}"]
    if not isinstance(methods, Mapping):
        lines.append(f"methods = {json.dumps(list(methods))}")
    lines += _assignments("settings", settings)
    for name, wanted in methods.items() if isinstance(methods, Mapping) else ():
        if "name" not in wanted:
            raise UsageError(f"method {name!r}: give its name, such as {{'name': 'mphil', 'temperature': 0.2}}")
        own = {key: value for key, value in wanted.items() if key != "name"}
        lines += ["[[variants]]", f"name = {json.dumps(name)}", f"method = {json.dumps(wanted['name'])}"]
        lines += _assignments("settings", {"method": own})
    return "\n".join([*lines, ""])


def _assignments(above: str, values: Mapping[str, Any]) -> list[str]:
    """Nested values as lines with dotted keys."""
    lines = []
    for key, value in values.items():
        name = f"{above}.{json.dumps(str(key))}"
        try:
            lines += _assignments(name, value) if isinstance(value, Mapping) else [f"{name} = {json.dumps(value)}"]
        except TypeError:
            raise UsageError(f"{name}: {str(value)[:40]!r} is no number, text, list or mapping of these") from None
    return lines


def _check(rule: str, part: str = "ood_test") -> None:
    if rule and rule not in RULES:
        raise UnknownName("selection rule", rule, RULES)
    if part not in SCORED:
        raise UnknownName("part", part, SCORED)


def _frame(lines: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise UsageError("tables of a study need pandas; install it with `pip install pandas`") from None
    return pd.DataFrame(lines)
