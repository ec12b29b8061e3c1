"""From records to the entries of a table: only what belongs together is put together, the rest is named."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from mphil.benchmarks.catalogue import BENCHMARKS
from mphil.lab.cells import Cell, Request, expand
from mphil.lab.records import FAILED, Record, RecordFile
from mphil.lab.suite import Printed, Suite, known_methods, printed, reported
from mphil.model.committee.trees import is_tree_kind
from mphil.registry import Plugin

PER_CENT = 100.0
SHOWN_COMMANDS = 3
SMOKE = "smoke"
"""The budget that only shows that everything runs: its scores are not ranked or tested."""


@dataclass(frozen=True)
class SheetEntry:
    """A cell of a table: all seeds of one row on one benchmark.

    Attributes:
        state: `run`, `refused` by the method, `failed`, or `missing`.
        records: the records it is made of, by seed.
        wanted: how many seeds there should be.
        paper: what the paper printed.
        others: who else reports a figure, and which.
        note: why it is not `run`.
        selection: the rule that chose the epochs.
    """

    state: Literal["run", "refused", "failed", "missing"]
    records: tuple[Record, ...] = ()
    wanted: int = 0
    paper: Printed | None = None
    others: Mapping[str, Printed] = field(default_factory=dict)
    note: str = ""
    selection: str = "ood_val"

    def scores(self, part: str = "ood_test", rule: str = "") -> dict[int, float]:
        """Seed to score in per cent; seeds without one are left out.

        Args:
            part: part of the data.
            rule: `ood_val`, `id_val`, `last`, `last5` (mean of the last five epochs); the suite's when empty.
        """
        found = {record["seed"]: _scores(record, rule or self.selection).get(part) for record in self.records}
        return {seed: PER_CENT * score for seed, score in found.items() if score is not None}

    @property
    def complete(self) -> bool:
        """Whether every seed that the suite asks for has a score."""
        return 0 < self.wanted <= len(self.scores())

    def seconds(self) -> list[float]:
        """Seconds of an epoch, by seed; of trees, which have none, all seconds."""
        return [record["seconds"] / max(1, record["last"]["epoch"]) for record in self.records]


@dataclass
class Sheet:
    """A suite under one budget, filled in from records.

    Attributes:
        suite: what was asked.
        request: under which budget and with which other settings.
        efforts: benchmark to what was spent on it, in words.
        entries: (row, benchmark) to what was found.
        against: the row that all others are tested against; none when empty.
    """

    suite: Suite
    request: Request
    efforts: dict[str, str] = field(default_factory=dict)
    entries: dict[tuple[str, str], SheetEntry] = field(default_factory=dict)
    against: str = ""

    @property
    def ranked(self) -> bool:
        """Whether its scores are worth ranks and tests."""
        return self.budget != SMOKE

    @property
    def budget(self) -> str:
        return self.request.budget or self.suite.budget

    @property
    def rows(self) -> list[str]:
        return list(dict.fromkeys(row for row, _ in self.entries))

    @property
    def benchmarks(self) -> list[str]:
        return list(dict.fromkeys(benchmark for _, benchmark in self.entries))

    @property
    def states(self) -> Counter[str]:
        """States of the code that made the records, and how many records each made; early records do not say."""
        records = [record for entry in self.entries.values() for record in entry.records]
        return Counter(record.get("code", "") for record in records)

    @property
    def contents(self) -> set[object]:
        """What there is to show: the cells of its records, and where a method refused or failed, and why."""
        records = {record["cell"] for entry in self.entries.values() for record in entry.records}
        stopped = {(place, entry.note) for place, entry in self.entries.items() if entry.state in ("refused", "failed")}
        return records | stopped


def fill(suite: Suite, request: Request, records: Sequence[Record], failures: Sequence[Record] = ()) -> Sheet:
    """The table of a suite under the requested budget.

    Args:
        suite: what is in the table.
        request: budget and other settings, as they were given to the sweep.
        records: all records there are, of this suite and of others.
        failures: records of cells that failed.
    """
    cells: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in expand(suite, request):
        cells[cell.row, cell.benchmark].append(cell)
    sheet = Sheet(suite, request, against=suite.against)
    reference = printed(suite.reference) if suite.reference else {}
    failed = {record["setting"]: record["error"] for record in failures}
    by_setting = defaultdict(list)
    for record in records:
        by_setting[record["setting"]].append(record)
    # In the order of the suite: cells come seed by seed, but rows and columns as they are written.
    for (row, benchmark), group in cells.items():
        setting = group[0].setting
        if benchmark not in sheet.efforts or not is_tree_kind(group[0].method):
            sheet.efforts[benchmark] = describe_effort(group[0])
        entry = _entry(by_setting[setting], len(group), failed.get(setting, ""))
        sheet.entries[row, benchmark] = replace(
            entry,
            paper=reference.get((row, benchmark)),
            others=reported().get((row, benchmark), {}),
            selection=suite.selection,
        )
    return sheet


def describe_effort(cell: Cell) -> str:
    """What is spent on a cell, in words."""
    parts = ["no epochs" if is_tree_kind(cell.method) else f"{cell.settings['train']['epochs']} epochs"]
    for share, what in ((cell.fraction, "training"), (cell.eval_fraction, "evaluation")):
        if share < 1:
            parts.append(f"{PER_CENT * share:g} % of the {what} graphs")
    return ", ".join(parts)


def known_names(records: Iterable[Record]) -> tuple[list[Record], list[str]]:
    """The records of methods and benchmarks that exist here, and a sentence about those of each other one."""
    kept, strange = [], Counter[tuple[str, str]]()
    remedies: dict[tuple[str, str], str] = {}
    known = known_methods()
    for record in records:
        unknown = [
            (kind, record[kind])
            for kind, names in (("method", known), ("benchmark", BENCHMARKS))
            if record[kind] not in names
        ]
        strange.update(unknown[:1])
        for kind, name in unknown[:1]:
            remedies |= _remedy(record, kind, name)
        if not unknown:
            kept.append(record)
    return kept, [
        f"{kind} {str(name)[:40]!r} is not known here: {count} of its records are left out; "
        + remedies.get((kind, name), "give the file that defines it with --plugin")
        for (kind, name), count in sorted(strange.items())
    ]


def _remedy(record: Record, kind: str, name: str) -> dict[tuple[str, str], str]:
    """What to do about a name that is not known, if the record says which plug-in it came from."""
    try:
        plugins = [Plugin(**plugin) for plugin in record.get("plugins", ())]
    except (TypeError, ValueError):
        return {}
    found = [plugin.remedy for plugin in plugins if (plugin.kind, plugin.name) == (kind, name)]
    return {(kind, name): found[0]} if found else {}


def same_data(records: Iterable[Record]) -> tuple[list[Record], list[str]]:
    """The records that agree on the data of their benchmark with most others, and a sentence about each other one."""
    records = list(records)
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        for what, digest in _digests(record):
            votes[what][digest] += 1
    kept, problems = [], []
    for record in records:
        strange = [what for what, digest in _digests(record) if votes[what].most_common(1)[0][0] != digest]
        if strange:
            problems.append(
                f"{record['suite']}.jsonl: cell {record['cell']} ({record['command']}) was run on other data of "
                f"{record['benchmark']} than most; it is left out"
            )
        else:
            kept.append(record)
    return kept, problems


def unused(suite: Suite, request: Request, records: Sequence[Record]) -> list[str]:
    """A sentence about the records of a suite that none of its budgets asks for."""
    asked = {c.setting for name in suite.all_budgets for c in expand(suite, replace(request, budget=name))}
    extra = [record for record in records if record["suite"] == suite.name and record["setting"] not in asked]
    if not extra:
        return []
    commands = "; ".join(record["command"] for record in extra[:SHOWN_COMMANDS])
    more = f"; and {len(extra) - SHOWN_COMMANDS} more" if len(extra) > SHOWN_COMMANDS else ""
    return [
        f"{suite.name}.jsonl: {len(extra)} records have settings that the suite does not ask for; "
        f"they are left out ({commands}{more})"
    ]


def failures_of(suite: Suite, folder: Path) -> tuple[list[Record], list[str]]:
    """Records of failed cells of a suite."""
    return RecordFile(folder / f"{suite.name}{FAILED}").read()


def _entry(records: Sequence[Record], wanted: int, error: str) -> SheetEntry:
    runs = sorted((r for r in records if r["kind"] == "run"), key=lambda r: int(r["seed"]))
    if runs:
        return SheetEntry("run", tuple(runs), wanted)
    refused = [record for record in records if record["kind"] == "refused"]
    if refused:
        return SheetEntry("refused", (), wanted, note=refused[0]["reason"])
    return SheetEntry("failed", (), wanted, note=error) if error else SheetEntry("missing", (), wanted)


def _digests(record: Record) -> list[tuple[str, str]]:
    """What must be equal among which records: the data of a benchmark, and its split under a budget."""
    if record["kind"] != "run":
        return []
    data = json.dumps([record["config"]["benchmark"], "data"], sort_keys=True)
    split = json.dumps([record["config"]["benchmark"], _shares(record["budget"])], sort_keys=True)
    return [(data, record["data_digest"]), (split, record["split_digest"])]


def _shares(budget: Mapping[str, object]) -> list[object]:
    return [budget["fraction"], budget["eval_fraction"]]


def _scores(record: Record, rule: str) -> Mapping[str, float | None]:
    """The scores under a rule; none where it could not choose, or where the record is older than the rule."""
    if rule == "last5":
        return record.get("last5") or {}
    chosen: Record = record["last"] if rule == "last" else record["selections"].get(rule, {})
    return dict(chosen.get("scores", {}))
