"""Losses of graphs under environments, one label at a time."""

from __future__ import annotations

import pytest
import torch

from mphil.nn.latent import EnvironmentModel, graph_losses, losses_by_environment
from tests.graphs import TASKS, random_store, small_encoder, whole
from tests.unit.methods.loops import known_labels, label_loss, mean

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
