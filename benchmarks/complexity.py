"""Time of one training step of MPHIL against nodes, edges, classes and prototypes, one at a time.

    OMP_NUM_THREADS=1 python benchmarks/complexity.py        # about a minute

Random graphs of random numbers, so that no two nodes look alike and nothing can be shared. Sizes take turns, each in a
process of its own; medians of processor seconds. The fitted exponent is the slope of log time over log size; beside it
that of the operations the paper counts, |E| d + |V| d^2, which has no classes or prototypes in it.

Adds one line to benchmarks/results/complexity.jsonl and draws docs/pictures/complexity.svg.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import linear_regression, median
from typing import Any

import numpy as np
import torch

from mphil.config import EncoderConfig
from mphil.graphs.features import Features
from mphil.graphs.store import GraphBatch
from mphil.methods import build_method
from mphil.methods.base import Progress
from mphil.pages.charts import line_chart
from mphil.pages.elements import on_white
from mphil.task import Task
from speed import in_turns, machine

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "complexity.jsonl"
PICTURE = ROOT / "docs" / "pictures" / "complexity.svg"
GRAPHS, WIDTH, LAYERS, COLUMNS = 128, 128, 3, 8
BASE = {"nodes": 2048, "edges": 4096, "classes": 4, "prototypes": 3}
FACTORS = (1, 2, 4, 8, 16)


def random_batch(nodes: int, edges: int, classes: int) -> GraphBatch:
    """Graphs of equal size whose edges join nodes of the same graph."""
    size = nodes // GRAPHS
    owner = torch.arange(edges) * GRAPHS // edges
    ends = owner * size + torch.randint(size, (2, edges))
    return GraphBatch(
        x=torch.randn(nodes, COLUMNS),
        edge_index=ends,
        batch=torch.arange(GRAPHS).repeat_interleave(size),
        ptr=torch.arange(GRAPHS + 1) * size,
        y=(torch.arange(GRAPHS) % classes).float().unsqueeze(1),
    )


def training_step(nodes: int, edges: int, classes: int, prototypes: int) -> Callable[[], object]:
    torch.manual_seed(0)
    config = EncoderConfig(node=Features("float", (COLUMNS,)), edge=Features.none(), layers=LAYERS, width=WIDTH)
    task = Task("multiclass", classes, "accuracy")
    method = build_method("mphil", task, config, {"prototypes": prototypes}).train()
    batch = random_batch(nodes, edges, classes)
    optimizer = torch.optim.Adam(method.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        method.loss(batch, Progress()).total.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def counted(nodes: int, edges: int, **_: int) -> int:
    """Operations by the paper's count."""
    return edges * WIDTH + nodes * WIDTH**2


def exponent(sizes: list[int], amounts: list[float]) -> float:
    """Slope of log amount over log size.

    Example:
        >>> exponent([1, 2, 4], [3.0, 12.0, 48.0])
        2.0
    """
    return round(linear_regression(np.log(sizes), np.log(amounts)).slope, 2)


def measure(turns: int) -> dict[str, Any]:
    settings = {(what, f): BASE | {what: BASE[what] * f} for what in BASE for f in FACTORS}
    works = [training_step(**setting) for setting in settings.values()]
    seconds = in_turns(turns, *works, keeping=works)
    taken = dict(zip(settings, map(median, seconds), strict=True))
    found = {}
    for what, base in BASE.items():
        sizes = [base * f for f in FACTORS]
        times = [taken[what, f] for f in FACTORS]
        found[what] = {
            "sizes": sizes,
            "milliseconds": [round(1000 * t, 2) for t in times],
            "exponent": exponent(sizes, times),
            "counted_exponent": exponent(sizes, [counted(**settings[what, f]) for f in FACTORS]),
        }
    return found


def draw(found: dict[str, Any]) -> str:
    lines = {
        f"{what} ({row['exponent']:.2f})": [t / row["milliseconds"][0] for t in row["milliseconds"]]
        for what, row in found.items()
    }
    return line_chart(
        lines,
        title="One training step of MPHIL, times the smallest (exponent)",
        x_label="size, times the smallest",
        y_label="time",
        x=FACTORS,
        size=(560, 300),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    began = time.perf_counter()
    found = measure(options.turns)
    for what, row in found.items():
        print(f"{what:11} {row['exponent']:5.2f}  counted {row['counted_exponent']:5.2f}  {row['milliseconds']} ms")
    record = {
        "command": f"OMP_NUM_THREADS=1 python benchmarks/complexity.py --turns {options.turns}",
        "machine": machine(),
        "graphs": GRAPHS,
        "width": WIDTH,
        "layers": LAYERS,
        "found": found,
        "seconds": round(time.perf_counter() - began),
    }
    with RESULTS.open("a") as file:
        file.write(json.dumps(record) + "\n")
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(on_white(draw(found)) + "\n")


if __name__ == "__main__":
    main()
