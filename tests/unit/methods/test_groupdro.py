"""GroupDRO against its definition, environment by environment."""

from __future__ import annotations

from math import exp

import pytest
import torch

from mphil.errors import UsageError
from mphil.methods import METHODS, Progress
from mphil.methods.groupdro import GroupDRO
from tests.graphs import TASKS, random_store, small_encoder, whole
from tests.unit.methods.loops import known_labels, label_loss, mean, same

KINDS = sorted(TASKS)
BEFORE = torch.tensor([[0.3], [-0.2], [0.9]], dtype=torch.float64)


def make(kind="multiclass", missing=0.2, environments=3, **options):
    store = random_store(kind, graphs=14, environments=environments, missing=missing)
    torch.manual_seed(0)
    method = GroupDRO(TASKS[kind], small_encoder(store), **options).double()
    return method.eval(), whole(store, torch.float64)


def written_risks(method, batch):
    """{environment: mean loss of its labels}."""
    logits, found = method.predict(batch).detach(), {}
    for i, t in known_labels(batch.y):
        found.setdefault(int(batch.env[i]), []).append(label_loss(logits[i], batch.y[i], t, method.task))
    return {e: mean(losses) for e, losses in found.items() if e >= 0}


def written(risks, q):
    total = sum(q[e] for e in risks)
    return sum(q[e] / total * risk for e, risk in risks.items())


@pytest.mark.parametrize("kind", KINDS)
def test_loss(kind):
    method, batch = make(kind, step=0.7)
    method.log_weight.write(torch.arange(3), BEFORE)
    risks = written_risks(method, batch)
    assert len(risks) == 3
    q = {e: exp(BEFORE[e].item() + 0.7 * risks[e]) for e in risks}
    losses = method.loss(batch, Progress())
    assert list(losses) == ["robust"]
    same(losses["robust"], written(risks, q))


def test_training_multiplies_the_weights_by_the_exponential_of_the_risk():
    method, batch = make(step=0.7, missing=0.0)
    for norm in method.modules():
        if isinstance(norm, torch.nn.BatchNorm1d):
            norm.eval()
    method.training = True
    risks = written_risks(method, batch)
    for step in (1, 2, 3):
        loss = method.loss(batch, Progress())["robust"]
        same(loss, written(risks, {e: exp(0.7 * step * risk) for e, risk in risks.items()}))
        for e, risk in risks.items():
            same(method.log_weight.values[e, 0], 0.7 * step * risk)


def test_the_environment_that_fares_worst_counts_most():
    method, batch = make(step=1000.0)
    same(method.loss(batch, Progress())["robust"], max(written_risks(method, batch).values()))


def test_environments_that_are_absent_keep_their_weight():
    method, batch = make(step=0.7)
    method.log_weight.write(torch.arange(3), BEFORE)
    batch.env[batch.env == 1] = -1
    risks = written_risks(method, batch)
    assert sorted(risks) == [0, 2]
    method.train().loss(batch, Progress())
    same(method.log_weight.values[1, 0], -0.2)
    method.log_weight.write(torch.arange(3), BEFORE)
    method.eval()
    risks = written_risks(method, batch)
    q = {0: exp(0.3 + 0.7 * risks[0]), 2: exp(0.9 + 0.7 * risks[2])}
    same(method.loss(batch, Progress())["robust"], written(risks, q))


@pytest.mark.parametrize("kind", KINDS)
def test_one_environment_is_erm_in_loss_and_gradient(kind):
    method, batch = make(kind, step=1.0)
    erm = METHODS["erm"](method.task, small_encoder(random_store(kind))).double().eval()
    erm.load_state_dict({name: value for name, value in method.state_dict().items() if "log_weight" not in name})
    batch.env.fill_(2)
    for model in (method, erm):
        model.loss(batch, Progress()).total.backward()
    for (name, ours), theirs in zip(method.named_parameters(), erm.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-12, msg=name)


def test_a_new_instance_takes_the_weights_of_any_number_of_environments():
    method, batch = make(environments=5)
    method.train().loss(batch, Progress())
    fresh, _ = make()
    fresh.load_state_dict(method.state_dict())
    assert torch.equal(fresh.log_weight.values, method.log_weight.values)
    assert len(fresh.log_weight.values) == 5


def test_refuses_to_favour_what_fares_well():
    with pytest.raises(UsageError, match="step >= 0, not -0.1"):
        make(step=-0.1)
