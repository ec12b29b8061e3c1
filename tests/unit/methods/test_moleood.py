"""MoleOOD against its definition, and what the public version makes easy to get wrong."""

from __future__ import annotations

from itertools import pairwise
from math import erf, exp, log, sqrt

import pytest
import torch

from mphil.graphs.batch_fragments import cut_edges, fragments
from mphil.methods import Progress
from mphil.methods.moleood import MoleOOD, environment_prior
from mphil.nn.penalties import graph_losses
from mphil.testing.trial import labelled_molecules, to_dtype
from tests.graphs import TASKS, small_encoder
from tests.unit.methods.loops import gradient_size, mean, same

KINDS = sorted(TASKS)
FIRST, MAIN = Progress(stage="environments"), Progress()


def build(kind="binary", *, readout="mean", missing=True, **options):
    store = labelled_molecules(TASKS[kind])
    torch.manual_seed(0)
    encoder = small_encoder(store, readout=readout, kind="vgin", layers=3)
    method = MoleOOD(TASKS[kind], encoder, **{"environments": 3, **options}).double().eval()
    method.latent.environments.data.normal_()
    batch = to_dtype(store.batch(torch.arange(len(store))), torch.float64)
    if missing:
        batch.y[2] = torch.nan
    return method, batch


def labelled_graphs(batch):
    return [i for i, row in enumerate(batch.y.tolist()) if any(value == value for value in row)]


@pytest.mark.parametrize("prior", ["uniform", "normal"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_stage(kind, prior):
    method, batch = build(kind, prior=prior)
    q, losses = method.latent.posterior(batch).exp().tolist(), method.latent.losses(batch).tolist()
    pi = method.prior.tolist()
    known = labelled_graphs(batch)
    found = method.loss(batch, FIRST)
    assert set(found) == {"expectation", "divergence"}
    same(found["expectation"], mean([sum(q[i][k] * losses[i][k] for k in range(3)) for i in known]))
    divergence = sum(q[i][k] * (log(q[i][k]) - log(pi[k])) for i in known for k in range(3))
    same(found["divergence"], divergence)


@pytest.mark.parametrize("prior", ["uniform", "normal"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_main_stage(kind, prior):
    method, batch = build(kind, weight=0.3, prior=prior)
    pi = method.prior.tolist()
    own = graph_losses(method.predict(batch), batch.y, method.task).tolist()
    told = method.latent.losses(batch).tolist()
    environment = method.latent.posterior(batch).argmax(1).tolist()
    known = labelled_graphs(batch)
    risks = [mean([own[i] for i in known if environment[i] == e]) for e in {environment[i] for i in known}]
    found = method.loss(batch, MAIN)
    assert set(found) == {"environments", "deviation"}
    same(found["environments"], 0.3 * mean(risks))
    reference = [sum(p * value for p, value in zip(pi, row, strict=True)) for row in told]
    same(found["deviation"], mean([abs(own[i] - reference[i]) for i in known]))


def test_the_weight_is_that_of_the_mean_and_not_of_the_deviation():
    (light, batch), (heavy, _) = build(weight=0.1), build(weight=1.0)
    light, heavy = light.loss(batch, MAIN), heavy.loss(batch, MAIN)
    torch.testing.assert_close(10 * light["environments"], heavy["environments"])
    torch.testing.assert_close(light["deviation"], heavy["deviation"])


@pytest.mark.parametrize("readout", ["mean", "sum"])
def test_a_molecule_is_its_attended_fragments(readout):
    method, batch = build(readout=readout)
    cut = cut_edges(batch)
    fragment, graph = fragments(batch, cut)
    assert len(graph) > len(batch.y) + 5
    alone = batch.clone()
    alone.edge_index, alone.edge_attr = batch.edge_index[:, ~cut], batch.edge_attr[~cut]
    nodes, whole = method.fragment_encoder(alone), method.encoder(batch)

    def pool(rows):
        return rows.mean(0) if readout == "mean" else rows.sum(0)

    s = [pool(nodes[fragment == f]) for f in range(len(graph))]
    importance = method.node_importance(batch)
    for i in range(len(batch.y)):
        g = pool(whole[batch.batch == i])
        own = [f for f in range(len(graph)) if graph[f] == i]
        scores = [exp((method.query(g) @ method.key(s[f])).item() / sqrt(6)) for f in own]
        attention = [score / sum(scores) for score in scores]
        torch.testing.assert_close(method.embed(batch)[i], sum(a * s[f] for a, f in zip(attention, own, strict=True)))
        for a, f in zip(attention, own, strict=True):
            torch.testing.assert_close(importance[fragment == f], torch.full_like(importance[fragment == f], a))


def test_the_environments_stand_still_in_the_main_stage():
    method, batch = build()
    method.train()
    before = {name: value.clone() for name, value in method.latent.state_dict().items()}
    losses = method.loss(batch, MAIN)
    losses.total.backward()
    assert gradient_size(method.latent) == 0, "the reference loss is a number"
    assert gradient_size(method.fragment_encoder) > 0
    assert gradient_size(method.query) > 0
    assert all(torch.equal(value, before[name]) for name, value in method.latent.state_dict().items())
    assert method.latent.training, "the mode is what it was"
    method.zero_grad()
    method.loss(batch, FIRST).total.backward()
    assert gradient_size(method.latent) > 0
    assert all(gradient_size(m) == 0 for m in (method.encoder, method.fragment_encoder, method.head))


def test_each_stage_moves_its_own_parameters():
    method, batch = build()
    groups = method.param_groups()
    assert set(groups["environments"]) == set(method.latent.parameters())
    assert set(groups["environments"]) | set(groups["main"]) == set(method.parameters())
    for progress in (FIRST, MAIN):
        assert [name for name, _ in method.steps(batch, progress)] == [
            "environments" if progress.stage == "environments" else "main"
        ]
    assert method.stages() == {"environments": 0.4}


@pytest.mark.parametrize("environments", [1, 4, 7])
def test_the_prior(environments):
    uniform, normal = (environment_prior(environments, shape).double() for shape in ("uniform", "normal"))
    torch.testing.assert_close(uniform, torch.full_like(uniform, 1 / environments))
    ends = [-3 + 6 * k / environments for k in range(environments + 1)]
    mass = [(erf(b / sqrt(2)) - erf(a / sqrt(2))) / 2 for a, b in pairwise(ends)]
    torch.testing.assert_close(
        normal, torch.tensor([m / sum(mass) for m in mass], dtype=torch.float64), rtol=1e-5, atol=1e-6
    )


def test_a_batch_without_labels():
    method, batch = build()
    batch.y[:] = torch.nan
    for progress in (FIRST, MAIN):
        assert method.loss(batch, progress).total == 0
