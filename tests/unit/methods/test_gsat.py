"""GSAT against its definition, and what the public versions get wrong."""

from __future__ import annotations

from math import log

import pytest
import torch

from mphil.errors import UsageError
from mphil.methods import Progress
from mphil.methods.gsat import GSAT
from mphil.nn.masks import information
from mphil.nn.readout import readout
from tests.graphs import TASKS
from tests.unit.methods.loops import gradient_size, make, mean, risk, same

KINDS = sorted(TASKS)
BOTH = ("edge", "node")


def written_information(attention, r):
    eps = 1e-6
    terms = [a * log(a / r + eps) + (1 - a) * log((1 - a) / (1 - r + eps) + eps) for a in attention.tolist()]
    return mean(terms)


def lifted(attention, batch, over):
    """The attention of every edge: mean of both directions, or product of the ends."""
    edges = batch.edge_index.T.tolist()
    if over == "node":
        return torch.stack([attention[u] * attention[v] for u, v in edges])
    opposite = [edges.index([v, u]) for u, v in edges]
    return torch.stack([(attention[e] + attention[back]) / 2 for e, back in enumerate(opposite)])


@pytest.mark.parametrize("over", BOTH)
@pytest.mark.parametrize("kind", KINDS)
def test_loss(kind, over):
    method, batch = make(GSAT, kind, missing=0.3, attention=over, weight=2.0)
    attention = method.scorer(method.encoder(batch), batch).sigmoid()
    h = method.encoder(batch, edge_weight=lifted(attention, batch, over))
    logits = method.head(readout(h, batch.ptr))
    losses = method.loss(batch, Progress(step=45, total_steps=200))
    assert set(losses) == {"classification", "information"}
    same(losses["classification"], risk(logits, batch.y, method.task))
    same(losses["information"], 2.0 * written_information(attention, 0.7))
    torch.testing.assert_close(method.predict(batch), logits)


def test_in_training_attention_is_drawn_and_both_terms_see_the_same_draw():
    method, batch = make(GSAT, "multiclass", dropout=0.0, training=True)
    logits = method.scorer(method.encoder(batch), batch)
    torch.manual_seed(5)
    u = torch.rand(len(logits), dtype=torch.float64)
    drawn = (logits + (u / (1 - u)).log()).sigmoid()
    torch.manual_seed(5)
    losses = method.loss(batch, Progress())
    same(losses["information"], written_information(drawn, 0.9))
    h = method.encoder(batch, edge_weight=lifted(drawn, batch, "edge"))
    same(losses["classification"], risk(method.head(readout(h, batch.ptr)), batch.y, method.task))


@pytest.mark.parametrize(("epochs", "interval", "final"), [(200, 20, 0.5), (200, 20, 0.7), (100, 10, 0.7)])
def test_the_prior_is_the_published_one_in_a_run_of_the_published_length(epochs, interval, final):
    method, _ = make(GSAT, "binary", interval=interval / epochs, final=final)
    for epoch in range(epochs):
        for step in (7 * epoch, 7 * epoch + 6):
            published = max(final, 0.9 - 0.1 * (epoch // interval))
            assert method.prior(Progress(step=step, total_steps=7 * epochs)) == pytest.approx(published)


@pytest.mark.parametrize("steps", [10, 36, 5000])
def test_a_run_of_any_length_sees_the_whole_schedule(steps):
    method, _ = make(GSAT, "binary")
    priors = [method.prior(Progress(step=step, total_steps=steps)) for step in range(steps + 1)]
    assert priors[0] == 0.9
    assert priors[steps // 2] == priors[-1] == 0.5
    assert len(set(priors)) == 5
    assert priors == sorted(priors, reverse=True)


def test_both_directions_of_an_edge_get_the_same_attention():
    # GOOD's transpose returns the values in their old order: an average of each with itself.
    method, batch = make(GSAT, "multiclass")
    torch.manual_seed(0)
    attention = torch.rand(batch.edge_index.shape[1], dtype=torch.float64)
    found = method.edge_attention(batch, attention)
    torch.testing.assert_close(found, lifted(attention, batch, "edge"))
    assert not torch.equal(found, attention)


@pytest.mark.parametrize("over", BOTH)
@pytest.mark.parametrize("term", ["classification", "information"])
def test_both_terms_train_the_scorer_and_the_encoder_before_it(over, term):
    method, batch = make(GSAT, "multiclass", attention=over, training=True)
    method.loss(batch, Progress())[term].backward()
    assert gradient_size(method.scorer) > 0
    assert gradient_size(method.encoder) > 0


@pytest.mark.parametrize("over", BOTH)
def test_the_information_is_zero_at_the_prior_and_finite_at_the_ends(over):
    assert abs(information(torch.full((4,), 0.7), 0.7).item()) < 1e-5
    ends = torch.tensor([0.0, 1.0], requires_grad=True)
    information(ends, 0.7).backward()
    assert ends.grad.isfinite().all()
    assert information(torch.zeros(0), 0.7) == 0


def test_importance_is_the_attention():
    method, batch = make(GSAT, "multiclass", attention="node")
    assert torch.equal(method.node_importance(batch), method.attend(batch))
    method, batch = make(GSAT, "multiclass", attention="edge")
    edges = method.edge_attention(batch, method.attend(batch))
    v = int(batch.edge_index[0, 0])
    own = [edges[e].item() for e, ends in enumerate(batch.edge_index.T.tolist()) for end in ends if end == v]
    same(method.node_importance(batch)[v], mean(own))


@pytest.mark.parametrize(
    "wrong", [{"final": 0.95}, {"final": 0.0}, {"start": 1.2}, {"interval": 0.0}, {"interval": 20}]
)
def test_refuses_a_prior_that_makes_no_sense(wrong):
    with pytest.raises(UsageError, match="final <= start"):
        make(GSAT, "binary", **wrong)
