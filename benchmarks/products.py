"""What our own matrix products bring against the BLAS of torch, in one thread.

    OMP_NUM_THREADS=1 python benchmarks/products.py

Two widths, that of the molecule benchmarks and that of Motif: one product of node features with the weight of a layer,
and a training step of ERM, forward and backward, where those for AVX2 also allow a layer to be one loop over bands of
rows and zeros to be left out. Both ways take turns, each in a process of its own; a figure is the median of the ratios
of turns that follow on each other, above 1 where ours are faster. Adds a line to benchmarks/results/products.jsonl.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch

from mphil.benchmarks import benchmark
from mphil.config import EncoderConfig
from mphil.methods import build_method
from mphil.methods.base import Progress
from mphil.nn.fast import chains, linear
from mphil.nn.fast.chains import our_products
from speed import in_turns, machine

RESULTS = Path(__file__).parent / "results" / "products.jsonl"
CASES = {"decoy-scaffold": (3, 300), "good-motif-basis": (4, 128)}
"""Benchmark to layers and width."""
GRAPHS, TURNS = 128, 9

Work = Callable[[], object]


def with_blas(work: Work) -> Work:
    """The same without our products; it stays so in the process that does it."""

    def done() -> None:
        linear.products_pay = lambda: False  # type: ignore[assignment, attr-defined]
        chains.why_not = lambda: "it is the other one's turn"
        work()

    return done


def ratio(work: Work) -> dict[str, Any]:
    """Processor time with BLAS over that with ours: median and quartiles over the turns."""
    blas, ours = in_turns(TURNS, with_blas(work), work)
    found = [theirs / mine for theirs, mine in zip(blas, ours, strict=True)]
    low, _, high = quantiles(found, n=4)
    return {"times": round(median(found), 2), "quartiles": [round(low, 2), round(high, 2)]}


def measure(name: str, layers: int, width: int) -> dict[str, Any]:
    data = benchmark(name, graphs=600)
    store = data.store
    encoder = EncoderConfig(layers=layers, width=width, node=store.node_features, edge=store.edge_features)
    torch.manual_seed(0)
    method = build_method("erm", data.task, encoder, {})
    batch = store.batch(data.split.train[:GRAPHS])
    rows = len(batch.x)
    left, right = torch.randn(rows, width), torch.randn(width, 2 * width)

    def multiply() -> None:
        for _ in range(10):
            linear.product(left, right)

    def step() -> None:
        method.zero_grad()
        method.loss(batch, Progress()).total.backward()  # type: ignore[no-untyped-call]

    return {"rows": rows, "width": width, "product": ratio(multiply), "training step": ratio(step)}


def main() -> None:
    torch.set_num_threads(1)
    if not our_products():
        raise SystemExit("our products do not run on this processor; see `mphil doctor`")
    record = {
        "command": "OMP_NUM_THREADS=1 python benchmarks/products.py",
        "machine": machine(),
        "turns": TURNS,
        "found": {name: measure(name, *shape) for name, shape in CASES.items()},
    }
    print(json.dumps(record["found"], indent=1))
    with RESULTS.open("a") as file:
        file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
