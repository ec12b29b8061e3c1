"""What users wait for, against the goals: start-up, reading, predictions, training next to chemprop, a second core.

    OMP_NUM_THREADS=1 python benchmarks/waiting.py          # make bench does this, after speed.py
    MPHIL_CHEMPROP=ENVIRONMENT/bin/python OMP_NUM_THREADS=1 python benchmarks/waiting.py

`MPHIL_CHEMPROP` is the Python of an environment with `chemprop==2.3.*`; without it the rows about chemprop are skipped
by name. Amounts are processor seconds, which other programs on the machine make larger: compare them with those of
importing torch alone, in the same record. Ratios are medians over turns that follow on each other. The memory of a
million rows takes half an hour and is taken from the newest record of benchmarks/screening.py.

Adds one line to benchmarks/results/waiting.jsonl: command, machine, versions, every figure.
"""

from __future__ import annotations

import argparse
import csv
import functools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from rdkit import rdBase
from rdkit.Chem import MolFromSmiles
from rdkit.DataStructs import BulkTanimotoSimilarity, CreateFromBinaryText

import threads
from mphil.chem.describe import morgan_fingerprints
from mphil.config import EncoderConfig
from mphil.files import cores
from mphil.graphs.loader import Loader
from mphil.methods import build_method
from mphil.model.predictor import load
from mphil.model.product.defaults import ARGUMENTS
from mphil.model.screening import screen_file
from mphil.nn.fast import library
from mphil.nn.fast.chains import our_products, products_run
from mphil.nn.fast.compiling import compile_library, compiler, level
from mphil.nn.fast.loading import Loops, load_library
from mphil.training.metrics import predict_logits
from mphil.trust.neighbours import most_similar
from speed import Problem, Work, in_turns, machine, molecules, ratio, workers

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results" / "waiting.jsonl"
PEER = "MPHIL_CHEMPROP"
PEER_BATCH = 64
"""Graphs of a batch next to chemprop: its default."""
REFERENCES, QUERIES = 25_000, 200
TABLE = 1_000
"""Rows of the table that is trained on."""
NEEDED = "import torch, rdkit.Chem"
"""What no prediction can do without."""

Goal = tuple[str, float | None, float, float]
GOALS: dict[str, Goal] = {
    "predict 1 row, CPU s": ("<", 7.4, 4.0, 3.2),
    "train 1,000 rows, % imports and reading": ("<", 58, 30, 20),
    "predict, rows per CPU s": (">", 811, 1600, 2400),
    "predict with committee, rows per CPU s": (">", None, 800, 1200),
    "nearest of 25,000, ms a row": ("<", 1.05, 0.25, 0.1),
    "mphil+ training, of chemprop's": ("<", None, 1.0, 0.6),
    "mphil training, of chemprop's": ("<", 1.19, 1.0, 0.85),
    "one training on two cores, times": (">", 1.0, 1.6, 1.8),
    "mphil training on two cores, times": (">", 1.0, 1.6, 1.8),
    "a short run, 128 wide, on two cores, times": (">", 1.0, 1.6, 1.8),
    "predict 1,000,000 rows, MB above 10,000": ("<", 130, 130, 60),
    "packaged loops, training, times": (">", 0.5, 0.95, 1.0),
    "packaged loops, inference, times": (">", 0.37, 0.95, 1.0),
}
"""Which way is better; where it began; at least; hoped for."""

Row = dict[str, Any]


def skipped(reason: str) -> Row:
    return {"skipped": reason}


# ---- the tool --------------------------------------------------------------------------------------------------------


def write(path: Path, smiles: Sequence[str], labels: Sequence[int] | None = None) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", *([] if labels is None else ["active"])])
        writer.writerows(zip(smiles, *([] if labels is None else [labels]), strict=True))


def seconds_of(command: Sequence[str]) -> float:
    """Processor seconds of a command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def start_up(bundle: Path, smiles: str, folder: Path, repeats: int) -> Row:
    """CPU seconds of `mphil predict` for one row, beside those of importing torch and RDKit alone."""
    write(folder / "row.csv", [smiles])
    predict = [sys.executable, "-m", "mphil", "predict", str(bundle), str(folder / "row.csv")]
    predict += ["--out", str(folder / "answer.csv")]
    turns = [(seconds_of([sys.executable, "-c", NEEDED]), seconds_of(predict)) for _ in range(repeats)]
    alone, all_of_it = (median(column) for column in zip(*turns, strict=True))
    return {"value": round(all_of_it, 2), "torch_and_rdkit": round(alone, 2)}


def train_share(table: Path, out: Path) -> Row:
    """The default `mphil train FILE` in a process of its own: how much of it is imports and reading."""
    command = [sys.executable, str(FOLDER / "train_clock.py"), str(table), "--target", "active", "--out", str(out)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    return {"value": round(100 * (found["imports"] + found["reading"]) / found["all"], 1), "seconds": found}


def throughput(bundle: Path, smiles: Sequence[str], folder: Path, repeats: int) -> Row:
    """Rows per CPU second from file to file, once everything is loaded."""
    predictor, table = load(bundle), folder / "rows.csv"
    write(table, smiles)
    write(folder / "warm.csv", smiles[:20])

    def screen(path: Path) -> None:
        screen_file(predictor, path, folder / "answers.csv", workers=0, progress=False)

    screen(folder / "warm.csv")
    (taken,) = in_turns(repeats, functools.partial(screen, table))
    return {"value": round(len(smiles) / median(taken))}


def nearest(smiles: Sequence[str], repeats: int) -> Row:
    """CPU milliseconds a row against 25,000 references: RDKit's own loop, and ours; both find the same."""
    generator = np.random.default_rng(0)
    known = morgan_fingerprints(map(MolFromSmiles, smiles))
    # Where there are fewer molecules than references, neighbours with a few other bits stand in.
    references = known[generator.integers(0, len(known), REFERENCES)]
    references = references ^ np.packbits(generator.random((REFERENCES, 8 * known.shape[1])) < 0.003, axis=1)
    queries = known[generator.permutation(len(known))[:QUERIES]]
    vectors = [[CreateFromBinaryText(row.tobytes()) for row in rows] for rows in (references, queries)]

    def plain() -> list[float]:
        return [max(BulkTanimotoSimilarity(query, vectors[0])) for query in vectors[1]]

    def ours() -> list[float]:
        similarity: list[float] = most_similar(queries, references)[1].tolist()
        return similarity

    assert np.allclose(plain(), ours())
    slow, fast = in_turns(repeats, plain, ours)
    return {"value": round(1000 * median(fast) / len(queries), 4), "rdkit_times": round(ratio(slow, fast), 1)}


# ---- training --------------------------------------------------------------------------------------------------------


@contextmanager
def chemprop(problem: Problem) -> Iterator[tuple[dict[str, str], Work]]:
    """Versions, and an epoch of chemprop in its own environment that gives its processor seconds."""
    command = [os.environ[PEER], str(FOLDER / "peer_chemprop.py")]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        answers, asked = process.stdout, process.stdin

        def ask(line: str) -> Any:
            asked.write(line + "\n")
            asked.flush()
            return json.loads(answers.readline())

        given = {"smiles": problem.store.smiles, "y": problem.store.y[:, 0].tolist(), "batch": PEER_BATCH}
        try:
            yield ask(json.dumps(given)), lambda: ask("an epoch")
        finally:
            process.kill()


def next_to_chemprop(problem: Problem, repeats: int) -> tuple[dict[str, str], dict[str, Row]]:
    """Our processor seconds for an epoch over chemprop's, on the same molecules in batches of the same size.

    MPHIL as in the paper and MPHIL+ at chemprop's width; MPHIL+ also as `mphil train FILE` has it, 128 wide.
    """
    cases = {"mphil": ("mphil", 300, {}), "mphil+": ("mphil+", 300, ARGUMENTS["mphil+"])}
    cases["mphil+, 128 wide"] = ("mphil+", 128, ARGUMENTS["mphil+"])
    works: list[Work] = []
    for name, width, given in cases.values():
        store = problem.store
        config = EncoderConfig(node=store.node_features, edge=store.edge_features, layers=3, width=width)
        part = Problem(problem.name, store, problem.task, layers=3, width=width)
        part.loader = Loader(store, torch.arange(len(store)), PEER_BATCH)
        torch.manual_seed(0)
        method = build_method(name, problem.task, config, dict(given))
        optimizer = torch.optim.Adam(method.parameters(), lr=1e-3, fused=True)
        works.append(functools.partial(part.epochs, method, optimizer))
    theirs: list[float] = []
    taken: list[list[float]] = [[] for _ in works]
    with chemprop(problem) as (versions, epoch), workers(works, works) as pipes:
        for turn in range(repeats + 1):
            found = [float(epoch())]  # type: ignore[arg-type]
            for pipe in pipes:
                pipe.send(turn)
                found.append(pipe.recv())
            if turn:  # the first warms up
                theirs.append(found[0])
                for seconds, new in zip(taken, found[1:], strict=True):
                    seconds.append(new)
    rows = {}
    for name, seconds in zip(cases, taken, strict=True):
        each = [round(1000 * median(side) / len(problem.store), 3) for side in (seconds, theirs)]
        rows[name] = {"value": round(ratio(seconds, theirs), 2), "ours": each[0], "chemprop": each[1]}
    return versions, rows


def train_on_two_cores(table: Path, folder: Path) -> Row:
    """Seconds on the clock of the default `mphil train FILE` with one core over those with two."""
    if cores() < 2:
        return skipped("there is one core")
    seconds = []
    for number in ("1", "2"):
        command = [sys.executable, "-m", "mphil", "train", str(table), "--target", "active"]
        began = time.perf_counter()
        subprocess.run(
            [*command, "--out", str(folder / f"cores-{number}")],
            env=os.environ | {"OMP_NUM_THREADS": number},
            check=True,
            capture_output=True,
        )
        seconds.append(round(time.perf_counter() - began, 1))
    return {"value": round(seconds[0] / seconds[1], 2), "seconds": seconds, "load": os.getloadavg()[0]}


def two_cores(measure: Callable[[], dict[str, Any]]) -> Row:
    """Seconds on the clock of a training with one thread over those with two."""
    if not our_products():
        return skipped(f"{products_run()}; its rounding depends on its threads")
    found = measure()
    return {"value": found["times"], "at_most": found["at most"], "load": os.getloadavg()[0]}


def packaged(problem: Problem, repeats: int) -> tuple[Row, Row]:
    """Times as fast with the loops that a wheel holds for this processor as with those compiled for it alone."""
    using, architecture = compiler(), level()
    if using is None or architecture is None:
        reason = "there is no C compiler" if using is None else "packages hold loops for x86-64 alone"
        return skipped(reason), skipped(reason)
    with tempfile.TemporaryDirectory() as folder:
        built = compile_library(using, "float", Path(folder) / "kernels.so", architecture)
        loaded = load_library(built)
        assert loaded is not None
        other = library.Status(Loops(loaded, "float"), str(built), architecture)
    native = library.status()
    train, loader = problem.training("mphil")[1], Loader(problem.store, torch.arange(len(problem.store)), 1024)
    infer = functools.partial(predict_logits, problem.method("mphil"), loader)

    def by(status: library.Status, work: Work) -> Work:
        def call() -> None:
            library.status = lambda precision="float": status  # type: ignore[assignment]
            work()

        return call

    rows = []
    for work in (train, infer):
        here, there = by(native, work), by(other, work)
        rows.append({"value": round(ratio(*in_turns(repeats, here, there, keeping=[here, there])), 2)})
    return rows[0] | {"for": architecture}, rows[1] | {"for": architecture}


def memory() -> Row:
    """Of a million rows, from the newest record."""
    record = json.loads((FOLDER / "results" / "screening.jsonl").read_text().splitlines()[-1])
    return {"value": record["megabytes_more"], "from": "screening.jsonl"}


# ---- the table -------------------------------------------------------------------------------------------------------


def measure(quick: bool) -> dict[str, Any]:
    """Everything; a row is printed as soon as it is known."""
    turns, many = 2 if quick else 4, molecules(2048)
    some, smiles = many.first(256 if quick else 512), list(many.store.smiles or [])
    rows: dict[str, Row] = {}
    versions: dict[str, str] = {}

    def tell(name: str, row: Row) -> None:
        rows[name] = row
        print(line(name, row), flush=True)

    print(f"{'':42}{'began':>8}{'at least':>10}{'hoped':>8}{'now':>9}")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        labels = [int(value > 0) for value in many.store.y[:TABLE, 0].tolist()]
        write(folder / "table.csv", smiles[:TABLE], labels)
        tell("train 1,000 rows, % imports and reading", train_share(folder / "table.csv", folder / "run"))
        tell("train 1,000 rows on two cores, times", train_on_two_cores(folder / "table.csv", folder))
        bundle = folder / "run" / "bundle"
        tell("predict 1 row, CPU s", start_up(bundle, smiles[0], folder, turns))
        fast = [sys.executable, "-m", "mphil", "train", str(folder / "table.csv"), "--target", "active", "--fast"]
        seconds_of([*fast, "--no-baselines", "--set", "train.epochs=1", "--out", str(folder / "single")])
        for name, place_of in (("predict", folder / "single" / "bundle"), ("predict with committee", bundle)):
            tell(f"{name}, rows per CPU s", throughput(place_of, smiles[TABLE:], folder, turns - 1))
    tell("nearest of 25,000, ms a row", nearest(smiles, turns))
    if PEER in os.environ:
        versions, found = next_to_chemprop(some, turns + 1)
        for name, row in found.items():
            tell(f"{name} training, of chemprop's", row)
    else:
        for name in ("mphil", "mphil+"):
            tell(f"{name} training, of chemprop's", skipped(f"chemprop: {PEER} is not set"))
    for name, method in (("one training", "mphil+"), ("mphil training", "mphil")):
        tell(f"{name} on two cores, times", two_cores(functools.partial(threads.of_epochs, some, method)))
    short_run = functools.partial(threads.of_run, *threads.CASES[0])
    tell("a short run, 128 wide, on two cores, times", two_cores(short_run))
    tell("predict 1,000,000 rows, MB above 10,000", memory())
    training, inference = packaged(some, turns + 1)
    tell("packaged loops, training, times", training)
    tell("packaged loops, inference, times", inference)
    return {"data": {"molecules": many.name, "graphs": len(some.graphs)}, "peers": versions, "rows": rows}


def reached(name: str, row: Row) -> bool | None:
    """Whether a row is at least as good as it has to be; None without a goal or a figure."""
    if name not in GOALS or "value" not in row:
        return None
    better, _, least, _ = GOALS[name]
    return bool(row["value"] >= least if better == ">" else row["value"] <= least)


def line(name: str, row: Row) -> str:
    """A row of the table."""
    _, began, least, hoped = GOALS.get(name, ("", None, None, None))
    columns = ((began, 8), (least, 10), (hoped, 8))
    goals = "".join(f"{'-' if value is None else value:>{wide}}" for value, wide in columns)
    if "skipped" in row:
        return f"{name:42}{goals}{'':>4}skipped: {row['skipped']}"
    verdict = {True: "  reached", False: "  not reached", None: ""}[reached(name, row)]
    return f"{name:42}{goals}{row['value']:>9}{verdict}"


def main(arguments: Collection[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer graphs and turns; nothing is written")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rdBase.DisableLog("rdApp.*")
    began = time.perf_counter(), sum(os.times()[:4])
    found = {
        "command": "OMP_NUM_THREADS=1 python benchmarks/waiting.py",
        "machine": machine(),
        **measure(options.quick),
    }
    found |= {"seconds": round(time.perf_counter() - began[0]), "cpu_seconds": round(sum(os.times()[:4]) - began[1])}
    if not options.quick:
        with RESULTS.open("a") as file:
            file.write(json.dumps(found) + "\n")
    print(f"{found['seconds']} s on the clock, {found['cpu_seconds']} s of a processor")


if __name__ == "__main__":
    main()
