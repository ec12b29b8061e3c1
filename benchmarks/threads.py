"""What a second core brings to one training.

    python benchmarks/threads.py

Trainings with one and with two threads take turns, and must end with the same weights: epochs of networks as wide as
chemprop's on molecules of HIV, in batches as in the paper; and short runs of smaller networks too, with beginning and
evaluations. A row has the share of processor time in the loops that threads share, with one thread; what two cores
could bring if these were divided evenly and nothing were lost; and the median ratio of wall times, which means
something only on a machine with two idle cores: the load is in the record. Adds a line to
benchmarks/results/threads.jsonl.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

import mphil
import speed
from mphil.benchmarks import Benchmark, benchmark
from mphil.model.bundle.folder import weights_digest
from mphil.nn.fast.chains import our_products
from mphil.nn.fast.library import kernels
from mphil.nn.fast.loading import Loops
from mphil.nn.threads import shared_loops
from mphil.training.process import kept_memory
from speed import Problem

RESULTS = Path(__file__).parent / "results" / "threads.jsonl"
CASES = (
    ("mphil+", "decoy-scaffold", 3, 128),
    ("erm", "decoy-scaffold", 3, 128),
    ("mphil", "decoy-scaffold", 3, 300),
    ("mphil", "good-motif-basis", 4, 128),
)
"""Method, benchmark, layers and width of the runs."""
LAYER = ("perceptron", "perceptron_backward", "chained_product")
SHARED = (*LAYER, "statistics", "normalise", "normalise_backward", "aggregate")
GRAPHS, BATCH, TURNS = 300, 32, 3
EPOCHS, EPOCH_TURNS = 2, 9


@contextmanager
def timed(library: Loops) -> Iterator[list[float]]:
    """Processor seconds of this thread in the loops that threads share, call by call."""
    seconds: list[float] = []
    loops = {name: getattr(library, name) for name in SHARED}

    def timing(loop: Any) -> Any:
        def call(**given: Any) -> Any:
            started = time.thread_time()
            try:
                return loop(**given)
            finally:
                seconds.append(time.thread_time() - started)

        return call

    for name, loop in loops.items():
        setattr(library, name, timing(loop))
    try:
        yield seconds
    finally:
        for name, loop in loops.items():
            setattr(library, name, loop)


def train(method: str, data: Benchmark, layers: int, width: int, threads: int) -> tuple[float, float, str]:
    """Wall and processor seconds of an epoch, and the digest of the weights."""
    wall, processor = time.perf_counter(), time.process_time()
    run = mphil.train(
        data,
        method,
        encoder={"layers": layers, "width": width},
        train={"epochs": 1, "batch_size": BATCH, "threads": threads, "scored": "validation"},
    )
    spent = time.perf_counter() - wall, time.process_time() - processor
    return *spent, weights_digest(run.method.state_dict())


def epochs(problem: Problem, method: str, threads: int) -> tuple[float, float, str]:
    """Wall and processor seconds of some epochs, and the digest of the weights after them."""
    trained = problem.method(method)
    optimizer = torch.optim.Adam(trained.parameters(), lr=1e-3, fused=True)
    torch.manual_seed(0)
    with kept_memory(), shared_loops(threads, torch.empty(0)):
        wall, processor = time.perf_counter(), time.process_time()
        problem.epochs(trained, optimizer, EPOCHS)
        spent = time.perf_counter() - wall, time.process_time() - processor
    return *spent, weights_digest(trained.state_dict())


def compared(work: Callable[[int], tuple[float, float, str]], turns: int, what: str) -> dict[str, Any]:
    """What two threads bring to a training, given their number."""
    library = kernels(torch.empty(0))
    assert library is not None
    work(1)  # the first pays for memory
    with timed(library) as seconds:
        _, processor, digest = work(1)
    share, ratios = sum(seconds) / processor, []
    for _ in range(turns):
        one, two = work(1), work(2)
        if {one[2], two[2]} != {digest}:
            raise SystemExit(f"{what}: the weights depend on the number of threads")
        ratios.append(one[0] / two[0])
    return {
        "share": round(share, 3),
        "at most": round(1 / (1 - share / 2), 2),
        "times": round(median(ratios), 2),
    }


def of_epochs(problem: Problem, method: str) -> dict[str, Any]:
    found = compared(partial(epochs, problem, method), EPOCH_TURNS, f"{method} on {problem.name}")
    size = {"width": problem.config.width, "batch": speed.BATCH}
    return {"method": method, "benchmark": problem.name, "of": "epochs", **size, **found}


def of_run(method: str, name: str, layers: int, width: int) -> dict[str, Any]:
    work = partial(train, method, benchmark(name, graphs=GRAPHS), layers, width)
    size = {"width": width, "batch": BATCH}
    return {"method": method, "benchmark": name, "of": "a run", **size, **compared(work, TURNS, f"{method} on {name}")}


def main() -> None:
    torch.set_num_threads(1)
    if not our_products():
        raise SystemExit("the loops that threads share do not run on this processor; see `mphil doctor`")
    problem = speed.molecules(512)
    found = [of_epochs(problem, method) for method in ("mphil+", "mphil", "erm")] + [of_run(*case) for case in CASES]
    record = {"command": "python benchmarks/threads.py", "machine": speed.machine(), "found": found}
    print(json.dumps(record["found"], indent=1))
    with RESULTS.open("a") as file:
        file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
