"""What a second core brings to one training.

    python benchmarks/threads.py

Epochs with one and with two threads take turns, and must end with the same weights. A row has the share of processor
time in the loops that threads share, with one thread; what two cores could bring if these were divided evenly and
nothing were lost; and the median ratio of wall times, which means something only on a machine with two idle cores:
the load is in the record. Adds a line to benchmarks/results/threads.jsonl.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import torch

import mphil
from mphil.benchmarks import Benchmark, benchmark
from mphil.model.bundle.folder import weights_digest
from mphil.nn.fast.chains import our_products
from mphil.nn.fast.library import kernels
from mphil.nn.fast.loading import Loops
from speed import machine

RESULTS = Path(__file__).parent / "results" / "threads.jsonl"
CASES = (
    ("mphil+", "decoy-scaffold", 3, 128),
    ("erm", "decoy-scaffold", 3, 128),
    ("mphil", "decoy-scaffold", 3, 300),
    ("mphil", "good-motif-basis", 4, 128),
)
"""Method, benchmark, layers, width."""
LAYER = ("perceptron", "perceptron_backward", "chained_product")
SHARED = (*LAYER, "statistics", "normalise", "normalise_backward")
GRAPHS, BATCH, TURNS = 300, 32, 3


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


def measure(method: str, name: str, layers: int, width: int) -> dict[str, Any]:
    data, library = benchmark(name, graphs=GRAPHS), kernels(torch.empty(0))
    assert library is not None
    train(method, data, layers, width, 1)  # the first pays for memory
    with timed(library) as seconds:
        _, processor, digest = train(method, data, layers, width, 1)
    share, ratios = sum(seconds) / processor, []
    for _ in range(TURNS):
        one, two = (train(method, data, layers, width, threads) for threads in (1, 2))
        if {one[2], two[2]} != {digest}:
            raise SystemExit(f"{method} on {name}: the weights depend on the number of threads")
        ratios.append(one[0] / two[0])
    return {
        "method": method,
        "benchmark": name,
        "width": width,
        "share": round(share, 3),
        "at most": round(1 / (1 - share / 2), 2),
        "times": round(median(ratios), 2),
    }


def main() -> None:
    torch.set_num_threads(1)
    if not our_products():
        raise SystemExit("the loops that threads share do not run on this processor; see `mphil doctor`")
    record = {"command": "python benchmarks/threads.py", "machine": machine(), "found": [measure(*c) for c in CASES]}
    print(json.dumps(record["found"], indent=1))
    with RESULTS.open("a") as file:
        file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
