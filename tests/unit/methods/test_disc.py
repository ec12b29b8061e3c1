"""DisC against its definition: weights per label, amplified bias, swaps with their labels, and who learns from what."""

from __future__ import annotations

from math import exp

import pytest
import torch

from mphil.errors import UsageError
from mphil.methods import Progress
from tests.unit.methods.stepping import KINDS, gradient, learns_by_heart, made, mean, same, written_losses

EARLY, LATE = Progress(step=0, total_steps=10), Progress(step=5, total_steps=10)


def beside(causal, bias):
    return torch.cat([causal, bias], dim=1)


def written(method, batch, q, weighting="batch", order=None):
    """All terms without their weights, label by label."""
    causal, bias = (part.detach() for part in method.parts(batch))
    y, task = batch.y, method.task
    l_c = written_losses(method.causal_head(beside(causal, bias)), y, task)
    l_b = written_losses(method.bias_head(beside(causal, bias)), y, task)
    if weighting == "batch":
        causal_mean, bias_mean = mean(l_c.values()), mean(l_b.values())
        weight = dict.fromkeys(l_c, bias_mean / (bias_mean + causal_mean + 1e-8))
    else:
        weight = {entry: l_b[entry] / (l_b[entry] + l_c[entry] + 1e-8) for entry in l_c}
    found = {
        "causal": mean(weight[entry] * l_c[entry] for entry in l_c),
        "bias": mean(q * exp(-l_b[entry]) ** q * l_b[entry] for entry in l_b),
    }
    if order is not None:
        l_c = written_losses(method.causal_head(beside(causal, bias[order])), y, task)
        l_b = written_losses(method.bias_head(beside(causal, bias[order])), y[order], task)
        found["swapped_causal"] = mean(weight[entry] * l_c[entry] for entry in l_c)
        found["swapped_bias"] = mean(q * exp(-l_b[entry]) ** q * l_b[entry] for entry in l_b)
    return found


@pytest.mark.parametrize("weighting", ["label", "batch"])
@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("kind", KINDS)
def test_losses_are_their_formulas(kind, missing, weighting):
    settings = {"amplification": 0.6, "bias_weight": 2.0, "swap_weight": 3.0, "weighting": weighting}
    method, batch = made("disc", kind, missing=missing, **settings)
    torch.manual_seed(5)
    order = torch.randperm(len(batch.y))
    expected = written(method, batch, 0.6, weighting, order)
    weights = {"causal": 1, "bias": 2, "swapped_causal": 3, "swapped_bias": 6}

    torch.manual_seed(5)
    losses = method.loss(batch, LATE)

    assert set(losses) == set(weights)
    assert order.tolist() != list(range(len(order)))
    for term, value in losses.items():
        same(value, weights[term] * expected[term])


def test_swaps_begin_after_their_share_of_training():
    method, batch = made("disc", swap_from=0.3)
    swapping = ["swapped_bias" in method.loss(batch, Progress(step=s, total_steps=10)) for s in range(10)]
    assert swapping == [False] * 3 + [True] * 7
    method, batch = made("disc", swap_from=1.0)
    assert "swapped_bias" not in method.loss(batch, Progress(step=9, total_steps=10))


def test_a_swapped_bias_has_the_label_of_the_graph_it_came_from():
    """With a bias head that only sees the bias, and knows the label by it, swapping costs what it cost before."""
    method, batch = made("disc", swap_weight=1.0)
    with torch.no_grad():
        method.bias_head.weight[:, :6] = 0
    torch.manual_seed(1)
    losses = method.loss(batch, LATE)
    same(losses["swapped_bias"], losses["bias"].item())


@pytest.mark.parametrize("weighting", ["label", "batch"])
def test_a_weight_of_the_batch_scales_the_gradient_and_weights_of_labels_turn_it(weighting):
    method, batch = made("disc", weighting=weighting)
    causal, bias = method.parts(batch)
    causal_risk, _ = method.risks(causal, bias, batch.y, batch.y)
    (slope,) = torch.autograd.grad(method.loss(batch, EARLY)["causal"], [method.causal_head.bias])
    (unweighted,) = torch.autograd.grad(causal_risk.mean(), [method.causal_head.bias])
    assert ((slope / unweighted).std() > 1e-3) == (weighting == "label")


@pytest.mark.parametrize("weighting", ["label", "batch"])
def test_weights_and_amplification_pass_no_gradient(weighting):
    method, batch = made("disc", weighting=weighting)
    causal, bias = method.parts(batch)
    l_c, l_b = method.risks(causal, bias, batch.y, batch.y)
    fails, stands = (l_b, l_c) if weighting == "label" else (l_b.mean(), l_c.mean())
    weight = (fails / (fails + stands + 1e-8)).detach()
    amplification = 0.7 * torch.exp(-0.7 * l_b).detach()
    expected = (weight * l_c).mean() + (amplification * l_b).mean()
    parameters = [method.causal_head.weight, method.bias_head.weight]
    losses = method.loss(batch, EARLY)
    found = torch.autograd.grad(losses.total, parameters)
    for slope, wanted in zip(found, torch.autograd.grad(expected, parameters), strict=True):
        same(slope, wanted.tolist())


def test_each_head_teaches_its_own_branch_and_both_teach_the_masker():
    method, batch = made("disc")
    losses = method.loss(batch, LATE)
    for term, own, other in (
        ("causal", method.causal_branch, method.bias_branch),
        ("bias", method.bias_branch, method.causal_branch),
        ("swapped_causal", method.causal_branch, method.bias_branch),
        ("swapped_bias", method.bias_branch, method.causal_branch),
    ):
        assert gradient(losses[term], own) > 1e-6, term
        assert gradient(losses[term], other) == 0, term
        assert gradient(losses[term], method.masker) > 1e-8, term


def test_branches_see_through_the_mask_and_its_complement():
    method, batch = made("disc")
    masks = method.masker(batch)
    causal, bias = method.parts(batch)
    same(causal, method.causal_branch(batch, masks).tolist())
    same(bias, method.bias_branch(batch, type(masks)(1 - masks.nodes, 1 - masks.edges)).tolist())
    same(method.embed(batch), beside(causal, bias).tolist())
    same(method.predict(batch), method.causal_head(beside(causal, bias)).tolist())
    same(method.node_importance(batch), masks.nodes.tolist())


def test_refuses_an_amplification_that_is_none():
    with pytest.raises(UsageError, match="amplification"):
        made("disc", amplification=0.0)


def test_learns_a_handful_of_graphs_by_heart():
    assert learns_by_heart("disc")
