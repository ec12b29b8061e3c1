from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mphil.config import EncoderConfig
from mphil.errors import DataError
from mphil.explain.faithfulness import important_nodes, measure, node_areas
from mphil.graphs.features import Features
from mphil.graphs.store import GraphBatch, GraphStore, pointer
from mphil.methods.base import Method
from mphil.task import Task

NODES = 10
SURE = 1 / (1 + math.exp(-3))


class KeySeeker(Method):
    """Class 1 with certainty `SURE` when a node with the feature 1 is there, class 0 with the same certainty if not."""

    name = "key-seeker"

    def __init__(self, sees: float) -> None:
        super().__init__(Task("binary", 1, "accuracy"), EncoderConfig(width=2))
        self.sees = torch.nn.Parameter(torch.tensor(sees))

    def predict(self, batch: GraphBatch) -> Tensor:
        keys = torch.zeros(batch.ptr.numel() - 1).index_add(0, batch.batch, batch.x[:, 0])
        return torch.where(keys > 0, 3.0, -3.0).unsqueeze(1)

    def node_importance(self, batch: GraphBatch) -> Tensor:
        return self.sees * batch.x[:, 0]


def keyed(graphs: int = 6, *, nodes: int = NODES) -> GraphStore:
    """Rings, one node of which is the key and decides; where it sits differs from graph to graph."""
    x = torch.zeros(graphs, nodes, 1)
    x[torch.arange(graphs), torch.arange(graphs) * 3 % nodes] = 1
    here = torch.arange(nodes)
    ring = torch.cat([torch.stack([here, here.roll(-1)]), torch.stack([here.roll(-1), here])], dim=1)
    return GraphStore(
        x=x.flatten(0, 1),
        edge_index=ring.repeat(1, graphs).int(),
        node_ptr=pointer(torch.full((graphs,), nodes)),
        edge_ptr=pointer(torch.full((graphs,), 2 * nodes)),
        y=torch.ones(graphs, 1),
        env=torch.zeros(graphs, dtype=torch.long),
        index=torch.arange(graphs),
        node_features=Features("float", (1,)),
        extras={"node_truth": x.flatten().bool()},
    )


def everything(store: GraphStore) -> Tensor:
    return torch.arange(len(store))


def test_a_perfect_explanation():
    store = keyed()
    found = measure(KeySeeker(1.0).eval(), store, everything(store), sparsities=(0.5, 0.9))
    for sparsity in (0.5, 0.9):
        assert found.fidelity_plus[sparsity] == pytest.approx(SURE - (1 - SURE))
        assert found.fidelity_minus[sparsity] == pytest.approx(0)
    assert (found.auc, found.auc_graphs, found.graphs) == (1.0, 6, 6)


def test_the_worst_explanation():
    store = keyed()
    found = measure(KeySeeker(-1.0).eval(), store, everything(store), sparsities=(0.5, 0.9))
    for sparsity in (0.5, 0.9):
        assert found.fidelity_plus[sparsity] == pytest.approx(0)
        assert found.fidelity_minus[sparsity] == pytest.approx(SURE - (1 - SURE))
    assert found.auc == 0


def test_chance_finds_the_key_as_often_as_nodes_are_taken():
    store = keyed(400)
    found = measure(KeySeeker(1.0).eval(), store, everything(store), "random", sparsities=(0.7,))
    assert found.fidelity_plus[0.7] / (2 * SURE - 1) == pytest.approx(0.3, abs=0.08)
    assert found.fidelity_minus[0.7] / (2 * SURE - 1) == pytest.approx(0.7, abs=0.08)
    assert found.auc == pytest.approx(0.5, abs=0.05)


def test_equal_scores_are_not_ordered_by_their_place():
    """A method that says nothing is no better than chance, wherever the key sits."""
    store = keyed(300)
    store.x.zero_()
    store.x.view(300, NODES)[:, 0] = 1  # always the first node
    found = measure(KeySeeker(0.0).eval(), store, everything(store), sparsities=(0.8,))
    assert found.fidelity_plus[0.8] / (2 * SURE - 1) == pytest.approx(0.2, abs=0.08)
    assert found.auc == 0.5


def test_batches_do_not_matter():
    store = keyed(9)
    whole = measure(KeySeeker(0.0).eval(), store, everything(store), "random")
    pieces = measure(KeySeeker(0.0).eval(), store, everything(store), "random", batch_size=2)
    for name in ("fidelity_plus", "fidelity_minus"):
        assert getattr(whole, name) == pytest.approx(getattr(pieces, name))
    assert whole.auc == pytest.approx(pieces.auc)


@settings(max_examples=40)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.sampled_from([0.1, 0.5, 0.75, 0.9]), st.integers(0, 99))
def test_important_nodes_are_the_best_share(sizes, sparsity, seed):
    ptr = pointer(torch.tensor(sizes))
    batch = GraphBatch(ptr=ptr, batch=torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)))
    batch.index = torch.arange(len(sizes))
    scores = torch.rand(int(ptr[-1]), generator=torch.Generator().manual_seed(seed)) * 1e-6
    chosen = important_nodes(scores, batch, sparsity, seed)
    for start, size in zip(ptr.tolist(), sizes, strict=False):
        mine, picked = scores[start : start + size], chosen[start : start + size]
        wanted = math.ceil(round(size * (1 - sparsity), 6))
        wanted = min(max(wanted, 1), max(size - 1, 1))
        assert int(picked.sum()) == wanted
        if 0 < wanted < size:
            assert mine[picked].min() >= mine[~picked].max() - 1e-11


def test_areas_count_pairs():
    generator = np.random.default_rng(0)
    scores, truth = generator.integers(0, 4, 30) / 4, generator.random(30) < 0.4
    ptr = torch.tensor([0, 12, 13, 30])
    expected = []
    for start, end in ((0, 12), (12, 13), (13, 30)):
        pairs = [
            0.5 if a == b else float(a > b)
            for a, hit in zip(scores[start:end], truth[start:end], strict=True)
            for b, miss in zip(scores[start:end], truth[start:end], strict=True)
            if hit and not miss
        ]
        if pairs:
            expected.append(sum(pairs) / len(pairs))
    assert len(expected) == 2
    assert node_areas(torch.from_numpy(scores), torch.from_numpy(truth), ptr) == pytest.approx(expected)


def test_without_truth_there_is_no_area():
    store = replace(keyed(), extras={})
    found = measure(KeySeeker(1.0).eval(), store, everything(store))
    assert (found.auc, found.auc_graphs) == (None, 0)
    assert found.as_dict()["fidelity_plus"].keys() == {"0.5", "0.6", "0.7", "0.8", "0.9"}


def test_graphs_with_a_single_node_are_passed_over():
    single = keyed(2, nodes=1)
    with pytest.raises(DataError, match="two nodes"):
        measure(KeySeeker(1.0).eval(), single, everything(single))


@pytest.mark.parametrize("sparsity", [0.0, 1.0, -0.5])
def test_a_sparsity_is_a_share(sparsity):
    store = keyed()
    with pytest.raises(DataError, match="sparsity"):
        measure(KeySeeker(1.0).eval(), store, everything(store), sparsities=[sparsity])


def test_progress_is_told():
    store, steps = keyed(5), []
    measure(KeySeeker(1.0).eval(), store, everything(store), batch_size=2, advance=steps.append)
    assert steps == [2, 2, 1]
