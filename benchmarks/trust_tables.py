"""The tables of docs/explanation/trust.md, from the records of benchmarks/trust.py."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from statistics import mean, stdev
from typing import Any

BEGIN = "<!-- tables: written by python benchmarks/trust.py --write docs/explanation/trust.md -->\n"
END = "\n<!-- end of tables -->"
NOTHING = "No records of the present numerics yet."

Record = dict[str, Any]
Runs = list[Record]
Groups = dict[tuple[str, str], Runs]
"""Runs by name and budget."""


def written(document: str, records: Iterable[Record]) -> str:
    """The document with its tables written anew."""
    before, rest = document.split(BEGIN)
    return before + BEGIN + tables(records) + END + rest.split(END)[1]


def tables(records: Iterable[Record]) -> str:
    """All tables; runs that differ only in their seed share a line."""
    groups: Groups = defaultdict(list)
    for record in records:
        if not record["changes"]:
            name, budget = f"{record['benchmark']}, {record['method']}", json.dumps(record["budget"])
            groups[name, budget].append(record)
    if not groups:
        return NOTHING
    return "\n\n".join([distance(groups), flagged(groups), calibration(groups), coverage(groups), sources(groups)])


def spread(values: Iterable[float]) -> str:
    """Mean in per cent and, with several seeds, standard deviation."""
    known = [100 * value for value in values]
    return f"{mean(known):.1f} ({stdev(known):.1f})" if len(known) > 1 else f"{known[0]:.1f}"


def _row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def _table(title: str, header: list[str], lines: Iterable[list[str]]) -> str:
    return "\n".join([f"{title}\n", _row(*header), _row(*["---"] * len(header)), *(_row(*line) for line in lines)])


def _by_score(groups: Groups, cell: Callable[[Runs, str], str]) -> list[list[str]]:
    """A line for each group, a column for each score of distance; a dash where the score does not exist."""
    lines = []
    for (name, _), runs in groups.items():
        cells = (cell(runs, score) if score in runs[0]["distance"] else "-" for score in _scores(groups))
        lines.append([name, *cells])
    return lines


def _scores(groups: Groups) -> list[str]:
    return list(dict.fromkeys(score for runs in groups.values() for run in runs for score in run["distance"]))


def distance(groups: Groups) -> str:
    title = "AUROC (per cent) of telling `ood_test` from `id_test`; 50 is a coin:"
    lines = _by_score(groups, lambda runs, score: spread(run["distance"][score]["auroc"] for run in runs))
    return _table(title, ["", *_scores(groups)], lines)


def flagged(groups: Groups) -> str:
    def cell(runs: Runs, score: str) -> str:
        shares = (
            mean(1 - run["distance"][score]["verdicts"][part]["in domain"] for run in runs)
            for part in ("id_test", "ood_test")
        )
        return " / ".join(f"{100 * share:.0f}" for share in shares)

    title = "Graphs called borderline or worse (per cent), `id_test` / `ood_test`; at most 5 are promised on the left:"
    return _table(title, ["", *_scores(groups)], _by_score(groups, cell))


def calibration(groups: Groups) -> str:
    lines = []
    for (name, _), runs in groups.items():
        for how in ("none", "temperature", "isotonic"):
            line = [name, how]
            for key in ("accuracy", "error", "log_loss"):
                for part in ("id_test", "ood_test"):
                    values = [run["calibration"][how][part][key] for run in runs]
                    line.append(f"{mean(values):.3f}" if key == "log_loss" else spread(values))
            lines.append(line)
    columns = (f"{what}, {part}" for what in ("accuracy", "calibration error", "log loss") for part in ("ID", "OOD"))
    return _table("Calibration learned on `id_val` (per cent, but for the loss):", ["", "calibration", *columns], lines)


def coverage(groups: Groups) -> str:
    lines = []
    for (name, _), runs in groups.items():
        for kind in ("split", "class-conditional"):
            line = [name, kind]
            for part in ("id_test", "ood_test"):
                found = [run["conformal"][kind][part] for run in runs]
                worst = (min(share for share in one["by_class"] if share is not None) for one in found)
                size = f"{mean(one['size'] for one in found):.2f}"
                line += [spread(one["covered"] for one in found), spread(worst), size]
            lines.append(line)
    alpha = next(iter(groups.values()))[0]["conformal"]["split"]["alpha"]
    title = f"Prediction sets meant to hold the true class in {100 * (1 - alpha):g} per cent of cases:"
    columns = (
        f"{what}, {part}" for part in ("ID", "OOD") for what in ("coverage", "of the worst class", "classes in a set")
    )
    return _table(title, ["", "sets", *columns], lines)


def sources(groups: Groups) -> str:
    """Where the figures come from."""
    lines = ["Budgets, and the command of each line (seeds in brackets):\n"]
    for (name, _), runs in groups.items():
        budget, seeds = runs[0]["budget"], ", ".join(str(run["seed"]) for run in runs)
        shares = f"{budget['fraction']:g} of the training graphs, {budget['eval_fraction']:g} of the others"
        command = runs[0]["command"].rpartition(" --seeds ")[0]
        lines.append(f"- {name} [{seeds}]: {budget['epochs']} epochs, {shares}; `{command}`")
    return "\n".join(lines)
