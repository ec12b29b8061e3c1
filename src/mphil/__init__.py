"""mphil: graph classification that keeps working when the data shift.

The names below are imported when they are first used, so that `import mphil` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mphil.benchmarks.catalogue import Benchmark, benchmark
    from mphil.benchmarks.own_data import from_pyg
    from mphil.graphs.split import Split
    from mphil.graphs.store import GraphStore
    from mphil.lab.study import study
    from mphil.methods.base import Method
    from mphil.model.estimator import MPHILClassifier, MPHILRegressor
    from mphil.model.predictor import Predictor, load
    from mphil.model.product.runs import train
    from mphil.model.scoring import evaluate
    from mphil.task import Task
    from mphil.training.callbacks import Callback
    from mphil.training.compare import compare
    from mphil.training.run import Run

_HOMES = {
    "Benchmark": "mphil.benchmarks.catalogue",
    "Callback": "mphil.training.callbacks",
    "GraphStore": "mphil.graphs.store",
    "MPHILClassifier": "mphil.model.estimator",
    "MPHILRegressor": "mphil.model.estimator",
    "Method": "mphil.methods.base",
    "Predictor": "mphil.model.predictor",
    "Run": "mphil.training.run",
    "Split": "mphil.graphs.split",
    "Task": "mphil.task",
    "benchmark": "mphil.benchmarks.catalogue",
    "compare": "mphil.training.compare",
    "evaluate": "mphil.model.scoring",
    "from_pyg": "mphil.benchmarks.own_data",
    "load": "mphil.model.predictor",
    "study": "mphil.lab.study",
    "train": "mphil.model.product.runs",
}

__all__ = [
    "Benchmark",
    "Callback",
    "GraphStore",
    "MPHILClassifier",
    "MPHILRegressor",
    "Method",
    "Predictor",
    "Run",
    "Split",
    "Task",
    "benchmark",
    "compare",
    "evaluate",
    "from_pyg",
    "load",
    "study",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mphil' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
