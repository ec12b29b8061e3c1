from __future__ import annotations

import pytest
import torch

from mphil.benchmarks.catalogue import benchmark
from mphil.graphs.store import GraphStore
from mphil.methods import build_method
from mphil.methods.base import Method
from mphil.task import Task
from tests.graphs import small_encoder


@pytest.fixture(scope="session")
def molecules() -> GraphStore:
    """Twenty molecules, the deciding atoms marked."""
    return benchmark("decoy-scaffold", graphs=20).store


def built(name: str, store: GraphStore, task: Task | None = None, *, seed: int = 0, **encoder) -> Method:
    """A method with random weights, in evaluation mode; weights are spread, so that predictions differ."""
    torch.manual_seed(seed)
    method = build_method(name, task or Task("binary", 1, "roc_auc"), small_encoder(store, **encoder), {})
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.mul_(1.5)
    return method.eval()
