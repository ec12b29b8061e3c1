"""What `mphil train FILE` gives by default, beside each of its models alone, on tables like users' own.

    OMP_NUM_THREADS=1 MPHIL_DATA=... python benchmarks/product.py                         # what has no record yet
    OMP_NUM_THREADS=1 MPHIL_DATA=... python benchmarks/product.py --tables dev-hiv-scaffold --seeds 0
    python benchmarks/product.py --report                                                 # a table of the records

Each table is written as a CSV file with its parts and trained by the same functions as by the command. Tables are the
development tables and five more (`fresh-*`) that no setting was chosen on; means and ranks leave out `SHARED`. The
committee and every model in it are scored on id_test and ood_test, with the metric of the task; the seed is that of
the networks and trees.

Adds a line to benchmarks/results/product.jsonl for each, with command, settings, seed, versions, machine and commit.
Trainings are in runs/product; Ctrl-C loses nothing, the same command goes on. A record that says `reused` found members
there that were trained before: its seconds are not those of a training.
"""

from __future__ import annotations

import csv
import hashlib
import itertools
import json
import re
import shlex
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch

import per_table
from mphil.benchmarks import Benchmark
from mphil.benchmarks.development import TABLES, TableSpec, build
from mphil.graphs.split import PARTS, Part
from mphil.lab.records import RecordFile
from mphil.model.committee.trees import TREES_FORMAT
from mphil.model.committee.weights import NETWORKS
from mphil.model.product import prepare, train_product
from mphil.model.product.defaults import ARGUMENTS, ENCODER, MEMBERS, train_defaults
from mphil.model.product.joining import COMMITTEE
from mphil.provenance import NUMERICS, checkout, machine, versions
from mphil.training.recipe import MOLECULES, start_digest
from mphil.trust.reliability import Reliability, root
from per_table import missing, recorded

TESTS: tuple[Part, ...] = ("id_test", "ood_test")
RIVAL = per_table.RESULTS / "chemprop.jsonl"
"""Records of `rival_chemprop.py`."""
FRESH: Mapping[str, TableSpec] = {
    "fresh-toxcast-aromatase-scaffold": TableSpec("toxcast", 4_000, "scaffold", ("TOX21_Aromatase_Inhibition",)),
    "fresh-toxcast-tr-size": TableSpec("toxcast", 3_000, "size", ("TOX21_TR_LUC_GH3_Antagonist",)),
    "fresh-toxcast-fxr-random": TableSpec("toxcast", 2_000, "random", ("TOX21_FXR_BLA_antagonist_ratio",)),
    "fresh-toxcast-4-scaffold": TableSpec(
        "toxcast", 2_000, "scaffold", ("ATG_AP_1_CIS_up", "ATG_MRE_CIS_up", "ATG_EGR_CIS_up", "ATG_DR4_LXR_CIS_dn")
    ),
    "fresh-muv-size": TableSpec("muv", 1_500, "size", positives=0.3),
}
ALL = {**TABLES, **FRESH}

CHOSEN_ON: Mapping[str, TableSpec] = {
    "toxcast-ahr-scaffold": TableSpec("toxcast", 2_000, "scaffold", ("TOX21_AhR_LUC_Agonist",)),
    "toxcast-mmp-size": TableSpec("toxcast", 1_500, "size", ("TOX21_MMP_ratio_down",)),
    "toxcast-pparg-scaffold": TableSpec("toxcast", 2_000, "scaffold", ("ATG_PPARg_TRANS_up",)),
    "toxcast-era-size": TableSpec("toxcast", 2_000, "size", ("TOX21_ERa_LUC_BG1_Agonist",)),
    "toxcast-are-random": TableSpec("toxcast", 1_500, "random", ("TOX21_ARE_BLA_agonist_ratio",)),
    "hiv-random": TableSpec("hiv", 1_500, "random", positives=0.25),
    "ic50-random": TableSpec("ic50-partial", 1_500, "random", positives=0.6),
}
"""Tables on whose test parts the committee was put together: its members, and what networks weigh before a label is
seen. That comparison has no record."""

SHARED = frozenset(
    (
        "dev-toxcast-8-scaffold",
        "dev-hiv-scaffold",
        "dev-hiv-size",
        "dev-ic50-scaffold",
        "dev-ic50-assay",
        "dev-ic50-size",
    )
)
"""Tables with labelled test rows that are in test parts of `CHOSEN_ON` too: they are shown, and count in no mean."""


def write_table(data: Benchmark, path: Path) -> None:
    """SMILES, labels and part of every row of a benchmark."""
    part_of = {int(graph): part for part in PARTS for graph in data.split[part]}
    smiles = data.store.smiles
    assert smiles is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", "part", *(f"label_{task}" for task in range(data.task.n_tasks))])
        for graph, part in sorted(part_of.items()):
            labels = ["" if value != value else int(value) for value in data.store.y[graph].tolist()]
            writer.writerow([smiles[graph], part, *labels])


def given_table(table: str, runs: Path) -> dict[str, Any]:
    """The settings that read a table, which is written first if it is not there."""
    path = runs / f"{table}.csv"
    if not path.exists():
        write_table(build(ALL[table]), path)
    with path.open() as file:
        header = file.readline().strip().split(",")
    targets = [name for name in header if name.startswith("label_")]
    return {"path": str(path), "smiles": "smiles", "targets": targets, "split": "predefined"}


def recipe() -> str:
    """Hash of the defaults: records of other ones are not of the tool as it is."""
    facts = [MEMBERS, "others with descriptors", NETWORKS, ARGUMENTS, ENCODER, train_defaults(1_000, start=MOLECULES)]
    facts += [start_digest(MOLECULES), TREES_FORMAT]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]


def present(path: Path = per_table.RESULTS / "product.jsonl") -> list[dict[str, Any]]:
    """The records of a file that the present defaults made."""
    return [record for record in recorded(path) if record.get("recipe") == recipe()]


def train(table: str, seed: int, runs: Path) -> dict[str, Any]:
    """The default on a table: scores of all models, time, calibration error."""
    given = given_table(table, runs)
    began, cpu = time.monotonic(), time.process_time()
    prepared = prepare({"benchmark": given, "seed": seed}, members=MEMBERS)
    folder = runs / recipe() / f"{table}-s{seed}"
    reused = folder.exists()
    product = train_product(prepared, folder, members=MEMBERS)
    summary, metrics = product.summary(), product.bundle.metrics
    return {
        "metric": summary["metric"],
        "scores": summary["scores"],
        "committee": summary["committee"],
        "trust": {part: metrics["trust"]["parts"].get(part) for part in TESTS},
        "calibration": product.bundle.trust.calibration.method,
        "reused": reused,
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
    }


def report(records: Sequence[dict[str, Any]], rivals: Sequence[dict[str, Any]] = ()) -> str:
    """Scores of the committee and of each of its models, mean over seeds, in per cent; their means and ranks below.

    Tables that are marked by a star are `SHARED`, and count in no mean and no rank. A rival is shown when it has a
    record for every table and seed of the records.
    """
    told = {(one["table"], one["seed"]): one["scores"] for one in rivals}
    whole = all((record["table"], record["seed"]) in told for record in records)
    others = told if whole else {}
    runs = [
        record | {"scores": _by_kind(record["scores"] | others.get((record["table"], record["seed"]), {}))}
        for record in records
    ]
    kinds = [COMMITTEE, *dict.fromkeys(name for run in runs for name in run["scores"] if name != COMMITTEE)]
    lines = ["| table | seeds | part | " + " | ".join(kinds) + " |", "|---|---|---|" + "---|" * len(kinds)]
    found: dict[str, list[list[float]]] = {part: [] for part in TESTS}
    for table in sorted({run["table"] for run in runs}):
        own = [run for run in runs if run["table"] == table]
        name = f"{table} \\*" if table in SHARED else table
        for part in TESTS:
            scores = [[run["scores"][kind][part] for run in own] for kind in kinds]
            if any(score is None for row in scores for score in row):
                lines.append(f"| {name} | {len(own)} | {part} | {' | '.join('-' for _ in kinds)} |")
                continue
            means = [100 * mean(row) for row in scores]
            if table not in SHARED:
                found[part].append(means)
            lines.append(f"| {name} | {len(own)} | {part} | {' | '.join(f'{one:.1f}' for one in means)} |")
    for tested, rows in found.items():
        if rows:
            means = [mean(column) for column in zip(*rows, strict=True)]
            ranks = [mean(column) for column in zip(*map(_ranks, rows), strict=True)]
            lines.append(f"| mean of {len(rows)} tables | | {tested} | {' | '.join(f'{one:.1f}' for one in means)} |")
            lines.append(f"| mean rank | | {tested} | {' | '.join(f'{one:.1f}' for one in ranks)} |")
    return "\n".join(lines)


def summary(told: str) -> str:
    """The means and ranks at the end of a report, under its header."""
    lines = told.splitlines()
    return "\n".join([*lines[:2], *(line for line in lines if line.startswith("| mean"))])


def calibration(records: Sequence[dict[str, Any]]) -> str:
    """Calibration error of the default, mean over tables and over all rows at once.

    In ten bins of ten rows even true probabilities seem wrong: the error of labels that are drawn from the predicted
    probabilities stands beside the mean, and the root of the mean square gap without what chance adds to it: of each
    table over its seeds, 0 where it is negative, and of all. Records that name no calibration are of a temperature.
    """
    lines = [
        "| calibration | part | records | rows | calibration error, mean of tables | if the probabilities were true | "
        "debiased, mean of tables | debiased, root mean square of tables | of all rows |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    draws = np.random.default_rng(0)
    methods = sorted({record.get("calibration", "temperature") for record in records}, reverse=True)
    for method, part in itertools.product(methods, TESTS):
        own = [record for record in records if record.get("calibration", "temperature") == method]
        known = [record for record in own if record["trust"][part]]
        bins = [_bins(record["trust"][part]["reliability"]) for record in known]
        count = np.array([one.count for one in bins])
        gaps = np.nan_to_num(np.array([one.observed - one.predicted for one in bins]))
        error = mean(one.error or 0.0 for one in bins)
        drawn = mean(_drawn(one, draws) for one in bins for _ in range(200))
        squares: dict[str, list[float]] = defaultdict(list)
        for record, one in zip(known, bins, strict=True):
            if one.squared_error is not None:
                squares[record["table"]].append(one.squared_error)
        debiased = mean(root(mean(of_table)) or 0.0 for of_table in squares.values())
        of_tables = root(mean(itertools.chain.from_iterable(squares.values())))
        of_all = abs((count * gaps).sum(0)).sum() / count.sum()
        told = f"{error:.3f} | {drawn:.3f} | {debiased:.3f} | {of_tables:.3f} | {of_all:.3f}"
        lines.append(f"| {method} | {part} | {len(bins)} | {count.sum():,.0f} | {told} |")
    return "\n".join(lines)


def _bins(found: Mapping[str, Any]) -> Reliability:
    """The bins of a record, NaN where one is empty."""
    return Reliability(*(np.array(found[key], np.float64) for key in ("count", "predicted", "observed")))


def _drawn(bins: Reliability, draws: np.random.Generator) -> float:
    """The calibration error of labels that are drawn from the mean probability of each bin."""
    hits = draws.binomial(bins.count.astype(int), np.nan_to_num(bins.predicted))
    return replace(bins, observed=hits / np.maximum(bins.count, 1)).error or 0.0


def _by_kind(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Scores under names that are the same for every seed: a second network of a method has the next one."""
    return {re.sub(r", seed \d+$", ", second", name): found for name, found in scores.items()}


def _ranks(scores: Sequence[float]) -> list[float]:
    """From 1, the best; equal scores share the mean of their ranks."""
    return [sum(other > one for other in scores) + (sum(other == one for other in scores) + 1) / 2 for one in scores]


def main(arguments: Sequence[str]) -> None:
    options = per_table.parser(__doc__, "product", list(ALL)).parse_args(arguments)
    if options.report:
        records = present(options.out)
        print(report(records, recorded(RIVAL)), calibration(records), sep="\n\n")
        return
    torch.set_num_threads(1)
    code = checkout()
    for key in missing(options, recipe=recipe()):
        table, seed = key["table"], key["seed"]
        words = ["--tables", table, "--seeds", str(seed)]
        record = {
            **key,
            "command": shlex.join(["python", "benchmarks/product.py", *words]),
            "numerics": NUMERICS,
            "members": MEMBERS,
            **train(table, seed, options.runs),
            "versions": versions(),
            "machine": machine(),
            **code,
        }
        RecordFile(options.out).append(record, once=False)
        known = {name: found["ood_test"] for name, found in record["scores"].items() if found["ood_test"] is not None}
        scores = ", ".join(f"{name} {100 * score:.1f}" for name, score in known.items())
        print(f"{table}, seed {seed}: OOD test {scores}; {record['seconds']:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
