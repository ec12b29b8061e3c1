"""What train, predict, check and lab report take when there is ten and a hundred times as much as usual.

    OMP_NUM_THREADS=1 MPHIL_DATA=... python benchmarks/growth.py                      # what has no record yet, to 10x
    OMP_NUM_THREADS=1 MPHIL_DATA=... python benchmarks/growth.py --only check --most 1000000
    python benchmarks/growth.py --report                                              # a table of the records

Each case is the command in a process of its own on one processor, so that at most one other process reads molecules for
it. Tables hold molecules of MUV, HIV and ToxCast with tails of a few atoms, so that a million are different; tables of
every size are drawn from the same ones. A fiftieth of the rows says something else about a molecule than another row, a
few cannot be read. The model of predict is trained on a thousand rows. Records for a report are real ones in
the cells of the suites of the package, one suite after the other.

Processor seconds are those of the process and its workers. Memory is the largest sum of what they occupy at a time
(PSS, looked at a few times a second), or the peak of the largest of them, if that is more. Seconds on the clock mean
something on an idle machine only; `load` says how idle it was.

Adds a line to benchmarks/results/growth.jsonl for each case: command, machine, versions, commit, figures.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from complexity import exponent
from mphil.benchmarks.sources import find
from mphil.lab.cells import Cell, expand
from mphil.lab.records import Record, parse, render
from mphil.lab.suite import load_suite, suite_names
from mphil.lab.worker import identity
from mphil.provenance import check_committed, checkout, machine, versions
from mphil.tables.read import open_table
from prepare import megabytes, tree
from screening import TRAIN

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results" / "growth.jsonl"
MODEL_RECORDS = FOLDER / "results" / "drugood.jsonl"
"""Its first record is the model of those that are reported on."""
SIZES: Mapping[str, tuple[int, int, int]] = {
    "check": (10_000, 100_000, 1_000_000),
    "predict": (10_000, 100_000, 1_000_000),
    "train --fast": (1_000, 10_000, 100_000),
    "train --method forest": (1_000, 10_000, 100_000),
    "lab report": (20, 200, 2_000),
}
"""Rows, or records: as usual, ten times and a hundred times as many."""
COMMANDS: Mapping[str, str] = {
    "check": "mphil check table.csv --json",
    "predict": "mphil predict model/bundle table.csv --workers 0 --out answers.csv",
    "train --fast": "mphil train table.csv --target active --fast --out run",
    "train --method forest": "mphil train table.csv --target active --method forest --out run",
    "lab report": "mphil lab report --records records --out report",
}
MODEL = shlex.join(["mphil", "train", "table.csv", "--target", "active", *TRAIN, "--out", "model"])
"""Makes the model of predict."""
MODEL_ROWS = 1_000
SOURCES = ("muv", "hiv", "toxcast")
OPEN_END = re.compile(r"(?:(?<![=#])[NO]|C|c\d)$")
"""Ends of SMILES that another atom can be attached to."""
TAILS = tuple("C" * length + end for length in range(6) for end in ("", "O", "N", "CF", "CCl"))
REPEATED, UNREADABLE, ASSAY = 0.02, 0.002, 200
"""Shares of the rows that contradict another row and that cannot be read; rows of an assay."""
PAUSE = 0.2
"""Seconds between two looks at the memory."""


# ---- what the commands are given -------------------------------------------------------------------------------------


@cache
def stems() -> list[str]:
    """SMILES of the publishers' files that a tail can be attached to."""
    found = []
    for name in SOURCES:
        path = find(name)
        if path is None:
            sys.exit(f"{name} is missing; mphil benchmarks fetch {name}, or set MPHIL_DATA")
        found += [text for chunk in open_table(path).chunks(columns=["smiles"]) for text in chunk.columns["smiles"]]
    return [text for text in dict.fromkeys(found) if OPEN_END.search(text)]


def table(some: Sequence[str], rows: int) -> Iterator[list[str]]:
    """Header and rows of a table: different molecules by chance, but for a few rows that repeat or cannot be read.

    Args:
        some: SMILES that a tail can be attached to.
        rows: how many.
    """
    draw = random.Random(rows)
    molecules = iter(draw.sample(range(len(some) * len(TAILS)), rows))
    yield ["id", "smiles", "assay", "active"]
    last, label = "", 0
    for number in range(rows):
        chance, label = draw.random(), 1 - label
        if chance >= REPEATED or not last:
            stem, tail = divmod(next(molecules), len(TAILS))
            last, label = some[stem] + TAILS[tail], int(draw.random() < 0.3)
        written = "C(" if chance > 1 - UNREADABLE else last
        yield [f"M-{number}", written, f"assay {draw.randrange(max(5, rows // ASSAY))}", str(label)]


def cells() -> Iterator[Cell]:
    """The cells of the suites of the package under their usual budgets, one suite after the other."""
    for name in suite_names():
        suite = load_suite(name)
        if not suite.tuned:
            yield from expand(suite)


def records(model: Record, wanted: Iterable[Cell]) -> Iterator[Record]:
    """The model in every cell, each with scores of its own; a cell that two suites share has one record.

    Args:
        model: a record of a run.
        wanted: the cells.
    """
    seen = set()
    for cell in wanted:
        if cell.id in seen:
            continue
        seen.add(cell.id)
        draw = random.Random(cell.id)
        chosen = [*model["selections"].values(), model["last"]]
        scores = [{part: round(draw.uniform(0.5, 0.9), 4) for part in one["scores"]} for one in chosen]
        made = [one | {"scores": score} for one, score in zip(chosen, scores, strict=True)]
        config = model["config"] | {"benchmark": cell.settings["benchmark"]}
        yield {
            **model,
            **identity(cell, "run"),
            "selections": dict(zip(model["selections"], made, strict=False)),
            "last": made[-1],
            "config": config,
        }


def write_table(path: Path, rows: int) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(table(stems(), rows))


def write_records(folder: Path, number: int) -> None:
    """So many records, in a file for each suite."""
    model = parse(MODEL_RECORDS.read_bytes().splitlines()[0])
    folder.mkdir()
    for record in islice(records(model, cells()), number):
        with (folder / f"{record['suite']}.jsonl").open("ab") as file:
            file.write(render(record))


def prepare_case(what: str, size: int, folder: Path) -> None:
    """All that a command needs, in its folder."""
    if what == "lab report":
        write_records(folder / "records", size)
        return
    if what == "predict":
        write_table(folder / "table.csv", MODEL_ROWS)
        measure(MODEL, folder)
    write_table(folder / "table.csv", size)


# ---- what they take --------------------------------------------------------------------------------------------------


def measure(command: str, folder: Path) -> dict[str, float]:
    """Processor seconds, seconds and megabytes of a command and its workers, on one processor."""
    words = [sys.executable, "-m", *shlex.split(command)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MPHIL_CACHE": str(folder / "cache")}
    one = {max(os.sched_getaffinity(0))}
    began, peak = time.monotonic(), 0.0
    with (folder / "told.txt").open("w+") as told:
        process = subprocess.Popen(
            words,
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=told,
            preexec_fn=lambda: os.sched_setaffinity(0, one),
        )
        while True:
            peak = max(peak, sum(map(megabytes, tree(process.pid))))
            done, status, used = os.wait4(process.pid, os.WNOHANG)
            if done:
                break
            time.sleep(PAUSE)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            told.seek(0)
            sys.exit(f"{command} ended with {process.returncode}: {told.read()[-2000:]}")
    return {
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
        "seconds": round(time.monotonic() - began, 2),
        "megabytes": round(max(peak, used.ru_maxrss / 1024)),
    }


def case(what: str, size: int) -> dict[str, Any]:
    """The record of a case."""
    place = SIZES[what].index(size)
    with tempfile.TemporaryDirectory() as folder:
        prepare_case(what, size, Path(folder))
        load = round(os.getloadavg()[0], 1)
        found = measure(COMMANDS[what], Path(folder))
    return {
        "what": what,
        "size": size,
        "times": 10**place,
        **found,
        "runs": COMMANDS[what],
        "command": f"OMP_NUM_THREADS=1 python benchmarks/growth.py --only {shlex.quote(what)} --most {size}",
        "load": load,
        "machine": machine(),
        "versions": versions(),
        **checkout(),
    }


# ---- the table -------------------------------------------------------------------------------------------------------


def recorded(path: Path = RESULTS) -> dict[tuple[str, int], dict[str, Any]]:
    """(command, size) to its newest record."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {(record["what"], record["size"]): record for record in map(json.loads, lines)}


def beyond_start(sizes: Sequence[int], amounts: Sequence[float]) -> float | None:
    """The exponent p of a + b size^p, where sizes grow by one factor: what is there at any size does not count.

    Example:
        >>> beyond_start([1, 10, 100], [7.0, 7.9, 106.9])
        2.04
        >>> beyond_start([1, 10], [7.0, 7.9])
    """
    if len(sizes) < 3:
        return None
    first, second, third = amounts[-3:]
    if second <= first or third <= second:
        return None
    return exponent([sizes[-2], sizes[-1]], [second - first, third - second])


def lines(found: Mapping[tuple[str, int], Mapping[str, Any]]) -> Iterator[list[str]]:
    """Rows of the table: command, size, amounts, exponents of processor time and memory, those beyond the start."""
    for what, all_sizes in SIZES.items():
        sizes = [size for size in all_sizes if (what, size) in found]
        for place, size in enumerate(sizes):
            record, shown = found[what, size], []
            for key in ("cpu_seconds", "megabytes"):
                amounts = [float(found[what, one][key]) for one in sizes[: place + 1]]
                step = exponent(sizes[place - 1 : place + 1], amounts[-2:]) if place else None
                beyond = beyond_start(sizes[: place + 1], amounts)
                shown += ["" if value is None else f"{value:.2f}" for value in (step, beyond)]
            amounts_of = (f"{record[key]:,}" for key in ("size", "cpu_seconds", "seconds", "megabytes"))
            yield [what, *amounts_of, *shown, str(record["load"])]


HEADER = (
    "",
    *("size", "CPU s", "s", "MB"),
    *("exponent of CPU s", "beyond the start", "exponent of MB", "beyond the start"),
    "load",
)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(SIZES), choices=list(SIZES), metavar="COMMAND")
    parser.add_argument("--most", type=int, help="largest size; ten times the usual one when absent")
    parser.add_argument("--again", action="store_true", help="also what is recorded")
    parser.add_argument("--out", type=Path, default=RESULTS, help="file of records")
    parser.add_argument("--report", action="store_true", help="print a table of the records, run nothing")
    options = parser.parse_args(arguments)
    if not options.report:
        check_committed()
        known = {} if options.again else recorded(options.out)
        asked = [(what, size) for what in options.only for size in SIZES[what][: 2 if options.most is None else None]]
        for what, size in asked:
            if (what, size) in known or (options.most is not None and size > options.most):
                continue
            print(f"{what}, {size:,}: ", end="", flush=True)
            record = case(what, size)
            print(f"{record['cpu_seconds']:,} CPU s, {record['seconds']:,} s, {record['megabytes']:,} MB", flush=True)
            with options.out.open("a") as file:
                file.write(json.dumps(record) + "\n")
    for cells_of in (HEADER, *lines(recorded(options.out))):
        print(" | ".join(cells_of))


if __name__ == "__main__":
    main()
