"""Do conformal sets hold what they promise where the data shift? Plain and weighted sets on the development tables.

    OMP_NUM_THREADS=1 MPHIL_DATA=... python benchmarks/coverage.py                        # what has no record yet
    OMP_NUM_THREADS=1 MPHIL_DATA=... python benchmarks/coverage.py --tables dev-hiv-scaffold --seeds 0
    python benchmarks/coverage.py --report                                                # a table of the records

For each table and seed the network of the tool is trained with its recipe for tables; the epoch is chosen on ood_val,
so that id_val is free. Calibration and thresholds are learned on id_val. Then the share of true classes in their sets
is measured on id_test and ood_test, for sets as they are and for sets that are weighted by how much more frequent rows
like a held-out row are in the test part (`mphil.trust.shift`); the weights look at no label.

Adds a line to benchmarks/results/coverage.jsonl for each, with command, settings, seed, versions, machine and commit.
Runs are in runs/coverage; Ctrl-C loses nothing, the same command goes on.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import per_table
from mphil.benchmarks import Benchmark, benchmark
from mphil.benchmarks.development import TABLES
from mphil.config import SelectionRule
from mphil.graphs.loader import Loader
from mphil.graphs.split import Part
from mphil.lab.records import RecordFile
from mphil.model.bundle import Trust
from mphil.model.bundle.contents import HeldOut
from mphil.model.product.build import by_recipe
from mphil.model.product.defaults import ARGUMENTS, ENCODER, METHOD
from mphil.model.product.evaluation import ENOUGH, weighted_coverage
from mphil.model.product.runs import fingerprints_of
from mphil.provenance import checkout
from mphil.training.checkpoint import Checkpoints
from mphil.training.metrics import predict_logits
from mphil.training.run import Run, execute
from mphil.trust.calibration import Calibration
from mphil.trust.conformal import Conformal
from mphil.trust.neighbours import most_similar
from per_table import missing, recorded

ALPHAS = (0.1, 0.2)
SELECTION: SelectionRule = "ood_val"
HELD_OUT: Part = "id_val"
TESTS: tuple[Part, ...] = ("id_test", "ood_test")


def train(name: str, method: str, seed: int, runs: Path) -> Run:
    """A new run, or the rest of one that was cut, with the recipe for tables."""
    data = benchmark(name)
    wanted = {"encoder": ENCODER, "method": {"name": method, **ARGUMENTS.get(method, {})}, "seed": seed}
    config = by_recipe([wanted], data, SELECTION)
    return execute(config, data, runs / f"{name}-{method}-s{seed}", resume=True)


def measure(run: Run) -> dict[str, Any]:
    """Coverage of plain and weighted sets on the test parts, by the share that may be missed."""
    data = run.benchmark
    if run.folder is not None:
        run.method.load_state_dict(Checkpoints(run.folder / "checkpoint").load(f"best-{SELECTION}"))
    parts = (HELD_OUT, *TESTS)
    logits = {part: predict_logits(run.method, _batches(run, part)).double().numpy() for part in parts}
    labels = {part: data.store.y[data.split[part]].double().numpy() for part in parts}
    bits, far = _distances(data, parts)
    calibration = Calibration.fit(logits[HELD_OUT], labels[HELD_OUT], data.task)
    chances = {part: calibration.apply(logits[part]) for part in parts}
    y = labels[HELD_OUT]
    held = HeldOut(chances[HELD_OUT], y.astype(np.float32), far[HELD_OUT], bits[HELD_OUT])
    per_class = min(int((column == c).sum()) for column in y.T for c in range(data.task.n_classes)) >= ENOUGH
    found: dict[str, Any] = {"held_out": len(held), "per_class": per_class}
    for alpha in ALPHAS:
        conformal = Conformal.fit(chances[HELD_OUT], y, data.task, alpha=alpha, per_class=per_class)
        trust = Trust("tanimoto", HELD_OUT, calibration, conformal)
        found[f"{1 - alpha:g}"] = {
            part: {
                "plain": asdict(conformal.coverage(chances[part], labels[part])),
                "weighted": weighted_coverage(
                    held, trust, chances[part], labels[part], bits[part], far[part], data.task
                ),
            }
            for part in TESTS
        }
    return found


def _distances(
    data: Benchmark, parts: Sequence[Part]
) -> tuple[dict[Part, NDArray[np.uint8]], dict[Part, NDArray[np.float64]]]:
    """Fingerprints of the parts, and how far from training their molecules are."""
    fingerprints = fingerprints_of(data)
    assert fingerprints is not None
    train = fingerprints[data.split.train.numpy()]
    bits = {part: fingerprints[data.split[part].numpy()] for part in parts}
    return bits, {part: 1 - most_similar(rows, train)[1] for part, rows in bits.items()}


def _batches(run: Run, part: Part) -> Loader:
    return Loader(run.benchmark.store, run.benchmark.split[part], run.config.train.eval_batch_size)


def report(records: Sequence[dict[str, Any]]) -> str:
    """A line for each table: coverage of both kinds of sets on both tests, mean over seeds, in per cent; then means."""
    lines = ["| table | promised | seeds | ID plain | weighted | OOD plain | weighted | OOD size | weighted |"]
    lines.append("|---|" + "---|" * 8)
    promises = [f"{1 - alpha:g}" for alpha in ALPHAS]
    tables = sorted({record["table"] for record in records})
    found: dict[str, list[list[float]]] = {promise: [] for promise in promises}
    for table in tables:
        own = [record for record in records if record["table"] == table]
        for promise in promises:
            cells = [_mean(own, promise, part, kind, "covered") for part in TESTS for kind in ("plain", "weighted")]
            cells += [_mean(own, promise, "ood_test", kind, "size") for kind in ("plain", "weighted")]
            found[promise].append(cells)
            lines.append(f"| {table} | {promise} | {len(own)} | {_shown(cells)} |")
    for promise, rows in found.items():
        means = [mean(column) for column in zip(*rows, strict=True)]
        lines.append(f"| mean of {len(tables)} tables | {promise} | | {_shown(means)} |")
    return "\n".join(lines)


def _shown(cells: Sequence[float]) -> str:
    """Four coverages in per cent and two sizes."""
    return " | ".join([*(f"{100 * cell:.1f}" for cell in cells[:4]), *(f"{cell:.2f}" for cell in cells[4:])])


def _mean(records: Sequence[dict[str, Any]], promise: str, part: str, kind: str, what: str) -> float:
    return float(mean(record["coverage"][promise][part][kind][what] for record in records))


def main(arguments: Sequence[str]) -> None:
    parser = per_table.parser(__doc__, "coverage", list(TABLES))
    parser.add_argument("--method", default=METHOD, help="the network that is trained")
    options = parser.parse_args(arguments)
    if options.report:
        print(report(recorded(options.out)))
        return
    torch.set_num_threads(1)
    code = checkout()
    for key in missing(options, method=options.method):
        table, seed = key["table"], key["seed"]
        run = train(table, options.method, seed, options.runs)
        began = time.process_time()
        words = ["--tables", table, "--method", options.method, "--seeds", str(seed)]
        record = {
            **key,
            "command": shlex.join(["python", "benchmarks/coverage.py", *words]),
            "selection": SELECTION,
            **run.result,
            **code,
            "coverage": measure(run),
            "measuring_seconds": round(time.process_time() - began, 1),
        }
        RecordFile(options.out).append(record, once=False)
        print(f"{options.method} on {table}, seed {seed}: {run.result['seconds']:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
