"""Predictions for a long table: rows a second, and how much memory a million rows take more than ten thousand.

    python benchmarks/screening.py HIV.csv --out benchmarks/results/screening.jsonl

A small model is trained on a thousand of the molecules. Each case is `mphil predict` in a process of its own on a real
file, which repeats the molecules of HIV.csv in a new order. Memory is the largest sum, over the process and its
workers, of what each occupies (PSS: a page shared by several is divided between them). Seconds mean something on an
idle machine only; `load` says how idle it was.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from prepare import megabytes, tree

LIMIT = 300
"""Megabytes that the long table may take more than the short one."""

TRAIN = ["--method", "mphil", "--set", "train.epochs=2", "--fast", "--no-baselines"]


def write(path: Path, smiles: list[str], rows: int) -> None:
    draw = random.Random(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "smiles", "note"])
        writer.writerows([n, draw.choice(smiles), "a note, in words"] for n in range(rows))


def case(bundle: Path, table: Path, out: Path) -> dict[str, Any]:
    """One prediction: its summary, and what it occupied at its peak."""
    command = [sys.executable, "-m", "mphil", "predict", str(bundle), str(table), "--out", str(out), "--json"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    peak = 0.0
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            peak = max(peak, sum(map(megabytes, tree(process.pid))))
            time.sleep(0.2)
        assert process.stdout is not None
        found = json.loads(process.stdout.read())
    return {
        "rows": found["rows"],
        "answered": found["answered"],
        "seconds": round(found["seconds"], 2),
        "rows_per_second": round(found["rows"] / found["seconds"]),
        "megabytes_peak": round(peak),
        "megabytes_written": round(out.stat().st_size / 1e6),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path, help="HIV.csv of MoleculeNet")
    parser.add_argument("--rows", type=int, nargs=2, default=(10_000, 1_000_000), help="short and long table")
    parser.add_argument("--format", default="csv", choices=("csv", "csv.gz", "parquet"), help="of the answers")
    parser.add_argument("--out", type=Path, help="append the record to this file")
    options = parser.parse_args()
    with options.table.open() as file:
        rows = list(csv.DictReader(file))
    record: dict[str, Any] = {
        "command": f"python benchmarks/screening.py {options.table.name} --format {options.format}",
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": os.getloadavg()[0],
        "cases": [],
    }
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        some = random.Random(1).sample(rows, 1_000)
        with (folder / "train.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, some[0])
            writer.writeheader()
            writer.writerows(some)
        train = [sys.executable, "-m", "mphil", "train", str(folder / "train.csv"), "--target", "HIV_active", *TRAIN]
        subprocess.run([*train, "--out", str(folder / "model")], check=True, stdout=subprocess.DEVNULL)
        for count in options.rows:
            write(folder / "in.csv", [row["smiles"] for row in rows], count)
            answers = folder / f"out.{options.format}"
            record["cases"].append(case(folder / "model" / "bundle", folder / "in.csv", answers))
            print(json.dumps(record["cases"][-1]), flush=True)
    short, long = record["cases"]
    record["megabytes_more"] = long["megabytes_peak"] - short["megabytes_peak"]
    record["limit"] = LIMIT
    print(json.dumps(record, indent=1))
    if options.out:
        with options.out.open("a") as file:
            file.write(json.dumps(record) + "\n")
    if record["megabytes_more"] > LIMIT:
        sys.exit(f"{record['megabytes_more']} MB more than for the short table; {LIMIT} are allowed")


if __name__ == "__main__":
    main()
