"""G-Mixup: what is appended to a batch, and what it costs."""

from __future__ import annotations

import pytest
import torch

from mphil.errors import UsageError
from mphil.methods import Parts, Progress, build_method
from mphil.methods.gmixup import GMixup, join
from mphil.nn.losses import task_loss
from tests.graphs import TASKS, random_store, small_encoder, whole

START = Progress()


def make(kind="multiclass", nodes="categorical", edges="categorical", missing=0.0, graphs=40, **options):
    store = random_store(kind, graphs=graphs, nodes=nodes, edges=edges, missing=missing)
    torch.manual_seed(0)
    method = GMixup(TASKS[kind], small_encoder(store), **options).double()
    batch = whole(store, torch.float64)
    method.prepare(Parts([batch]))
    return method, batch


@pytest.mark.parametrize("kind", ["multiclass", "binary"])
@pytest.mark.parametrize(
    ("nodes", "edges"), [("constant", "none"), ("float", "none"), ("float", "float"), ("categorical", "categorical")]
)
def test_loss_is_the_mean_over_given_and_mixed_graphs(kind, nodes, edges):
    method, batch = make(kind, nodes, edges, missing=0.2, low=0.2, high=0.4, ratio=0.5)
    torch.manual_seed(3)
    loss = method.loss(batch, START).total
    torch.manual_seed(3)
    torch.rand(())
    mixed, shares = method.graphons.draw(20, 0.2, 0.4)
    logits = method.predict(join(batch, mixed))
    costs = []
    for row, label in zip(logits, batch.y[:, 0].tolist(), strict=False):
        if label == label:
            target = torch.zeros(method.task.n_classes, dtype=torch.float64)
            target[int(label)] = 1
            costs.append(cross_entropy(row, target, kind))
    known = len(costs)
    costs += [cross_entropy(row, target, kind) for row, target in zip(logits[len(batch.y) :], shares, strict=True)]
    assert known < 40
    assert 10 < len(costs) - known <= 20
    torch.testing.assert_close(loss, torch.stack(costs).mean(), rtol=1e-10, atol=1e-10)


def cross_entropy(logits, target, kind):
    """Written out: minus the sum over classes of share times log probability."""
    if kind == "binary":
        probability = torch.stack([1 - logits[0].sigmoid(), logits[0].sigmoid()])
    else:
        probability = logits.exp() / logits.exp().sum()
    return -sum(share * p.log() for share, p in zip(target, probability, strict=True))


def test_a_mixed_graph_counts_for_the_class_it_is_mostly_of():
    """Shares so small that a mixed graph is one of class b: its label must be b's."""
    method, _ = make(low=0.0, high=0.0)
    _, shares = method.graphons.draw(30, 0.0, 0.0)
    assert (shares.max(1).values == 1).all()
    assert set(shares.argmax(1).tolist()) == {0, 1, 2}


def test_ratio_of_mixed_graphs_holds_for_small_batches_too(monkeypatch):
    method, _ = make(ratio=0.15)
    store = random_store(nodes="categorical", edges="categorical", graphs=4)
    batch, asked = whole(store), []
    draw = type(method.graphons).draw
    monkeypatch.setattr(type(method.graphons), "draw", lambda self, n, *r: asked.append(n) or draw(self, n, *r))
    torch.manual_seed(0)
    for _ in range(400):
        method.loss(batch, START)
    assert set(asked) == {0, 1}
    assert sum(asked) / 400 == pytest.approx(0.15 * 4, abs=0.08)


def test_evaluation_is_plain_erm():
    method, batch = make()
    method.eval()
    assert method.loss(batch, START).total == task_loss(method.predict(batch), batch.y, method.task)


def test_without_two_classes_training_is_plain_erm():
    method, batch = make()
    batch.y.fill_(1)
    method.prepare(Parts([batch]))
    assert method.graphons is None
    assert method.loss(batch, START).total == task_loss(method.predict(batch), batch.y, method.task)


def test_only_the_training_part_is_looked_at():
    method, batch = make()
    weights = method.graphons.weights
    method.prepare(Parts([batch], [whole(random_store(graphs=30, seed=9), torch.float64)]))
    assert torch.equal(method.graphons.weights, weights)


def test_preparing_again_under_the_same_seed_gives_the_same_graphs():
    method, batch = make()
    drawn = []
    for _ in range(2):
        torch.manual_seed(5)
        method.prepare(Parts([batch]))
        drawn.append(method.graphons.draw(10, 0.1, 0.2)[0])
    assert torch.equal(drawn[0].x, drawn[1].x)
    assert torch.equal(drawn[0].edge_attr, drawn[1].edge_attr)


def test_the_graphons_are_not_in_the_state():
    method, _ = make()
    assert [n for n in method.state_dict() if "graphon" in n] == []


def test_refuses_several_labels_with_the_reason():
    encoder = small_encoder(random_store("multitask"))
    with pytest.raises(UsageError, match="gmixup is not defined for multitask tasks: .* has no one class"):
        build_method("gmixup", TASKS["multitask"], encoder, {})


@pytest.mark.parametrize("options", [{"ratio": -0.1}, {"low": 0.2, "high": 0.1}, {"high": 1.5}, {"resolution": -1}])
def test_impossible_options(options):
    with pytest.raises(UsageError, match="gmixup needs"):
        make(**options)
