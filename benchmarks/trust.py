"""Do the warnings warn? Scores of distance, calibration and prediction sets, where the data stay and where they shift.

    OMP_NUM_THREADS=1 MPHIL_DATA=... python benchmarks/trust.py             # what has no record yet
    OMP_NUM_THREADS=1 MPHIL_DATA=... python benchmarks/trust.py --benchmarks drugood-ec50-assay --seeds 0
    python benchmarks/trust.py --write docs/explanation/trust.md      # its tables, from the records

For each benchmark, method and seed a model is trained with the budget below; the epoch is chosen on ood_val, so that
id_val is free for everything that needs held-out graphs. Then:

- AUROC of telling ood_test from id_test by each score of distance, and what bands set on id_val say of both;
- accuracy, calibration error and log loss on both, before and after a calibration learned on id_val;
- coverage and size of prediction sets on both, with thresholds of the model's own probabilities on id_val.

Adds a line to benchmarks/results/trust.jsonl for each, with command, settings, seeds, versions and machine. Runs are in
runs/trust; Ctrl-C loses nothing, the same command goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mphil.benchmarks import Benchmark, benchmark
from mphil.errors import UsageError
from mphil.files import write_text
from mphil.graphs.loader import Loader
from mphil.graphs.split import Part
from mphil.lab.records import RecordFile
from mphil.lab.suite import Effort
from mphil.lab.worker import subset
from mphil.provenance import NUMERICS
from mphil.tables.pool import run as read_molecules
from mphil.training.metrics import gather, predict_logits, roc_auc
from mphil.training.run import Run, execute
from mphil.training.settings import merge, parse_assignment, resolve
from mphil.trust import ood
from mphil.trust.calibration import HOW, Calibration
from mphil.trust.conformal import Conformal
from mphil.trust.ood import VERDICTS, Bands, Gaussian
from mphil.trust.reliability import expected_calibration_error, log_loss, reliability
from mphil.trust.values import class_probabilities
from trust_tables import written

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "trust.jsonl"
BUDGETS = {
    "good-hiv-scaffold": Effort(epochs=10, fraction=0.5),
    "drugood-ec50-assay": Effort(epochs=20),
    "good-cmnist-color": Effort(epochs=10, fraction=0.25, eval_fraction=0.5),
}
"""What is spent on each: enough for a model that has learned something, little enough for an evening."""
METHODS = ("erm", "mphil")
SEEDS = (0, 1, 2)
SELECTION = "ood_val"
ALPHA = 0.1
NEIGHBOURS = 10
TESTS: tuple[Part, ...] = ("id_test", "ood_test")
HELD_OUT: Part = "id_val"

Floats = NDArray[np.float64]
Scores = dict[str, dict[Part, Floats]]


def measure(run: Run) -> dict[str, Any]:
    """Everything about a trained model: distance, calibration, sets."""
    data = run.benchmark
    logits = {part: predict_logits(run.method, _batches(run, part)).double().numpy() for part in (HELD_OUT, *TESTS)}
    labels = {part: data.store.y[data.split[part]].double().numpy() for part in logits}
    return {
        "distance": distances(scores(run, logits)),
        "calibration": calibrations(data, logits, labels),
        "conformal": sets(data, logits, labels),
    }


def scores(run: Run, logits: Mapping[Part, Floats]) -> Scores:
    """Every score of distance for the held-out part and the tests, but those that the data or the method lack."""
    data, parts = run.benchmark, list(logits)
    placed = {part: gather(run.method, _batches(run, part), run.method.embed).double().numpy() for part in parts}
    train = gather(run.method, _batches(run, "train"), run.method.embed).double().numpy()
    gaussian = Gaussian.fit(train, data.store.y[data.split.train].double().numpy(), data.task)
    found = {
        "max probability": {part: ood.max_probability(logits[part], data.task) for part in parts},
        "energy": {part: ood.energy(logits[part], data.task) for part in parts},
        "knn": {part: ood.knn(placed[part], train, NEIGHBOURS) for part in parts},
        "mahalanobis": {part: ood.mahalanobis(placed[part], gaussian) for part in parts},
    }
    try:
        own = {part: gather(run.method, _batches(run, part), run.method.ood_score) for part in parts}
        found["prototypes"] = {part: ood.prototypes(own[part]) for part in parts}
    except UsageError:  # the method has none
        pass
    if data.store.smiles is not None:
        train_part: Part = "train"
        bits = {part: fingerprints(data, part) for part in (train_part, *parts)}
        found["tanimoto"] = {part: ood.tanimoto(bits[part], bits["train"]) for part in parts}
    return found


def fingerprints(data: Benchmark, part: Part) -> NDArray[np.uint8]:
    smiles = data.store.smiles or ()
    rows = [smiles[graph] for graph in data.split[part].tolist()]
    wanted = {"wanted": ["fingerprint"], "lenient": True}
    packed: NDArray[np.uint8] = read_molecules(rows, wanted, workers=0).arrays["fingerprint"]
    return packed


def distances(found: Scores) -> dict[str, Any]:
    """AUROC of ood_test against id_test, and the share of each verdict in both, score by score."""
    report: dict[str, Any] = {}
    for name, by_part in found.items():
        inside, outside = (by_part[part] for part in TESTS)
        truth = np.repeat([0.0, 1.0], [len(inside), len(outside)])
        bands = Bands.fit(by_part[HELD_OUT])
        words = {part: Counter(bands.verdict(by_part[part]).tolist()) for part in TESTS}
        report[name] = {
            "auroc": roc_auc(np.concatenate([inside, outside]), truth),
            "verdicts": {part: {word: words[part][word] / len(by_part[part]) for word in VERDICTS} for part in TESTS},
        }
    return report


def calibrations(data: Benchmark, logits: Mapping[Part, Floats], labels: Mapping[Part, Floats]) -> dict[str, Any]:
    """How far probabilities can be taken at their word, before and after."""
    task = data.task
    report: dict[str, Any] = {}
    for how in HOW:
        if how == "platt" and task.kind == "multiclass":
            continue
        calibration = Calibration.fit(logits[HELD_OUT], labels[HELD_OUT], task, how)
        report[how] = {"temperatures": list(calibration.temperatures), "left": list(calibration.left)}
        for part in TESTS:
            chances, y = calibration.apply(logits[part]), labels[part]
            curve = reliability(chances, y, task)
            predicted = class_probabilities(chances, task.kind).argmax(-1)
            report[how][part] = {
                "accuracy": float((predicted == y)[~np.isnan(y)].mean()),
                "error": expected_calibration_error(chances, y, task),
                "log_loss": log_loss(chances, y, task),
                "reliability": {name: _plain(getattr(curve, name)) for name in ("count", "predicted", "observed")},
            }
    return report


def sets(data: Benchmark, logits: Mapping[Part, Floats], labels: Mapping[Part, Floats]) -> dict[str, Any]:
    """Coverage and size of prediction sets: promised on id_test, measured on ood_test."""
    own = Calibration.fit(logits[HELD_OUT], labels[HELD_OUT], data.task, "none")
    chances, report = {part: own.apply(logits[part]) for part in logits}, {}
    for name, per_class in (("split", False), ("class-conditional", True)):
        conformal = Conformal.fit(chances[HELD_OUT], labels[HELD_OUT], data.task, alpha=ALPHA, per_class=per_class)
        report[name] = {"alpha": ALPHA, "always": conformal.always.tolist()}
        report[name] |= {part: asdict(conformal.coverage(chances[part], labels[part])) for part in TESTS}
    return report


@dataclass(frozen=True)
class Cell:
    """One model to train and measure; `changes` are settings as `section.key=value`."""

    benchmark: str
    method: str
    seed: int
    budget: Effort
    changes: tuple[str, ...]

    @property
    def key(self) -> dict[str, Any]:
        """What its record is known by: the same key is not measured twice."""
        known = {"benchmark": self.benchmark, "method": self.method, "seed": self.seed, "changes": list(self.changes)}
        return known | {"budget": self.budget.model_dump(), "numerics": NUMERICS}

    @property
    def command(self) -> str:
        words = ["python", "benchmarks/trust.py", "--benchmarks", self.benchmark, "--methods", self.method]
        words += ["--seeds", str(self.seed), *(word for text in self.changes for word in ("--set", text))]
        return "OMP_NUM_THREADS=1 " + shlex.join(words)

    @property
    def folder(self) -> str:
        sha = hashlib.sha256(json.dumps(self.key, sort_keys=True).encode()).hexdigest()[:8]
        return f"{self.benchmark}-{self.method}-s{self.seed}-{sha}"

    def train(self, runs: Path) -> Run:
        """A new run, or the rest of one that was cut."""
        wanted = [{"train": {"epochs": self.budget.epochs}}, *map(parse_assignment, self.changes)]
        settings = merge([*wanted, {"benchmark": self.benchmark, "method": self.method, "seed": self.seed}])
        args = settings.pop("benchmark")
        data = subset(benchmark(args.pop("name"), **args), self.budget.fraction, self.budget.eval_fraction)
        config, data = resolve(settings, data)
        return execute(config, data, runs / self.folder, resume=True)

    def record(self, runs: Path) -> dict[str, Any]:
        """Train, measure, and tell how."""
        run = self.train(runs)
        began = time.process_time()
        found = measure(run)
        return {
            **self.key,
            "command": self.command,
            "selection": SELECTION,
            "epoch": run.result["selections"][SELECTION]["epoch"],
            "neighbours": NEIGHBOURS,
            **run.result,
            "measuring_seconds": round(time.process_time() - began, 1),
            "load": round(os.getloadavg()[0], 1),
            **found,
        }


def recorded(path: Path) -> list[dict[str, Any]]:
    """The records of a file; a line that its writer did not finish is none."""
    records = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            records.append(json.loads(line))
        except ValueError:
            print(f"{path.name}: a torn line is left out", file=sys.stderr)
    return records


def present(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the present numerics."""
    return [record for record in records if record.get("numerics") == NUMERICS]


def _plain(values: NDArray[np.float64]) -> list[float | None]:
    """For JSON, which has no NaN."""
    return [None if np.isnan(value) else round(float(value), 6) for value in values]


def _batches(run: Run, part: Part) -> Loader:
    return Loader(run.benchmark.store, run.benchmark.split[part], run.config.train.eval_batch_size)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmarks", nargs="+", default=list(BUDGETS), help="all of the above when left out")
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--set", action="append", default=[], help="a setting of all runs, as section.key=value")
    parser.add_argument("--out", type=Path, default=RESULTS, help="file of records")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "trust", help="folder of the runs")
    parser.add_argument("--write", type=Path, help="write the tables into this document instead of running anything")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    options = _options(arguments)
    if options.write:
        write_text(options.write, written(options.write.read_text(), present(recorded(options.out))))
        return
    torch.set_num_threads(1)
    cells = [
        Cell(name, method, seed, BUDGETS.get(name, Effort(epochs=10)), tuple(options.set))
        for seed in options.seeds
        for name in options.benchmarks
        for method in options.methods
    ]
    for number, cell in enumerate(cells, start=1):
        if any(cell.key.items() <= record.items() for record in recorded(options.out)):
            continue
        record = cell.record(options.runs)
        RecordFile(options.out).append(record, once=False)
        spent = record["seconds"] + record["measuring_seconds"]
        print(f"{number}/{len(cells)} {cell.method} on {cell.benchmark}, seed {cell.seed}: {spent:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
