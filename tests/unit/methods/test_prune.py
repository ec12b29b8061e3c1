"""PrunE against its definition, edge by edge."""

from __future__ import annotations

from math import exp

import pytest
import torch

from mphil.errors import UsageError
from mphil.methods import Progress
from mphil.methods.prune import PrunE, alignment, over_budget
from mphil.nn.readout import readout
from tests.graphs import TASKS
from tests.unit.methods.loops import gradient_size, make, risk, same

KINDS = sorted(TASKS)
FIRST, LATER = Progress(step=9, total_steps=100), Progress(step=10, total_steps=100)


def written_scores(method, batch):
    """The score of every edge, from the sum of the features of its ends."""
    nodes = method.selector(batch)
    return torch.stack([method.scorer(nodes[u] + nodes[v])[0] for u, v in batch.edge_index.T.tolist()])


def written_budget(mask, keep):
    share = sum(mask) / len(mask)
    return 4 * (share - keep) if share >= keep else keep - share


def written_alignment(probabilities, share):
    chosen = sorted(probabilities)[: int(share * len(probabilities))]
    return sum(abs(p - 1 / len(chosen)) for p in chosen) / 2


def logits_of(method, batch, weight):
    pooled = readout(method.encoder(batch, edge_weight=weight), batch.ptr)
    return method.head(pooled / pooled.square().sum(1, keepdim=True).sqrt())


@pytest.mark.parametrize("kind", KINDS)
def test_loss(kind):
    options = {"keep": 0.3, "keep_weight": 2.0, "lowest": 0.6, "align_weight": 0.5}
    method, batch = make(PrunE, kind, missing=0.3, **options)
    scores = written_scores(method, batch)
    probabilities = [1 / (1 + exp(-s)) for s in scores.tolist()]
    losses = method.loss(batch, LATER)
    assert set(losses) == {"classification", "budget", "alignment"}
    same(losses["classification"], risk(logits_of(method, batch, scores.sigmoid()), batch.y, method.task))
    same(losses["budget"], 2.0 * written_budget(probabilities, 0.3))
    same(losses["alignment"], 0.5 * written_alignment(probabilities, 0.6))


def test_draws_of_training_are_hard_and_learn_as_relaxed_ones():
    method, batch = make(PrunE, "multiclass", training=True)
    scores = method.score(batch).detach().requires_grad_()
    torch.manual_seed(5)
    u = torch.rand(len(scores), dtype=torch.float64)
    soft = ((scores + (u / (1 - u)).log()) / 0.2).sigmoid()
    kept = (soft > 0.5).double()
    assert 0 < kept.sum() < len(kept)
    method.score = lambda batch: scores
    torch.manual_seed(5)
    losses = method.loss(batch, LATER)
    same(losses["budget"], 10 * written_budget(kept.tolist(), 0.85))
    same(losses["classification"], risk(logits_of(method, batch, kept), batch.y, method.task))
    slope = torch.autograd.grad(losses["budget"], scores, retain_graph=True)[0]
    over = 4 if kept.mean() >= 0.85 else -1
    expected = torch.autograd.grad(10 * over * soft.mean(), scores)[0]
    torch.testing.assert_close(slope, expected)


def test_training_begins_with_whole_graphs_and_prediction_follows():
    method, batch = make(PrunE, "multiclass", training=True)
    losses = method.loss(batch, FIRST)
    assert set(losses) == {"classification"}
    losses.total.backward()
    assert gradient_size(method.selector) == gradient_size(method.scorer) == 0
    method.eval()
    torch.testing.assert_close(method.predict(batch), logits_of(method, batch, None))
    method.train().loss(batch, LATER)
    method.eval()
    torch.testing.assert_close(method.predict(batch), logits_of(method, batch, method.score(batch).sigmoid()))


def test_both_directions_of_an_edge_have_one_score():
    method, batch = make(PrunE, "multiclass")
    scores, edges = method.score(batch), batch.edge_index.T.tolist()
    opposite = [edges.index([v, u]) for u, v in edges]
    torch.testing.assert_close(scores, scores[opposite])


@pytest.mark.parametrize("term", ["classification", "budget", "alignment"])
def test_all_terms_train_the_selector(term):
    method, batch = make(PrunE, "multiclass", training=True)
    method.loss(batch, LATER)[term].backward()
    assert gradient_size(method.selector) > 0


def test_a_budget_is_overdrawn_at_four_times_the_price():
    same(over_budget(torch.ones(4).double(), 0.75), 1.0)
    same(over_budget(torch.tensor([1.0, 0.0]).double(), 0.75), 0.25)
    assert over_budget(torch.zeros(0), 0.75) == alignment(torch.zeros(0), 0.9) == 0


def test_importance_is_the_mean_probability_of_the_edges():
    method, batch = make(PrunE, "multiclass")
    probability, v = method.score(batch).sigmoid(), int(batch.edge_index[0, 0])
    own = [probability[e].item() for e, ends in enumerate(batch.edge_index.T.tolist()) for end in ends if end == v]
    same(method.node_importance(batch)[v], sum(own) / len(own))


@pytest.mark.parametrize("wrong", [{"keep": 0.0}, {"lowest": 1.5}, {"warmup": 1.0}, {"selector_layers": 0}])
def test_refuses_what_makes_no_sense(wrong):
    with pytest.raises(UsageError, match="0 < keep <= 1"):
        make(PrunE, "binary", **wrong)
