"""What scripts share that train something on every table with every seed: their options, and what is recorded."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mphil.provenance import NUMERICS

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
SEEDS = (0, 1, 2)


def parser(about: str | None, name: str, tables: Sequence[str], runs: str = "") -> argparse.ArgumentParser:
    """The options of a script whose records are in results/NAME.jsonl, and its runs in runs/NAME or runs/RUNS."""
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--tables", nargs="+", default=list(tables), choices=list(tables), metavar="TABLE")
    made.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    made.add_argument("--out", type=Path, default=RESULTS / f"{name}.jsonl", help="file of records")
    made.add_argument("--runs", type=Path, default=ROOT / "runs" / (runs or name), help="folder of the runs")
    made.add_argument("--report", action="store_true", help="print a table of the records, run nothing")
    return made


def recorded(path: Path) -> list[dict[str, Any]]:
    """The records of a file, of the present numerics."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [record for record in map(json.loads, lines) if record.get("numerics") == NUMERICS]


def missing(options: argparse.Namespace, **facts: Any) -> Iterator[dict[str, Any]]:
    """Table, seed and further facts of every record that is asked for and not there, seed by seed."""
    for seed in options.seeds:
        for table in options.tables:
            key = {"table": table, **facts, "seed": seed}
            if not any(key.items() <= record.items() for record in recorded(options.out)):
                yield key
