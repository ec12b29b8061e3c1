"""IRM, VREx and Coral: ERM's loss plus a weighted penalty, written out."""

from __future__ import annotations

import pytest
import torch

from mphil.methods import METHODS, Progress
from mphil.nn.losses import task_loss
from tests.graphs import TASKS, random_store, small_encoder, whole

NAMES = ("irm", "vrex", "coral")
PENALTY = {"irm": "invariance", "vrex": "variance", "coral": "alignment"}


def make(name, kind="multiclass", missing=0.2, **options):
    store = random_store(kind, graphs=14, environments=3, missing=missing)
    torch.manual_seed(0)
    method = METHODS[name](TASKS[kind], small_encoder(store), **options).double()
    return method, whole(store, torch.float64)


def written(name, method, batch, compat=False):
    """The penalty by loops over the environments, with derivatives taken by autograd."""
    with torch.no_grad():
        z = method.embed(batch)
        logits = method.head(z)
    parts = [batch.env == e for e in range(3)]
    parts = [part for part in parts if not batch.y[part].isnan().all()]
    risks = [task_loss(logits[part], batch.y[part], method.task) for part in parts]
    if name == "vrex":
        return torch.stack(risks).var()
    if name == "irm":
        factor = torch.ones((), dtype=torch.float64, requires_grad=True)
        scaled = [task_loss(factor * logits[part], batch.y[part], method.task) for part in parts]
        return torch.stack([torch.autograd.grad(risk, factor)[0] ** 2 for risk in scaled]).mean()
    covariances = []
    for e in range(3):
        rows = z[batch.env == e]
        mean = torch.outer(rows.mean(0), rows.mean(0))
        covariances.append((rows.T @ rows - (1 if compat else len(rows)) * mean) / (len(rows) - 1))
    pairs = [(a, b) for a in covariances for b in covariances if a is not b]
    return torch.stack([((a - b) ** 2).sum() for a, b in pairs]).mean() / (4 * z.shape[1] ** 2)


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("name", NAMES)
def test_loss_is_the_risk_plus_the_weighted_penalty(name, kind):
    method, batch = make(name, kind, weight=7.0)
    losses = method.loss(batch, Progress())
    assert list(losses) == ["classification", PENALTY[name]]
    torch.testing.assert_close(losses["classification"], task_loss(method.predict(batch), batch.y, method.task))
    expected = 7 * written(name, method, batch)
    torch.testing.assert_close(losses[PENALTY[name]].detach(), expected, rtol=1e-10, atol=1e-10)
    assert expected > 1e-6


def test_compatible_coral_does_not_centre():
    method, batch = make("coral", compat=True, weight=1.0)
    penalty = method.loss(batch, Progress())["alignment"].detach()
    torch.testing.assert_close(penalty, written("coral", method, batch, compat=True), rtol=1e-10, atol=1e-10)
    assert abs(penalty - written("coral", method, batch)) > 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_the_penalty_teaches_the_encoder(name):
    method, batch = make(name)
    method.loss(batch, Progress())[PENALTY[name]].backward()
    assert sum(p.grad.abs().sum() for p in method.encoder.parameters() if p.grad is not None) > 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_nothing_but_encoder_and_head_is_learned(name):
    """The factor of the logits in IRM is a thought, not a weight."""
    method, _ = make(name)
    erm = METHODS["erm"](method.task, small_encoder(random_store()))
    assert [n for n, _ in method.named_parameters()] == [n for n, _ in erm.named_parameters()]


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("name", NAMES)
def test_one_environment_is_erm_in_loss_and_gradient(name, kind):
    method, batch = make(name, kind, weight=1000.0)
    erm = METHODS["erm"](method.task, small_encoder(random_store(kind))).double()
    erm.load_state_dict(method.state_dict())
    batch.env.fill_(2)
    losses = [model.loss(batch, Progress()).total for model in (method, erm)]
    for loss in losses:
        loss.backward()
    assert losses[0] == losses[1]
    for (name_, ours), theirs in zip(method.named_parameters(), erm.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad), name_


@pytest.mark.parametrize("name", NAMES)
def test_predicts_as_erm_does(name):
    method, batch = make(name)
    assert torch.equal(method.eval().predict(batch), method.head(method.embed(batch)))
