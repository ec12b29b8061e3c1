"""How faithful are the explanations? Fidelity and agreement with the truth, beside gradients and chance.

    OMP_NUM_THREADS=1 python benchmarks/faithfulness.py
    OMP_NUM_THREADS=1 python benchmarks/faithfulness.py --methods dir ciga-v2 --seeds 0

Trains each method with a stated, small budget on the two benchmarks that know which nodes decide, takes the epoch with
the best OOD validation score, and scores the nodes of held-out graphs in every way the method has (its own importance,
for MPHIL also its gradient-weighted contribution) and by two baselines: gradient times input, and uniform draws.
Measured on ID test and OOD test: ROC-AUC against the nodes that truly decide, fidelity+ and fidelity- (see
`mphil.explain.faithfulness`) at five sparsities. A method that predicts badly may be faithful to its own mistakes and
far from the truth: the scores stand in the record too.

Adds a line to benchmarks/results/faithfulness.jsonl for each benchmark, method and seed; those that are there are
skipped, and a training that was cut goes on in runs/faithfulness.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

from mphil.benchmarks import benchmark
from mphil.errors import UsageError
from mphil.explain.atoms import ways
from mphil.explain.faithfulness import SPARSITIES, measure
from mphil.graphs.split import Part
from mphil.provenance import NUMERICS, machine, versions
from mphil.training.run import execute, load_run
from mphil.training.settings import resolve

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "faithfulness.jsonl"
BUDGETS = {"decoy-scaffold": (5_000, 15), "good-motif-basis": (6_000, 20)}
"""Benchmark to its graphs in all parts, and epochs."""

PARTS: tuple[Part, ...] = ("id_test", "ood_test")
SELECTION = "ood_val"
MEASURED = 500
"""Graphs of a part that are measured: the first ones."""

IDENTITY = ("benchmark", "method", "seed", "graphs", "epochs", "measured", "encoder", "numerics")
"""What makes two records the same."""

Job = dict[str, Any]


def finished(path: Path) -> set[str]:
    """The jobs that have a record; a line torn by a crash is none."""
    done = set()
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            done.add(identity(json.loads(line)))
        except (ValueError, KeyError):
            continue
    return done


def identity(job: Job) -> str:
    return json.dumps([job[key] for key in IDENTITY])


def run(job: Job, folder: Path) -> Job:
    """Train, choose, measure: the record without its command."""
    started = time.monotonic()
    data = benchmark(job["benchmark"], graphs=job["graphs"])
    wanted = {"method": {"name": job["method"]}, "train": {"epochs": job["epochs"]}, "seed": job["seed"]}
    config, _ = resolve({**wanted, "encoder": job["encoder"]}, data)
    result = execute(config, data, folder, resume=True).result
    _, data, method = load_run(folder, SELECTION)
    found: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
    refused = {}
    for by in ways(method):
        try:
            for part in PARTS:
                graphs = data.split[part][: job["measured"]]
                found[part][by] = measure(method, data.store, graphs, by, seed=job["seed"]).as_dict()
        except UsageError as error:
            refused[by] = str(error)
    return {
        **job,
        "selection": SELECTION,
        "epoch": result["selections"][SELECTION]["epoch"],
        "metric": result["metric"],
        "scores": result["selections"][SELECTION]["scores"],
        "sparsities": list(SPARSITIES),
        "faithfulness": found,
        "refused": refused,
        "fingerprint": result["fingerprint"],
        "seconds": round(time.monotonic() - started, 1),
        "versions": versions(),
        "machine": machine() | {"load": round(os.getloadavg()[0], 1)},
    }


def append(path: Path, record: Job) -> None:
    """Add a line for good, after whatever a crash may have left of another."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torn = path.exists() and not path.read_bytes().endswith(b"\n") and path.stat().st_size > 0
    with path.open("a") as file:
        file.write(("\n" if torn else "") + json.dumps(record, allow_nan=False) + "\n")
        file.flush()
        os.fsync(file.fileno())


def shown(record: Job) -> str:
    """A line for the person who waits."""
    areas = {by: value["auc"] for by, value in record["faithfulness"]["ood_test"].items()}
    told = ", ".join(f"{by} {area:.3f}" for by, area in areas.items() if area is not None)
    return (
        f"{record['benchmark']}, {record['method']}, seed {record['seed']}: AUC on ood_test {told} "
        f"({record['seconds']:.0f} s)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=["erm", "mphil", "gsat"])
    parser.add_argument("--benchmarks", nargs="+", default=list(BUDGETS), choices=list(BUDGETS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--graphs", type=int, help="in all parts, in place of the stated budget")
    parser.add_argument("--epochs", type=int, help="in place of the stated budget")
    parser.add_argument("--measured", type=int, default=MEASURED, help="graphs of a part that are measured")
    parser.add_argument("--width", type=int, help="of the encoder, in place of the benchmark's")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "faithfulness")
    options = parser.parse_args()
    torch.set_num_threads(1)
    command = " ".join(["python", "benchmarks/faithfulness.py", *sys.argv[1:]])
    encoder = {"width": options.width} if options.width else {}
    for seed in options.seeds:
        for name in options.benchmarks:
            graphs, epochs = BUDGETS[name]
            for method in options.methods:
                job = {"benchmark": name, "method": method, "seed": seed, "encoder": encoder}
                job |= {"graphs": options.graphs or graphs, "epochs": options.epochs or epochs}
                job |= {"measured": options.measured, "numerics": NUMERICS}
                if identity(job) in finished(options.out):
                    continue
                folder = options.runs / "-".join(
                    [name, method, f"s{seed}", f"g{job['graphs']}", f"e{job['epochs']}", f"w{options.width or 0}"]
                )
                record = {"command": command, **run(job, folder)}
                append(options.out, record)
                print(shown(record), flush=True)


if __name__ == "__main__":
    main()
