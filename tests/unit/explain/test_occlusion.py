from __future__ import annotations

import pytest
import torch

from mphil.explain.removal import chance_of, class_probabilities, keep_nodes, predicted_classes
from mphil.nn.encoders import build_encoder
from mphil.task import Task
from tests.graphs import TASKS, random_store, small_encoder, whole

from .conftest import built


@pytest.mark.parametrize("kind", ["gin", "vgin"])
@pytest.mark.parametrize(("nodes", "edges"), [("float", "none"), ("categorical", "categorical"), ("constant", "none")])
def test_hidden_is_a_node_weight_of_nothing(kind, nodes, edges):
    """A node that is not there says as much as one whose messages are multiplied by 0."""
    store = random_store("binary", graphs=8, nodes=nodes, edges=edges)
    torch.manual_seed(1)
    encoder = build_encoder(small_encoder(store, kind=kind, layers=3)).eval()
    batch = whole(store)
    kept = torch.rand(len(batch.x)) < 0.6
    with torch.no_grad():
        weighted = encoder(batch, node_weight=kept.float())
        removed = encoder(keep_nodes(batch, kept))
    torch.testing.assert_close(removed, weighted[kept], rtol=1e-4, atol=1e-5)


def test_nodes_and_edges_that_stay_by_hand(molecules):
    batch = molecules.batch(torch.tensor([0, 1]))
    first = int(batch.ptr[1])
    kept = torch.ones(len(batch.x), dtype=torch.bool)
    kept[[0, first]] = False
    part = keep_nodes(batch, kept)
    assert part.ptr.tolist() == [0, first - 1, len(batch.x) - 2]
    assert torch.equal(part.x, batch.x[kept])
    number = {old: new for new, old in enumerate(kept.nonzero().squeeze(1).tolist())}
    pairs = [
        (number[a], number[b], code)
        for (a, b), code in zip(batch.edge_index.T.tolist(), batch.edge_attr.tolist(), strict=True)
        if a in number and b in number
    ]
    assert part.edge_index.T.tolist() == [[a, b] for a, b, _ in pairs]
    assert part.edge_attr.tolist() == [code for *_, code in pairs]
    assert len(batch.x) == first + len(molecules.batch(torch.tensor([1])).x), "the batch itself is as it was"


def test_no_graph_is_lost(molecules):
    batch = whole(molecules[:3])
    part = keep_nodes(batch, batch.batch != 1)
    assert part.ptr.diff().tolist() == [int(molecules.n_nodes[0]), 0, int(molecules.n_nodes[2])]
    logits = built("mphil", molecules).predict(part)
    assert logits.shape == (3, 1)
    assert logits.isfinite().all()


@pytest.mark.parametrize(
    ("logits", "task", "expected"),
    [
        ([[0.0, 0.0, 0.0]], Task("multiclass", 3, "accuracy"), [[[1 / 3] * 3]]),
        ([[2.0]], Task("binary", 1, "roc_auc"), [[[0.1192029, 0.8807971]]]),
        ([[0.0, 2.0]], Task("multitask", 2, "roc_auc"), [[[0.5, 0.5], [0.1192029, 0.8807971]]]),
    ],
)
def test_probabilities_of_all_classes(logits, task, expected):
    torch.testing.assert_close(class_probabilities(torch.tensor(logits), task), torch.tensor(expected).double())


@pytest.mark.parametrize("kind", list(TASKS))
def test_chance_of_the_predicted_classes(kind):
    store = random_store(kind)
    method, batch = built("erm", store, TASKS[kind]), whole(store)
    with torch.no_grad():  # as the other side does: with gradients the encoder rounds differently
        chances = class_probabilities(method.predict(batch), method.task)
    torch.testing.assert_close(chance_of(method, batch, predicted_classes(method, batch)), chances.amax(-1).mean(1))
