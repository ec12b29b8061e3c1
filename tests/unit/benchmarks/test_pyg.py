"""A PyG dataset as a benchmark."""

from __future__ import annotations

import math

import pytest
import torch
from tests.command import call
from torch_geometric.data import Data

import mphil
from mphil.benchmarks import register
from mphil.benchmarks.own_data import from_pyg
from mphil.errors import DataError, UnknownName


def ring(nodes: int, label: float | list[float], **more) -> Data:
    here = torch.arange(nodes)
    x = torch.rand(nodes, 2, generator=torch.Generator().manual_seed(nodes))
    return Data(x=x, edge_index=torch.stack([here, here.roll(1)]), y=label, **more)


RINGS = [ring(3 + number % 40, number % 2) for number in range(120)]
PARTS = {"train": range(60), "id_val": [70, 71], "ood_val": torch.arange(80, 100), "ood_test": [100]}


def test_a_given_split():
    data = from_pyg(RINGS, split=PARTS, encoder={"width": 8})
    assert data.split.sizes == {"train": 60, "id_val": 2, "id_test": 0, "ood_val": 20, "ood_test": 1}
    assert (data.task.kind, data.classes, data.encoder) == ("binary", ("0", "1"), {"width": 8})
    assert data.store.y[:3, 0].tolist() == [0, 1, 0]


def test_by_size_no_size_is_in_two_shifted_parts():
    data = from_pyg(RINGS)
    assert all(data.split.sizes.values())
    sizes = {part: set(data.store.n_nodes[graphs].tolist()) for part, graphs in data.split}
    assert max(sizes["ood_test"]) < min(sizes["ood_val"]) < min(sizes["train"])
    assert data.split.provenance["split"] == "size"
    assert (data.store.env[data.split.train] >= 0).all()


def test_by_environment():
    data = from_pyg([ring(3 + n, n % 2, env=n % 6) for n in range(60)], split="env")
    found = {part: {n % 6 for n in graphs.tolist()} for part, graphs in data.split}
    assert not found["ood_test"] & found["train"]


@pytest.mark.parametrize(
    ("labels", "kind", "outputs"),
    [([0, 1, 2], "multiclass", 3), ([[0, 1], [1, math.nan], [1, 0]], "multitask", 2), ([1, 2, 1], "multiclass", 2)],
)
def test_the_task_is_found(labels, kind, outputs):
    graphs = [ring(3 + n, torch.tensor([labels[n % 3]])) for n in range(30)]
    task = from_pyg(graphs, split="random").task
    assert (task.kind, task.n_outputs) == (kind, outputs)


@pytest.mark.parametrize(
    ("split", "error", "message"),
    [
        ({"train": [0], "test": [1]}, UnknownName, "unknown part 'test'"),
        ({"train": [0], "ood_test": [120]}, DataError, "ood_test has the position 120, the dataset 120 graphs"),
        ({"train": [0], "ood_test": [0]}, DataError, "graph 0 is in train and in ood_test"),
        ("colour", UnknownName, "unknown split 'colour'"),
    ],
)
def test_refusals(split, error, message):
    with pytest.raises(error, match=message):
        from_pyg(RINGS, split=split)


def test_a_registered_dataset_is_resumed_and_evaluated_by_name(plugged, tmp_path):
    def build(*, graphs: int = 120):
        return from_pyg(RINGS[:graphs])

    register("rings-of-a-test", build, summary="Rings.", source="made here")
    settings = {"encoder": {"width": 4, "layers": 2}, "train": {"epochs": 1, "batch_size": 16}}
    run = mphil.train("rings-of-a-test", "erm", out=tmp_path / "run", **settings)
    ended = call("evaluate", tmp_path / "run", "--json")
    assert ended.code == 0, ended.err
    assert call("resume", tmp_path / "run").code == 0
    assert run.config.benchmark.args == {"graphs": 120}
