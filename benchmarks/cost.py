"""Processor time of training every method, relative to ERM in the same run.

    OMP_NUM_THREADS=1 python benchmarks/cost.py

An epoch is what the trainer does with the training graphs: `begin_epoch`, then every step with backward pass, clipping
and Adam. Earlier stages count with their share of the epochs. What is done once in a run (`prepare`, `end_stage`) and
evaluation are left out. Memory is kept from step to step, as in training. ERM takes a turn after every epoch of a
method, so that both see the same load.

Writes src/mphil/methods/cost.json, which `mphil methods` shows, and adds a line to benchmarks/results/cost.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils import clip_grad_norm_

import mphil.methods
from mphil.benchmarks import Benchmark, benchmark
from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.loader import Loader
from mphil.graphs.store import Batch
from mphil.methods import METHODS, Method, Parts, Progress, build_method
from mphil.training.process import kept_memory
from mphil.training.trainable import check_needs

ROOT = Path(__file__).parents[1]
COSTS = Path(mphil.methods.__file__).with_name("cost.json")
KINDS = {"motif": "good-motif-basis", "molecules": "decoy-scaffold"}
TURNS = 8
"""Epochs that are timed; some methods do different things in four epochs that follow each other."""


class Course:
    """A method in training on a few batches, stage by stage, epoch by epoch."""

    def __init__(self, name: str, data: Benchmark, batches: list[Batch]) -> None:
        torch.manual_seed(0)
        encoder = EncoderConfig(node=data.store.node_features, edge=data.store.edge_features, **data.encoder)
        self.method: Method = build_method(name, data.task, encoder, {}).train()
        self.batches, self.parts = batches, Parts(batches, batches[:1])
        rates = self.method.learning_rates()
        self.optimizers = {
            group: torch.optim.Adam(parameters, lr=1e-3 * rates.get(group, 1.0), fused=True)
            for group, parameters in self.method.param_groups().items()
        }
        self.method.prepare(self.parts)

    def epoch(self, number: int, stage: str = "main") -> float:
        """Train for an epoch; returns its processor seconds."""
        n, epochs = len(self.batches), TURNS + 1
        torch.manual_seed(number)
        started = time.process_time()
        for step, batch in enumerate(self.batches):
            progress = Progress(number * n + step, number, epochs * n, epochs, stage)
            if step == 0:
                self.method.begin_epoch(self.parts, progress)
            for group, losses in self.method.steps(batch, progress):
                optimizer = self.optimizers[group]
                optimizer.zero_grad(set_to_none=True)
                losses.total.backward()  # type: ignore[no-untyped-call]
                clip_grad_norm_(optimizer.param_groups[0]["params"], 5.0)
                optimizer.step()
        return time.process_time() - started

    def end(self, stage: str) -> None:
        done = len(self.batches) * TURNS
        self.method.end_stage(self.parts, Progress(done, TURNS, done, TURNS, stage))


def relative_cost(course: Course, erm: Course) -> tuple[float, float]:
    """Seconds of a method for an epoch, earlier stages included, and how many times as much as ERM's that is."""
    total = reference = 0.0
    stages = {**course.method.stages(), "main": 1.0}
    for stage, share in stages.items():
        course.epoch(0, stage)  # the first pays for memory
        own = other = 0.0
        for number in range(1, TURNS + 1):
            own += course.epoch(number, stage)
            other += erm.epoch(number)
        total += share * own / other
        reference += other / TURNS / len(stages)
        if stage != "main":
            course.end(stage)
    return total * reference, total


def measure(name: str, data: Benchmark, batches: list[Batch]) -> dict[str, float] | None:
    """Seconds per 1,000 graphs and the ratio to ERM; None where the method refuses the data."""
    try:
        check_needs(METHODS[name], data)
        course = Course(name, data, batches)
    except UsageError:
        return None
    seconds, ratio = relative_cost(course, Course("erm", data, batches))
    graphs = sum(len(batch.y) for batch in batches)
    return {"seconds_per_1000_graphs": round(1000 * seconds / graphs, 3), "times_erm": round(ratio, 2)}


def first_batches(data: Benchmark, size: int, number: int) -> list[Batch]:
    return list(Loader(data.store, data.split.train[: size * number], size))


def all_costs(names: list[str], size: int, number: int, say: Callable[[str], None]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {name: {} for name in names}
    for kind, source in KINDS.items():
        data = benchmark(source, graphs=max(1000, 3 * size * number))
        batches = first_batches(data, size, number)
        for name in names:
            cost = measure(name, data, batches)
            if cost is not None:
                found[name][kind] = cost
                say(f"{name} on {kind}: {cost}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", help="all methods when left out; others keep what was measured before")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--batches", type=int, default=2, help="in an epoch")
    options = parser.parse_args()
    torch.set_num_threads(1)
    names = options.methods or list(METHODS)
    started = time.monotonic()
    with kept_memory():
        found = all_costs(names, options.batch_size, options.batches, lambda line: print(line, flush=True))
    known = json.loads(COSTS.read_text()) if COSTS.exists() and options.methods else {}
    known |= {name: {kind: cost["times_erm"] for kind, cost in kinds.items()} for name, kinds in found.items()}
    known["erm"] = dict.fromkeys(KINDS, 1.0)  # measured against itself, it only shows the noise, which the record keeps
    COSTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    record = {
        "command": " ".join(["python", "benchmarks/cost.py", *sys.argv[1:]]),
        "costs": found,
        "batch_size": options.batch_size,
        "batches": options.batches,
        "turns": TURNS,
        "seconds": round(time.monotonic() - started, 1),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, 1 thread",
        "load": round(os.getloadavg()[0], 1),
    }
    with (ROOT / "benchmarks" / "results" / "cost.jsonl").open("a") as file:
        file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
