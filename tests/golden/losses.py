"""The losses of every method after three steps of training, in double precision, and the file they are kept in."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from mphil.benchmarks import benchmark
from mphil.config import EncoderConfig
from mphil.graphs.store import GraphStore
from mphil.methods import METHODS, Method, Progress
from mphil.task import Task
from mphil.testing.trial import Trial, to_dtype

FILE = Path(__file__).with_name("losses.json")
"""The golden losses, and the version of the numerics they are of."""
HISTORY = Path(__file__).with_name("history.json")
"""Version of the numerics to `METHOD on KIND` to a digest of the losses: what a version once gave, it always gives."""
COMMAND = "python -m tests.golden.update"
REMEDY = f"if that is meant, raise NUMERICS in src/mphil/provenance.py by one and run `{COMMAND}`"
STEPS, SEED = 3, 0
BENCHMARKS = {"motif": "good-motif-basis", "molecules": "decoy-scaffold"}
Golden = dict[str, dict[str, dict[str, float]]]
"""Method, kind of graphs, term of the loss."""


def kinds(method: type[Method]) -> list[str]:
    """The kinds of graphs a method is defined for."""
    tasks = {"motif": "multiclass", "molecules": "binary", "multitask": "multitask"}
    return [
        kind
        for kind, task in tasks.items()
        if task in method.tasks and not (kind == "motif" and "molecules" in method.needs)
    ]


@cache
def small_benchmark(name: str) -> tuple[Task, GraphStore]:
    """The first training graphs of a benchmark."""
    data = benchmark(name, graphs=60)
    return data.task, data.store.select(data.split.train[:24])


def trial(method: type[Method], kind: str) -> Trial:
    if kind == "multitask":
        return Trial.of(method, kind, {}, SEED)
    task, graphs = small_benchmark(BENCHMARKS[kind])
    encoder = EncoderConfig(layers=3, width=12, dropout=0.2, node=graphs.node_features, edge=graphs.edge_features)
    return Trial(method, {}, task, encoder, graphs, SEED)


def losses_after_training(name: str, kind: str) -> dict[str, float]:
    """Terms of the loss of a method, with its defaults, after its earlier stages and three steps of the main one."""
    tried = trial(METHODS[name], kind)
    batch = to_dtype(tried.batch(), torch.float64)
    method = tried.started(batch)
    tried.train(method, batch, steps=STEPS)
    torch.manual_seed(SEED)
    after = Progress(step=STEPS, epoch=STEPS, total_steps=STEPS + 1, total_epochs=STEPS + 1)
    return {term: value.item() for term, value in method.loss(batch, after).items()}


def same(found: dict[str, float], golden: dict[str, float]) -> bool:
    """Whether losses are those that were kept, up to the rounding of another machine."""
    return found == pytest.approx(golden, rel=1e-6, abs=1e-9)


def digests(golden: Golden) -> dict[str, str]:
    """`METHOD on KIND` to a digest of its losses."""
    return {
        f"{name} on {kind}": hashlib.sha256(json.dumps(losses, sort_keys=True).encode()).hexdigest()[:16]
        for name, by_kind in golden.items()
        for kind, losses in by_kind.items()
    }


def read(file: Path = FILE) -> tuple[int, Golden]:
    """The version of the numerics, 0 when nothing is kept, and the losses."""
    found = json.loads(file.read_text()) if file.exists() else {"numerics": 0, "losses": {}}
    return found["numerics"], found["losses"]


def read_history(file: Path = HISTORY) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(file.read_text()) if file.exists() else {}
    return found


def write(file: Path, value: dict[str, Any]) -> None:
    file.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")
