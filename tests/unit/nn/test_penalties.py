"""Penalties over environments, named and guessed."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from mphil.nn.losses import entry_losses, labelled, task_loss
from mphil.nn.penalties import (
    EnvironmentModel,
    coral_penalty,
    environment_risks,
    gradient_variance,
    graph_losses,
    irm_penalty,
    losses_by_environment,
    variance_penalty,
)
from tests.graphs import TASKS, random_store, small_encoder, whole
from tests.unit.methods.loops import known_labels, label_loss, mean
from tests.unit.nn.test_losses import labels

DOUBLE = torch.float64
cases = given(
    kind=st.sampled_from(sorted(TASKS)),
    graphs=st.integers(1, 12),
    environments=st.integers(1, 4),
    missing=st.sampled_from([0.0, 0.4, 1.0]),
    seed=st.integers(0, 999),
)
few = settings(max_examples=40, deadline=None, derandomize=True)


def draw(kind, graphs, environments, missing, seed, width=5):
    """A task, vectors, a head, labels and environments; every seventh graph or so has no environment."""
    task = TASKS[kind]
    torch.manual_seed(seed)
    z = torch.randn(graphs, width, dtype=DOUBLE) + 1.5
    head = nn.Linear(width, task.n_outputs, dtype=DOUBLE)
    env = torch.randint(environments, (graphs,)) * 3
    env[torch.rand(graphs) < 0.15] = -1
    return task, z, head, labels(task, graphs, missing, seed), env


def present(y, env):
    """Environments that have a label, by rising number, each with its graphs."""
    found = {}
    for e in sorted({e for e in env.tolist() if e >= 0}):
        graphs = [b for b in range(len(env)) if env[b] == e]
        if any(not value.isnan() for b in graphs for value in y[b]):
            found[e] = graphs
    return found


def written_variance(values):
    if len(values) < 2:
        return 0.0
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1)


@few
@cases
def test_risks_are_means_over_the_known_labels_of_each_environment(kind, graphs, environments, missing, seed):
    task, z, head, y, env = draw(kind, graphs, environments, missing, seed)
    losses = entry_losses(head(z), y, task)
    expected = []
    for members in present(y, env).values():
        known = [losses[b, t].item() for b in members for t in range(task.n_tasks) if not y[b, t].isnan()]
        expected.append(sum(known) / len(known))
    risks = environment_risks(losses, labelled(y), env)
    assert risks.tolist() == pytest.approx(expected, rel=1e-10, abs=1e-10)
    assert variance_penalty(risks).item() == pytest.approx(written_variance(expected), rel=1e-10, abs=1e-10)


@few
@cases
def test_irm_is_the_squared_slope_in_a_factor_of_the_logits(kind, graphs, environments, missing, seed):
    task, z, head, y, env = draw(kind, graphs, environments, missing, seed)
    logits, squares = head(z), []
    for members in present(y, env).values():
        factor = torch.ones((), dtype=DOUBLE, requires_grad=True)
        risk = task_loss(logits[members] * factor, y[members], task)
        (slope,) = torch.autograd.grad(risk, factor, create_graph=True)
        squares.append(slope**2)
    penalty = irm_penalty(logits, y, env, task)
    expected = sum(squares) / len(squares) if len(squares) > 1 else 0 * logits.sum()
    torch.testing.assert_close(penalty, expected, rtol=1e-10, atol=1e-10)
    found, wanted = (torch.autograd.grad(value, head.weight, retain_graph=True)[0] for value in (penalty, expected))
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-10)


@few
@cases
def test_gradient_variance_is_made_of_the_gradients_of_the_head(kind, graphs, environments, missing, seed):
    task, z, head, y, env = draw(kind, graphs, environments, missing, seed)
    z.requires_grad_()
    logits, gradients = head(z), []
    for members in present(y, env).values():
        risk = task_loss(logits[members], y[members], task)
        both = torch.autograd.grad(risk, (head.weight, head.bias), create_graph=True)
        gradients.append(torch.cat([gradient.flatten() for gradient in both]))
    expected = (
        torch.stack([written_variance(column) for column in zip(*gradients, strict=True)]).sum()
        if (len(gradients) > 1)
        else 0 * logits.sum()
    )
    penalty = gradient_variance(z, logits, y, env, task)
    torch.testing.assert_close(penalty, expected, rtol=1e-10, atol=1e-10)
    found, wanted = (torch.autograd.grad(value, z, retain_graph=True)[0] for value in (penalty, expected))
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-10)


@few
@given(graphs=st.integers(1, 14), environments=st.integers(1, 5), compat=st.booleans(), seed=st.integers(0, 999))
def test_coral_is_the_mean_distance_of_covariances(graphs, environments, compat, seed):
    _, z, _, _, env = draw("binary", graphs, environments, 0.0, seed, width=4)
    z.requires_grad_()
    covariances = []
    for e in sorted({e for e in env.tolist() if e >= 0}):
        rows = z[env == e]
        n = len(rows)
        if n < 2:
            continue
        mean = rows.mean(0)
        covariance = (rows.T @ rows - torch.outer(mean, mean)) / (n - 1) if compat else torch.cov(rows.T)
        covariances.append(covariance)
    n = len(covariances)
    distances = [((a - b) ** 2).sum() / (4 * 4**2) for a in covariances for b in covariances if a is not b]
    expected = sum(distances) / (n * (n - 1)) if n > 1 else 0 * z.sum()
    penalty = coral_penalty(z, env, compat=compat)
    torch.testing.assert_close(penalty, expected, rtol=1e-10, atol=1e-10)
    found, wanted = (torch.autograd.grad(value, z)[0] for value in (penalty, expected))
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-10)


def test_coral_does_not_see_a_shift_of_the_mean_unless_it_is_compatible():
    torch.manual_seed(0)
    z = torch.randn(6, 3, dtype=DOUBLE).repeat(2, 1)
    z[6:] += 3
    env = torch.arange(12) // 6
    assert coral_penalty(z, env) < 1e-20
    assert coral_penalty(z, env, compat=True) > 1


def test_a_penalty_carries_a_gradient():
    """Risks copied into a new tensor would make the variance a constant."""
    task, z, head, y, env = draw("multiclass", 12, 3, 0.0, seed=1)
    losses = entry_losses(head(z), y, task)
    variance_penalty(environment_risks(losses, labelled(y), env)).backward()
    assert head.weight.grad.abs().sum() > 1e-3


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("env", [[0] * 6, [-1] * 6, [5, -1, 5, 5, -1, 5]], ids=["one", "none", "one and none"])
def test_fewer_than_two_environments_are_no_penalty_and_no_gradient(kind, env):
    task, z, head, y, _ = draw(kind, 6, 1, 0.0, seed=2)
    env, z = torch.tensor(env), z.requires_grad_()
    logits = head(z)
    risks = environment_risks(entry_losses(logits, y, task), labelled(y), env)
    penalties = [
        variance_penalty(risks),
        irm_penalty(logits, y, env, task),
        gradient_variance(z, logits, y, env, task),
        coral_penalty(z, env),
    ]
    for penalty in penalties:
        (gradient,) = torch.autograd.grad(penalty, z, retain_graph=True)
        assert penalty == 0
        assert gradient.tolist() == torch.zeros_like(z).tolist()


def test_an_environment_without_labels_is_not_an_environment_without_risk():
    losses, known = torch.tensor([[2.0], [4.0], [9.0]]), torch.tensor([[True], [True], [False]])
    risks = environment_risks(losses, known, torch.tensor([0, 1, 2]))
    assert risks.tolist() == [2, 4]
    assert variance_penalty(risks) == 2


KINDS = sorted(TASKS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_graph_has_the_mean_loss_of_its_known_labels(kind):
    task = TASKS[kind]
    y = whole(random_store(kind, missing=0.5)).y.double()
    y[0] = torch.nan
    torch.manual_seed(0)
    logits = torch.randn(len(y), 3, task.n_outputs, dtype=torch.float64)
    found = losses_by_environment(logits, y, task)
    assert found.shape == (len(y), 3)
    for k in range(3):
        torch.testing.assert_close(found[:, k], graph_losses(logits[:, k], y, task))
        for i in range(len(y)):
            own = [label_loss(logits[i, k], y[i], t, task) for j, t in known_labels(y) if j == i]
            assert found[i, k].item() == pytest.approx(mean(own), abs=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_the_predictor_told_an_environment_sees_its_vector_beside_the_graphs(kind):
    store = random_store(kind, missing=0.3)
    torch.manual_seed(0)
    model = EnvironmentModel(TASKS[kind], small_encoder(store), 4).double().eval()
    assert not model.environments.any(), "they begin at zero"
    model.environments.data.normal_()
    batch = whole(store, torch.float64)
    head = torch.cat([model.from_graph.weight, model.from_environment.weight], dim=1)
    nodes = model.label_encoder(batch)
    z = torch.stack([nodes[batch.batch == i].mean(0) for i in range(len(store))])
    for k, vector in enumerate(model.environments):
        logits = torch.stack([head @ torch.cat([row, vector]) + model.from_graph.bias for row in z])
        torch.testing.assert_close(model.losses(batch)[:, k], graph_losses(logits, batch.y, TASKS[kind]))


def test_environments_part_although_they_begin_equal():
    store = random_store("binary")
    torch.manual_seed(0)
    model = EnvironmentModel(TASKS["binary"], small_encoder(store), 3).double()
    batch = whole(store, torch.float64)
    (model.posterior(batch).exp() * model.losses(batch)).sum().backward()
    gradient = model.environments.grad
    assert gradient.abs().max() > 0
    assert not torch.allclose(gradient[0], gradient[1])


def test_the_guess_depends_on_the_label():
    store = random_store("binary")
    model = EnvironmentModel(TASKS["binary"], small_encoder(store), 3).double().eval()
    batch = whole(store, torch.float64)
    before = model.posterior(batch)
    torch.testing.assert_close(before.exp().sum(1), torch.ones(len(store), dtype=torch.float64))
    batch.y = 1 - batch.y
    assert not torch.allclose(model.posterior(batch), before)
