"""LECI against its definition: two adversaries, and gradients that come back reversed."""

from __future__ import annotations

from math import exp, log

import pytest
import torch

from mphil.errors import UsageError
from mphil.methods import Parts, Progress
from mphil.methods.leci import LECI, reverse_gradient
from mphil.nn.readout import readout
from tests.graphs import TASKS
from tests.unit.methods.loops import gradient_size, make, mean, risk, same

KINDS = sorted(TASKS)
LATER = Progress(step=30, total_steps=100)
STRENGTH = 2 / (1 + exp(-3.0)) - 1


def prepared(kind="multiclass", **options):
    method, batch = make(LECI, kind, **options)
    method.prepare(Parts([batch]))
    return method, batch


def averaged(attention, batch):
    edges = batch.edge_index.T.tolist()
    return torch.stack([(attention[e] + attention[edges.index([v, u])]) / 2 for e, (u, v) in enumerate(edges)])


def written_environment_loss(logits, env):
    """Cross-entropy of the environments, over the outputs of those that occur."""
    numbers = sorted(set(env.tolist()) - {-1})
    losses = []
    for row, e in zip(logits.tolist(), env.tolist(), strict=True):
        if e >= 0:
            losses.append(log(sum(exp(value) for value in row[: len(numbers)])) - row[numbers.index(e)])
    return mean(losses)


def written_information(attention, r):
    eps = 1e-6
    return mean([a * log(a / r + eps) + (1 - a) * log((1 - a) / (1 - r + eps) + eps) for a in attention.tolist()])


@pytest.mark.parametrize("feature", [0.0, 0.4])
@pytest.mark.parametrize("kind", KINDS)
def test_loss(kind, feature):
    method, batch = make(LECI, kind, missing=0.3, feature=feature, information=2.0)
    batch.env = torch.tensor([7, 2, 9])[batch.index % 3]
    method.prepare(Parts([batch]))
    batch.env[0] = -1
    x = method.filter(batch.x) if feature else None
    attention = method.scorer(method.attender(batch, x=x), batch).sigmoid()
    weight = averaged(attention, batch)
    h = readout(method.encoder(batch, x=x, edge_weight=weight), batch.ptr)
    g = readout(method.label_encoder(batch, x=x, edge_weight=1 - weight), batch.ptr)
    e = readout(method.environment_encoder(batch, x=x, edge_weight=weight), batch.ptr)
    expected = {
        "classification": risk(method.head(h), batch.y, method.task),
        "label": risk(method.label_head(g), batch.y, method.task),
        "environment": written_environment_loss(method.environment_head(e), batch.env),
        "information": 2.0 * written_information(attention, 0.8),
    }
    if feature:
        seen = readout(method.feature_adversary(x), batch.ptr)
        expected["feature"] = written_environment_loss(method.feature_head(seen), batch.env)
    losses = method.loss(batch, LATER)
    assert set(losses) == set(expected)
    for term, value in expected.items():
        same(losses[term], value)
    torch.testing.assert_close(method.predict(batch), method.head(h))


@pytest.mark.parametrize(("term", "strength"), [("label", 3.0), ("environment", 0.7)])
def test_the_attention_learns_against_the_adversaries(term, strength):
    found = {}
    for reversed_ in (strength, 0.0):
        method, batch = prepared(information=0.0, **{term: reversed_})
        scores = method.score(batch, method.filtered(batch)).detach().requires_grad_()
        method.score = lambda batch, x, scores=scores: scores
        found[reversed_] = torch.autograd.grad(method.loss(batch, LATER)[term], scores)[0]
    assert torch.equal(found[0.0], torch.zeros_like(found[0.0]))
    weight = averaged(scores.sigmoid(), batch)
    encoder, head = getattr(method, f"{term}_encoder"), getattr(method, f"{term}_head")
    seen = 1 - weight if term == "label" else weight
    logits = head(readout(encoder(batch, x=method.filtered(batch), edge_weight=seen), batch.ptr))
    if term == "label":
        loss = torch.nn.functional.cross_entropy(logits, batch.y[:, 0].long())
    else:
        loss = method.environment_loss(logits, batch.env)
    expected = -strength * STRENGTH * torch.autograd.grad(loss, scores)[0]
    torch.testing.assert_close(found[strength], expected)


def test_adversaries_learn_to_be_right():
    method, batch = prepared()
    method.loss(batch, LATER)["label"].backward()
    assert gradient_size(method.label_head) > 0
    assert gradient_size(method.encoder) == gradient_size(method.environment_encoder) == 0
    x = torch.tensor(0.3)
    assert torch.equal(reverse_gradient(x, 5.0), x)


def test_reversal_begins_at_nothing():
    method, batch = prepared(information=0.0)
    method.loss(batch, Progress())["environment"].backward()
    assert gradient_size(method.scorer) == 0
    assert gradient_size(method.environment_encoder) > 0


def test_prior_and_temperature_follow_the_published_200_epochs():
    method, _ = make(LECI, "binary", interval=60 / 200, temperature=10.0, final_temperature=0.1)
    for epoch in (0, 59, 60, 119, 120, 199):
        progress = Progress(step=7 * epoch, total_steps=7 * 200)
        assert method.prior(progress) == pytest.approx(max(0.5, 0.9 - 0.1 * (epoch // 60)))
        assert method.temperature_at(progress) == pytest.approx((epoch * 0.1 + (200 - epoch) * 10) / 200)


def test_draws_of_training_have_the_temperature():
    method, batch = prepared(training=True, temperature=4.0, final_temperature=4.0)
    x = method.filtered(batch).detach()
    scores = method.score(batch, x).detach()
    method.filtered, method.score = lambda batch: x, lambda batch, x: scores
    torch.manual_seed(5)
    u = torch.rand(len(scores), dtype=torch.float64)
    torch.manual_seed(5)
    losses = method.loss(batch, LATER)
    same(losses["information"], written_information(((scores + (u / (1 - u)).log()) / 4).sigmoid(), 0.8))


def test_without_features_nothing_is_filtered():
    method, batch = prepared(nodes="constant", edges="none")
    assert method.filter is None
    assert "feature" not in method.loss(batch, LATER)


def test_more_environments_than_outputs_are_refused():
    method, batch = make(LECI, "binary", environments=1)
    with pytest.raises(UsageError, match="have 2 environments .* outputs for 1; use --set method.environments=2"):
        method.prepare(Parts([batch]))


def test_importance_is_the_mean_attention_of_the_edges():
    method, batch = prepared()
    weight = averaged(method.score(batch, method.filtered(batch)).sigmoid(), batch)
    v = int(batch.edge_index[0, 0])
    own = [weight[e].item() for e, ends in enumerate(batch.edge_index.T.tolist()) for end in ends if end == v]
    same(method.node_importance(batch)[v], mean(own))


@pytest.mark.parametrize(
    "wrong",
    [{"label": -1.0}, {"interval": 20.0}, {"temperature": 0.0}, {"final_temperature": -1.0}, {"environments": 0}],
)
def test_refuses_what_makes_no_sense(wrong):
    with pytest.raises(UsageError, match="leci needs"):
        make(LECI, "binary", **wrong)
