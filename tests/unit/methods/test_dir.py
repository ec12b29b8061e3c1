"""DIR against its definition, graph by graph, and what its public versions get wrong."""

from __future__ import annotations

import math

import pytest
import torch

from mphil.errors import UsageError
from mphil.methods import Progress
from mphil.methods.dir import DIR, intervened_risks
from mphil.nn import rationale
from tests.graphs import TASKS
from tests.unit.methods.loops import gradient_size, make, mean, risk, same, variance

KINDS = sorted(TASKS)
LATER = Progress(step=30, epoch=3, total_steps=100, total_epochs=10)


def written(method, batch, strength, divide=1.0):
    """The four terms from the two representations, in loops."""
    _, weight, kept = method.extractor(batch)
    nodes = method.extractor.encoder(batch)
    parts = rationale.cut(batch, weight, kept)
    c, s = (method.represent(part, nodes).detach() for part in parts)
    logits, rest = method.head(c).detach(), method.rest_head(s).detach()
    B = len(c)
    gates = [[1 / (1 + math.exp(-value)) for value in row] for row in rest.tolist()]
    risks = [risk(logits * torch.tensor(gate, dtype=torch.float64), batch.y, method.task) / divide for gate in gates]
    return {
        "classification": risk(logits, batch.y, method.task),
        "rest": risk(rest, batch.y, method.task),
        "intervention": strength * mean(risks),
        "variance": strength * variance([B * value for value in risks]),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_loss_after_three_tenths_of_training(kind):
    method, batch = make(DIR, kind, missing=0.3, weight=0.05, share=0.6)
    expected = written(method, batch, 0.05 * 0.3**1.6)
    losses = method.loss(batch, LATER)
    assert set(losses) == set(expected)
    for term, value in expected.items():
        same(losses[term], value)


def test_the_schedule_behind_the_published_numbers():
    method, batch = make(DIR, "multitask", missing=0.3, weight=0.05, compat=True)
    known = int((~batch.y.isnan()).sum())
    expected = written(method, batch, 2 / (1 + math.exp(-3.0)) - 1, divide=known)
    for term, value in method.loss(batch, LATER).items():
        same(value, expected[term])


def test_interventions_begin_at_nothing():
    method, batch = make(DIR, "binary")
    losses = method.loss(batch, Progress(step=0, total_steps=10))
    assert losses["intervention"] == losses["variance"] == 0
    assert method.loss(batch, Progress(step=1, total_steps=10))["variance"] > 0


@pytest.mark.parametrize(("published", "translated"), [(1e-4, 0.48), (1e-2, 48.0)])
def test_the_published_schedule_as_a_share_of_its_200_epochs(published, translated):
    method, _ = make(DIR, "binary", weight=translated)
    for epoch in (0, 1, 100, 150, 200):
        strength = method.strength(Progress(step=40 * epoch, total_steps=40 * 200))
        assert strength == pytest.approx(published * epoch**1.6, rel=2e-3)
    assert method.strength(Progress(step=5, total_steps=10)) == pytest.approx(translated * 0.5**1.6)
    assert method.strength(Progress(step=3, total_steps=3)) == translated


def test_the_loss_of_the_rest_trains_its_head_alone():
    method, batch = make(DIR, "multiclass")
    method.loss(batch, LATER)["rest"].backward()
    assert gradient_size(method.rest_head) > 0
    assert gradient_size(method.encoder) == gradient_size(method.extractor) == gradient_size(method.head) == 0


@pytest.mark.parametrize("term", ["intervention", "variance"])
def test_interventions_train_the_rationale_and_not_the_head_of_the_rest(term):
    method, batch = make(DIR, "multiclass", weight=1.0)
    method.loss(batch, LATER)[term].backward()
    assert gradient_size(method.rest_head) == 0
    for module in (method.head, method.encoder, method.extractor.scorer, method.extractor.encoder):
        assert gradient_size(module) > 0


def test_the_rest_leaves_the_statistics_of_prediction_alone():
    method, batch = make(DIR, "multiclass", training=True)
    other, _ = make(DIR, "multiclass", training=True)
    method.loss(batch, LATER)
    other.embed(batch)
    for name, value in method.named_buffers():
        if "running" in name:
            assert torch.equal(value, other.get_buffer(name)), name


def test_one_gate_for_all_labels_of_a_graph_and_one_risk_for_each_gate():
    logits, y = torch.tensor([[2.0], [-1.0]]).double(), torch.tensor([[1.0], [0.0]])
    risks = intervened_risks(logits, torch.tensor([[0.5], [0.0]]).double(), y, TASKS["binary"])
    same(risks[0], (math.log(1 + math.exp(-1.0)) + math.log(1 + math.exp(-0.5))) / 2)
    same(risks[1], math.log(2))


def test_predicts_from_the_rationale_and_names_its_nodes():
    method, batch = make(DIR, "multiclass", share=0.5)
    nodes, weight, kept = method.extractor(batch)
    decisive, _ = rationale.cut(batch, weight, kept)
    torch.testing.assert_close(method.predict(batch), method.head(method.represent(decisive, nodes)))
    importance = method.node_importance(batch)
    touched = torch.zeros(len(batch.x), dtype=torch.bool)
    touched[batch.edge_index[:, kept].flatten()] = True
    assert torch.equal(importance > 0, touched)


def test_refuses_an_empty_rationale():
    with pytest.raises(UsageError, match="share"):
        make(DIR, "binary", share=0.0)
