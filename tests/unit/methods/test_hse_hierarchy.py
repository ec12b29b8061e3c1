"""Levels of HSE: what is chosen, pooled and committed to, written out."""

from __future__ import annotations

from math import exp, log

import pytest
import torch

from mphil.methods.hse import Hierarchy, commitment, draw_edges, pool_touched
from tests.graphs import TASKS, random_store, small_encoder, whole
from tests.unit.methods.loops import gradient_size


def test_an_edge_is_chosen_by_its_share_of_the_edges_that_leave_its_source():
    batch = whole(random_store(graphs=6), torch.float64)
    torch.manual_seed(0)
    scores = 3 * torch.randn(batch.edge_index.shape[1], dtype=torch.float64)
    found = draw_edges(scores, batch, 0.8, training=False)
    for e, (u, _) in enumerate(batch.edge_index.T.tolist()):
        beside = [exp(scores[f]) for f, (w, _) in enumerate(batch.edge_index.T.tolist()) if w == u]
        share = min(max(exp(scores[e]) / sum(beside), 1e-6), 1 - 1e-6)
        soft = 1 / (1 + exp(-log(share / (1 - share)) / 0.2))
        assert found[e].item() == pytest.approx(float(soft > 0.8))
    assert 0 < found.sum() < len(found)


def test_draws_differ_are_hard_and_carry_a_gradient():
    batch = whole(random_store(graphs=6), torch.float64)
    scores = torch.randn(batch.edge_index.shape[1], dtype=torch.float64, requires_grad=True)
    draws = [draw_edges(scores, batch, 0.6, training=True) for _ in range(2)]
    assert not torch.equal(draws[0], draws[1])
    for draw in draws:
        assert ((draw - draw.round()).abs() < 1e-12).all()
    (draws[0] * torch.randn_like(scores)).sum().backward()
    assert scores.grad.abs().max() > 0


def test_a_part_is_the_sum_of_the_nodes_its_edges_touch_and_stays_with_its_graph():
    batch = whole(random_store(graphs=8), torch.float64)
    nodes = torch.randn(len(batch.batch), 3, dtype=torch.float64)
    owner = batch.batch[batch.edge_index[0]]
    kept = (torch.arange(len(owner)) % 3 == 0) & (owner != 0)
    found = pool_touched(nodes, kept.double(), batch)
    assert found.shape == (8, 3)
    assert not found[0].any(), "an empty part is zero and moves no other graph"
    touched = set(batch.edge_index[:, kept].flatten().tolist())
    for g in range(8):
        expected = sum((nodes[v] for v in touched if batch.batch[v] == g), torch.zeros(3, dtype=torch.float64))
        torch.testing.assert_close(found[g], expected)


def test_commitment_weighs_rare_environments_up_to_twice():
    losses = torch.tensor([[0.1, 0.9], [0.2, 0.3], [0.4, 0.5], [0.8, 0.6], [0.0, 5.0]], dtype=torch.float64)
    known = torch.tensor([True, True, True, True, False])
    total, weights = 0.0, 0.0
    for row, weight in zip(losses[:4].tolist(), [1, 1, 1, 2], strict=True):
        p = [exp(-value / 0.2) for value in row]
        total -= weight * log(max(p) / sum(p))
        weights += weight
    assert commitment(losses, known).item() == pytest.approx(total / weights, abs=1e-10)
    assert commitment(losses, torch.zeros(5, dtype=torch.bool)) == 0


def test_edges_once_chosen_stay_chosen(monkeypatch):
    store = random_store(graphs=5)
    batch = whole(store, torch.float64)
    n = batch.edge_index.shape[1]
    draws = iter([(torch.arange(n) % 3 == k).double() for k in range(3)])
    monkeypatch.setattr("mphil.methods.hse.draw_edges", lambda *_: next(draws))
    seen = []
    monkeypatch.setattr(
        "mphil.methods.hse.pool_touched",
        lambda nodes, w, b: seen.append(w.clone()) or pool_touched(nodes, w, b),
    )
    Hierarchy(TASKS["multiclass"], small_encoder(store), [4, 3, 2], 0.8).double()(batch)
    for level in range(3):
        causal = (torch.arange(n) % 3 <= level).double()
        assert torch.equal(seen[2 * level], causal)
        assert torch.equal(seen[2 * level + 1], 1 - causal)


@pytest.mark.parametrize("kind", sorted(TASKS))
def test_every_level_has_its_environments_and_its_scores_learn(kind):
    store = random_store(kind, missing=0.3)
    torch.manual_seed(0)
    model = Hierarchy(TASKS[kind], small_encoder(store), [4, 3, 2], 0.6).double()
    levels = model(whole(store, torch.float64))
    assert [level.losses.shape[1] for level in levels] == [4, 3, 2]
    sum(level.losses.sum() + level.causal.sum() for level in levels).backward()
    for scorer in model.scorers:
        assert gradient_size(scorer) > 0
