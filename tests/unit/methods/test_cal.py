"""CAL against its definition: two attentions that share a graph, an ignorant context, contexts that change place."""

from __future__ import annotations

from math import exp, isnan, log

import pytest
import torch

from mphil.methods import Progress
from mphil.methods.cal import uniform_divergence
from tests.graphs import TASKS
from tests.unit.methods.stepping import KINDS, gradient, learns_by_heart, made, mean, pooled, same, written_risk
from tests.unit.nn import reference

START = Progress()


def written_split(method, batch, how="sum"):
    """Context and object, with the softmax over two written as what is left of one."""
    nodes = method.trunk(batch).detach()
    node_logits, edge_logits = method.node_attention(nodes, batch), method.edge_attention(nodes, batch)
    node_object = torch.sigmoid(node_logits[:, 1] - node_logits[:, 0]).detach()
    edge_object = torch.sigmoid(edge_logits[:, 1] - edge_logits[:, 0]).detach()

    def part(branch, node_weight, edge_weight):
        seen = branch.convolution(branch.norm(nodes * node_weight.unsqueeze(1)), batch.edge_index, edge_weight)
        return pooled(seen.detach().clamp_min(0), torch.ones(len(nodes)), batch, how)

    context = part(method.context_branch, 1 - node_object, 1 - edge_object)
    return context, part(method.object_branch, node_object, edge_object), node_object


def written_divergence(logits, y, task):
    found = []
    for b, row in enumerate(y.tolist()):
        for t, label in enumerate(row):
            if isnan(label):
                continue
            values = logits[b].tolist()
            p = (
                reference.softmax(values)
                if task.kind == "multiclass"
                else [1 / (1 + exp(s * values[t])) for s in (1, -1)]
            )
            found.append(sum(1 / len(p) * log(1 / len(p) / one) for one in p))
    return mean(found)


@pytest.mark.parametrize("pooling", ["sum", "mean"])
@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("kind", KINDS)
def test_losses_are_their_formulas(kind, missing, pooling):
    method, batch = made("cal", kind, missing=missing, objective=2.0, context=3.0, combination=5.0, pooling=pooling)
    context, object_, _ = written_split(method, batch, pooling)
    torch.manual_seed(2)
    order = torch.randperm(len(batch.y))
    combined = torch.stack([object_[i] + context[j] for i, j in enumerate(order.tolist())])

    torch.manual_seed(2)
    losses = method.loss(batch, START)

    assert list(losses) == ["object", "context", "combination"]
    same(losses["object"], 2 * written_risk(method.object_head(object_), batch.y, method.task))
    same(losses["context"], 3 * written_divergence(method.context_head(context), batch.y, method.task))
    same(losses["combination"], 5 * written_risk(method.combination_head(combined), batch.y, method.task))


def test_a_combination_has_the_label_of_its_object():
    method, batch = made("cal", combination=1.0)
    context, object_, _ = written_split(method, batch)
    torch.manual_seed(2)
    order = torch.randperm(len(batch.y))
    wrong = written_risk(method.combination_head(object_ + context[order]), batch.y[order], method.task)
    torch.manual_seed(2)
    assert abs(method.loss(batch, START)["combination"].item() - wrong) > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_ignorance_costs_nothing_and_certainty_does(kind):
    task = TASKS[kind]
    ignorant = torch.full((3, task.n_outputs), 0.7 if kind == "multiclass" else 0.0, dtype=torch.float64)
    same(uniform_divergence(ignorant, task), [[0.0] * task.n_tasks] * 3)
    certain = ignorant.clone()
    certain[:, 0] = 60.0
    assert (uniform_divergence(certain, task)[:, 0] > 5).all()


def test_every_head_looks_at_logits_and_every_part_learns():
    """The loss is taken on what the heads say: each head, the attention and the trunk have a gradient."""
    method, batch = made("cal")
    losses = method.loss(batch, START)
    for term, head in (
        ("object", method.object_head),
        ("context", method.context_head),
        ("combination", method.combination_head),
    ):
        for part in (head, method.node_attention, method.edge_attention, method.trunk):
            assert gradient(losses[term], part) > 1e-8, term
    assert gradient(losses["object"], method.context_branch) == 0
    assert gradient(losses["context"], method.object_branch) == 0


def test_a_graph_is_predicted_by_its_object_alone():
    method, batch = made("cal")
    context, object_, node_object = written_split(method, batch)
    same(method.split(batch)[0], context.tolist())
    same(method.embed(batch), object_.tolist())
    same(method.predict(batch), method.object_head(object_).tolist())
    same(method.node_importance(batch), node_object.tolist())


def test_all_heads_exist_from_the_start():
    method, batch = made("cal")
    names = {name for name, _ in method.named_parameters()}
    method.loss(batch, START)
    assert {name for name, _ in method.named_parameters()} == names
    assert {"combination_head.1.weight", "context_head.4.bias", "object_head.4.weight"} <= names


def test_learns_a_handful_of_graphs_by_heart():
    assert learns_by_heart("cal")
