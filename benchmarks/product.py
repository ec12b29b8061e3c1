"""What `mphil train FILE` gives by default, beside each of its models alone, on tables like users' own.

    OMP_NUM_THREADS=1 MPHIL_DATA=... python benchmarks/product.py                         # what has no record yet
    OMP_NUM_THREADS=1 MPHIL_DATA=... python benchmarks/product.py --tables dev-hiv-scaffold --seeds 0
    python benchmarks/product.py --report                                                 # a table of the records

Each table is written as a CSV file with its parts and trained by the same functions as by the command. Tables are the
development tables and four more (`fresh-*`) that no setting was chosen on. The committee and every model in it are
scored on id_test and ood_test, with the metric of the task; the seed is that of the networks and trees.

Adds a line to benchmarks/results/product.jsonl for each, with command, settings, seed, versions, machine and commit.
Trainings are in runs/product; Ctrl-C loses nothing, the same command goes on.
"""

from __future__ import annotations

import csv
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import torch

import per_table
from mphil.benchmarks import Benchmark
from mphil.benchmarks.development import TABLES, TableSpec, build
from mphil.graphs.split import PARTS
from mphil.lab.records import RecordFile
from mphil.model.product import prepare, train_product
from mphil.model.product.defaults import MEMBERS
from mphil.model.product.standing import COMMITTEE
from mphil.provenance import NUMERICS, checkout, machine, versions
from per_table import missing, recorded

TESTS = ("id_test", "ood_test")
FRESH: Mapping[str, TableSpec] = {
    "fresh-toxcast-ahr-scaffold": TableSpec("toxcast", 2_000, "scaffold", ("TOX21_AhR_LUC_Agonist",)),
    "fresh-toxcast-mmp-size": TableSpec("toxcast", 1_500, "size", ("TOX21_MMP_ratio_down",)),
    "fresh-hiv-random": TableSpec("hiv", 1_500, "random", positives=0.25),
    "fresh-ic50-random": TableSpec("ic50-partial", 1_500, "random", positives=0.6),
}
ALL = {**TABLES, **FRESH}


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


def train(table: str, seed: int, runs: Path) -> dict[str, Any]:
    """The default on a table: scores of all models, time, calibration error."""
    path = runs / f"{table}.csv"
    if not path.exists():
        write_table(build(ALL[table]), path)
    header = path.open().readline().strip().split(",")
    targets = [name for name in header if name.startswith("label_")]
    given = {"path": str(path), "smiles": "smiles", "targets": targets, "split": "predefined"}
    began, cpu = time.monotonic(), time.process_time()
    prepared = prepare({"benchmark": given, "seed": seed})
    product = train_product(prepared, runs / f"{table}-s{seed}", members=MEMBERS)
    summary, metrics = product.summary(), product.bundle.metrics
    return {
        "metric": summary["metric"],
        "scores": summary["scores"],
        "committee": summary["committee"],
        "trust": {part: metrics["trust"].get(part) for part in TESTS},
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
    }


def report(records: Sequence[dict[str, Any]]) -> str:
    """Scores of the committee and of its kinds of models, mean over seeds, in per cent; their mean below."""
    kinds = [COMMITTEE, *dict.fromkeys(name for record in records for name in record["scores"] if name != COMMITTEE)]
    lines = ["| table | seeds | part | " + " | ".join(kinds) + " |", "|---|---|---|" + "---|" * len(kinds)]
    columns: dict[tuple[str, str], list[float]] = {}
    for table in sorted({record["table"] for record in records}):
        own = [record for record in records if record["table"] == table]
        for part in TESTS:
            cells = []
            for kind in kinds:
                found = [record["scores"][kind][part] for record in own if kind in record["scores"]]
                known = [100 * score for score in found if score is not None]
                if known:
                    columns.setdefault((kind, part), []).append(mean(known))
                cells.append(f"{mean(known):.1f}" if known else "-")
            lines.append(f"| {table} | {len(own)} | {part} | {' | '.join(cells)} |")
    for part in TESTS:
        cells = [f"{mean(columns[kind, part]):.1f}" if (kind, part) in columns else "-" for kind in kinds]
        lines.append(f"| mean | | {part} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    options = per_table.parser(__doc__, "product", list(ALL)).parse_args(arguments)
    if options.report:
        print(report(recorded(options.out)))
        return
    torch.set_num_threads(1)
    code = checkout()
    for key in missing(options):
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
