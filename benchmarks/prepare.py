"""From a CSV of molecules to a store that is ready to train on: seconds the first time and from the cache, and memory.

    python benchmarks/prepare.py HIV.csv --out benchmarks/results/prepare.jsonl

Each case runs in a process of its own with an empty cache. Memory is the largest sum, over the process and its workers,
of what each occupies (PSS: a page shared by several is divided between them). Seconds mean something on an idle
machine only; `load` says how idle it was.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

CASE = """
import csv, json, sys, time
import torch
from mphil.tables.from_smiles import molecule_store
rows = list(csv.DictReader(open(sys.argv[1])))[: int(sys.argv[2])]
smiles, y = [row["smiles"] for row in rows], [float(row["HIV_active"]) for row in rows]
print("ready", flush=True)
started = time.monotonic()
store, _ = molecule_store(smiles, y, lenient=True, progress=False)
print(json.dumps({"seconds": time.monotonic() - started, "graphs": len(store)}), flush=True)
"""


def tree(root: int) -> list[int]:
    """A process and all its descendants."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = [root]
    for process in found:
        found += [child for child, parent in parents.items() if parent == process]
    return found


def megabytes(process: int) -> float:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def case(table: Path, rows: int, cache: str) -> dict[str, Any]:
    """One preparation: its seconds, and what it occupied before and at its peak."""
    environment = os.environ | {"MPHIL_CACHE": cache, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", CASE, str(table), str(rows)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        before = peak = megabytes(process.pid)
        while process.poll() is None:
            peak = max(peak, sum(map(megabytes, tree(process.pid))))
            time.sleep(0.2)
        measured: dict[str, Any] = json.loads(process.stdout.readline())
    return measured | {"megabytes_before": round(before), "megabytes_peak": round(peak)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path, help="HIV.csv of MoleculeNet")
    parser.add_argument("--out", type=Path, help="append the record to this file")
    options = parser.parse_args()
    with options.table.open() as file:
        total = sum(1 for _ in csv.DictReader(file))
    record: dict[str, Any] = {
        "command": f"python benchmarks/prepare.py {options.table.name}",
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": os.getloadavg()[0],
        "first": {},
        "cached": {},
    }
    for rows in (total // 4, total // 2, total):
        with tempfile.TemporaryDirectory() as cache:
            record["first"][rows] = case(options.table, rows, cache)
            record["cached"][rows] = case(options.table, rows, cache)
    print(json.dumps(record, indent=1))
    if options.out:
        with options.out.open("a") as file:
            file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
