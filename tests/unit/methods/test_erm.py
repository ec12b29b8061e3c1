"""ERM against its definition."""

from __future__ import annotations

import math

import pytest
import torch

from mphil.methods import Progress, build_method
from mphil.methods.erm import ERM
from mphil.nn.readout import readout
from tests.graphs import TASKS, random_store, small_encoder, whole


def make(task="multiclass", missing=0.0, **options):
    store = random_store(task, nodes="categorical", edges="categorical", missing=missing)
    torch.manual_seed(0)
    return ERM(TASKS[task], small_encoder(store, **options)).eval(), whole(store)


def loss_of(method, batch):
    return method.loss(batch, Progress()).total


def test_is_encoder_readout_and_linear_classifier():
    for how in ("mean", "sum", "max"):
        method, batch = make(readout=how)
        pooled = readout(method.encoder(batch), batch.ptr, how)
        assert torch.equal(method.embed(batch), pooled)
        assert torch.equal(method.predict(batch), method.head(pooled))


def test_multiclass_loss_is_mean_cross_entropy():
    method, batch = make()
    rows = zip(method.predict(batch), batch.y[:, 0].int().tolist(), strict=True)
    expected = torch.stack([-logits.log_softmax(0)[label] for logits, label in rows]).mean()
    torch.testing.assert_close(loss_of(method, batch), expected)


@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("kind", ["binary", "multitask"])
def test_binary_loss_is_the_mean_over_known_labels(kind, missing):
    method, batch = make(kind, missing)
    probability = method.predict(batch).sigmoid()
    terms = [
        -(p if label == 1 else 1 - p).log()
        for p, label in zip(probability.flatten(), batch.y.flatten().tolist(), strict=True)
        if not math.isnan(label)
    ]
    assert (len(terms) < batch.y.numel()) == (missing > 0)
    torch.testing.assert_close(loss_of(method, batch), torch.stack(terms).mean())


@pytest.mark.parametrize("kind", TASKS)
def test_a_graph_without_label_counts_as_if_it_were_not_there(kind):
    store = random_store(kind)
    store.y[[1, 4]] = torch.nan
    method = ERM(TASKS[kind], small_encoder(store)).eval()
    kept = torch.tensor([i for i in range(len(store)) if i not in (1, 4)])
    torch.testing.assert_close(loss_of(method, whole(store)), loss_of(method, store.batch(kept)))


@pytest.mark.parametrize("kind", TASKS)
def test_no_label_at_all_gives_zero_loss_and_zero_gradient(kind):
    method, batch = make(kind)
    batch.y.fill_(torch.nan)
    loss = loss_of(method, batch)
    loss.backward()
    assert loss == 0
    assert all((p.grad is not None and (p.grad == 0).all()) for p in method.parameters())


@pytest.mark.parametrize("kind", TASKS)
def test_learns_a_handful_of_graphs_by_heart(kind):
    method, batch = make(kind, width=32)
    optimizer = torch.optim.Adam(method.train().parameters(), lr=1e-2)
    first = loss_of(method, batch).item()
    for _ in range(60):
        optimizer.zero_grad()
        loss_of(method, batch).backward()
        optimizer.step()
    assert loss_of(method, batch) < 0.2 * first


def test_node_importance_adds_up_to_the_margin_without_bias():
    method, batch = make()
    with torch.no_grad():
        method.head.bias.zero_()
        logits = method.predict(batch)
    shares = torch.zeros(len(logits)).index_add(0, batch.batch, method.node_importance(batch))
    torch.testing.assert_close(shares, logits.amax(1) - logits.mean(1))


def test_runs_on_any_device():
    method, batch = make("multitask", kind="vgin", layers=3)
    method, batch = method.to("meta"), batch.to("meta")
    assert loss_of(method, batch).device.type == "meta"
    assert method.node_importance(batch).shape == (len(batch.x),)


def test_builds_by_name_without_options():
    store = random_store()
    assert isinstance(build_method("erm", TASKS["multiclass"], small_encoder(store), {}), ERM)
