"""The yardstick of the speed benchmarks computes what it is compared with."""

import importlib
from pathlib import Path

import pytest
import torch

from mphil.methods import build_method
from mphil.methods.base import Progress
from mphil.nn.randomness import Dropout
from tests.graphs import TASKS, random_store, small_encoder, whole

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.mark.parametrize("features", [("categorical", "categorical"), ("constant", "none")], ids=["molecules", "motif"])
@pytest.mark.parametrize("name", ["mphil", "erm", "gsat", "ciga-v1", "dir"])
def test_same_weights_same_loss(name, features, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    plain_method = importlib.import_module("plain").plain_method
    nodes, edges = features
    store = random_store(graphs=16, nodes=nodes, edges=edges)
    torch.manual_seed(0)
    ours = build_method(name, TASKS["multiclass"], small_encoder(store, layers=3, width=16), {})
    losses = []
    for method in (plain_method(ours), ours):
        for module in method.modules():
            if isinstance(module, Dropout | torch.nn.Dropout):
                module.eval()
        torch.manual_seed(0)
        losses.append(method.loss(whole(store), Progress()).total.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
