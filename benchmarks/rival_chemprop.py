"""chemprop with its defaults on the tables of `product.py`, for the same rows and parts.

    OMP_NUM_THREADS=1 MPHIL_DATA=... python benchmarks/rival_chemprop.py CHEMPROP --tables dev-hiv-scaffold --seeds 0

CHEMPROP is its command, in an environment of its own (`pip install 'chemprop==2.3.*' torch==2.13.0`). It trains 50
epochs on the training part, keeps the epoch with the least loss on both validation parts, and answers about the test
parts; molecules are those of `mphil train`, standardised and without duplicates.

Adds a line to benchmarks/results/chemprop.jsonl for each; `product.py --report` shows them beside ours.
"""

from __future__ import annotations

import csv
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any

import torch

import per_table
from mphil.benchmarks import Benchmark
from mphil.graphs.split import Part
from mphil.lab.records import RecordFile
from mphil.model.product import prepare
from mphil.provenance import NUMERICS, checkout, machine
from mphil.training.metrics import score
from per_table import missing
from product import ALL, TESTS, given_table

EPOCHS = 50
ROLE: dict[Part, str] = {"train": "train", "id_val": "val", "ood_val": "val"}


def write_rows(data: Benchmark, path: Path, parts: Sequence[Part], targets: Sequence[str]) -> None:
    """SMILES, labels and role of every row of some parts."""
    smiles = data.store.smiles
    assert smiles is not None
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", "split", *targets])
        for part in parts:
            for graph in data.split[part].tolist():
                labels = ["" if value != value else int(value) for value in data.store.y[graph].tolist()]
                writer.writerow([smiles[graph], ROLE.get(part, "test"), *labels])


def call(words: Sequence[str], log: Path) -> None:
    """Run a command; what it says is in a file."""
    with log.open("ab") as file:
        subprocess.run(words, stdout=file, stderr=file, check=True)


def train(command: str, table: str, seed: int, runs: Path) -> dict[str, Any]:
    """chemprop on a table: scores and time."""
    given = given_table(table, runs)
    targets = given["targets"]
    data = prepare({"benchmark": given, "seed": seed}).data
    home = runs / f"{table}-chemprop-s{seed}"
    home.mkdir(parents=True, exist_ok=True)
    write_rows(data, home / "train.csv", list(ROLE), targets)
    began, cpu = time.monotonic(), getrusage(RUSAGE_CHILDREN)
    # A test part of its own would be scored by chemprop; it is told of none, and is asked afterwards.
    words = [command, "train", "--data-path", str(home / "train.csv"), "--splits-column", "split"]
    words += ["--smiles-columns", "smiles", "--target-columns", *targets, "--task-type", "classification"]
    words += ["--epochs", str(EPOCHS), "--pytorch-seed", str(seed), "--accelerator", "cpu", "--num-workers", "0"]
    call([*words, "--output-dir", str(home / "model")], home / "log")
    scores: dict[str, float | None] = {}
    for part in TESTS:
        write_rows(data, home / f"{part}.csv", [part], targets)
        asked = [command, "predict", "--test-path", str(home / f"{part}.csv"), "--smiles-columns", "smiles"]
        asked += ["--model-paths", str(home / "model"), "--preds-path", str(home / f"{part}-answers.csv")]
        call([*asked, "--accelerator", "cpu", "--num-workers", "0"], home / "log")
        with (home / f"{part}-answers.csv").open() as file:
            answers = [[float(row[target]) for target in targets] for row in csv.DictReader(file)]
        logits = torch.logit(torch.tensor(answers, dtype=torch.float64), eps=1e-12)
        scores[part] = score(logits, data.store.y[data.split[part]], data.task)
    used = getrusage(RUSAGE_CHILDREN)
    spent = used.ru_utime + used.ru_stime - cpu.ru_utime - cpu.ru_stime
    seconds = {"seconds": round(time.monotonic() - began, 1), "cpu_seconds": round(spent, 1)}
    return {"metric": data.task.metric, "scores": {"chemprop": scores}, **seconds}


def version(command: str) -> dict[str, str]:
    """Versions of chemprop and torch in its environment."""
    python = Path(command).with_name("python")
    code = "from importlib.metadata import version as v; print(v('chemprop'), v('torch'))"
    found = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True).stdout.split()
    return dict(zip(("chemprop", "torch"), found, strict=True))


def main(arguments: Sequence[str]) -> None:
    parser = per_table.parser(__doc__, "chemprop", list(ALL))
    parser.add_argument("command", help="chemprop's command, in its environment")
    options = parser.parse_args(arguments)
    code, versions = checkout(), version(options.command)
    for key in missing(options):
        table, seed = key["table"], key["seed"]
        words = ["python", "benchmarks/rival_chemprop.py", "chemprop", "--tables", table, "--seeds", str(seed)]
        found = train(options.command, table, seed, options.runs)
        record = {**key, "command": shlex.join(words), "numerics": NUMERICS, "epochs": EPOCHS, **found}
        RecordFile(options.out).append(record | {"versions": versions, "machine": machine(), **code}, once=False)
        print(f"{table}, seed {seed}: {record['scores']}; {record['seconds']:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
