"""DIVE against its definition, graph by graph, and the choice of the model that predicts."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

from mphil.errors import UsageError
from mphil.methods import Parts, Progress
from mphil.methods.dive import DIVE, overlap, score
from mphil.nn.readout import readout
from tests.graphs import TASKS
from tests.unit.methods.loops import Fixed, gradient_size, make, mean, risk, same

KINDS = sorted(TASKS)
LATER = Progress(step=30, epoch=3, total_steps=100, total_epochs=10)


def written_overlap(first, second, batch):
    """Mean over the graphs with edges of what two masks share, as a part of what either has."""
    by_graph = {}
    for e, (a, b) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        by_graph.setdefault(int(batch.batch[batch.edge_index[0, e]]), []).append((a, b))
    ratios = []
    for pairs in by_graph.values():
        union = sum(a + b - a * b for a, b in pairs)
        ratios.append(sum(a * b for a, b in pairs) / union if union else 0.0)
    return mean(ratios)


def logits_of(member, batch, mask):
    return member.head(readout(member.encoder(batch, edge_weight=mask), batch.ptr))


@pytest.mark.parametrize("kind", KINDS)
def test_loss(kind):
    method, batch = make(DIVE, kind, missing=0.3, members=3, weight=0.7)
    masks = [member.scorer(member.chooser(batch), batch).sigmoid() for member in method.members]
    risks = [
        risk(logits_of(member, batch, mask), batch.y, method.task)
        for member, mask in zip(method.members, masks, strict=True)
    ]
    losses = method.loss(batch, LATER)
    assert set(losses) == {"classification", "overlap"}
    same(losses["classification"], mean(risks))
    same(losses["overlap"], 0.7 * mean([written_overlap(a, b, batch) for a, b in combinations(masks, 2)]))


def test_masks_of_training_are_drawn_with_the_gradient_of_the_probability():
    method, batch = make(DIVE, "multiclass", training=True)
    member = method.member(0)
    scores = torch.linspace(-3, 3, 2000, dtype=torch.float64, requires_grad=True)
    member.scorer = Fixed(scores)
    torch.manual_seed(5)
    drawn = member.mask(batch)
    assert set(drawn.tolist()) == {0.0, 1.0}
    assert abs(drawn.mean() - 0.5) < 0.05
    torch.testing.assert_close(torch.autograd.grad(drawn.sum(), scores)[0], scores.sigmoid() * (-scores).sigmoid())


def test_overlap_of_hard_masks():
    _, batch = make(DIVE, "multiclass")
    torch.manual_seed(0)
    first, second = (torch.rand(2, batch.edge_index.shape[1]) < 0.4).double()
    same(overlap(first, second, batch), written_overlap(first, second, batch))
    nothing = torch.zeros_like(first).requires_grad_()
    value = overlap(nothing, nothing, batch)
    value.backward()
    assert value == 0
    assert nothing.grad.isfinite().all()
    kept = torch.ones_like(first)
    same(overlap(kept, kept, batch), 1.0)


def test_models_share_nothing_but_the_overlap():
    method, batch = make(DIVE, "multiclass", members=2, training=True)
    torch.manual_seed(0)
    losses = method.loss(batch, LATER)
    losses["overlap"].backward()
    for member in method.members:
        assert gradient_size(member.chooser) > 0
        assert gradient_size(member.encoder) == gradient_size(member.head) == 0
    with torch.no_grad():
        for parameter in method.member(0).parameters():
            parameter.zero_()
    before = method.eval().answer(1, batch)
    torch.testing.assert_close(before, logits_of(method.member(1), batch, method.member(1).mask(batch)))


def test_a_single_model_has_nothing_to_disagree_with():
    method, batch = make(DIVE, "multiclass", members=1)
    assert set(method.loss(batch, LATER)) == {"classification"}
    method.begin_epoch(Parts([batch], [batch]), LATER)
    assert method.chosen == 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_that_does_best_on_the_validation_part_predicts(kind):
    method, batch = make(DIVE, kind, members=3, training=True)
    told = batch.y.nan_to_num(0.0).double()
    right = torch.nn.functional.one_hot(told[:, 0].long(), 3).double() if kind == "multiclass" else 2 * told - 1
    answers = {0: -right, 1: right, 2: torch.zeros_like(right)}
    method.answer = lambda number, batch: answers[number]
    method.begin_epoch(Parts([batch], [batch, batch]), Progress(epoch=0))
    assert method.chosen == 0
    method.begin_epoch(Parts([batch], [batch, batch]), LATER)
    assert method.chosen == 1
    assert method.training
    assert torch.equal(method.predict(batch), right)
    unknown = batch.clone()
    unknown.y = torch.full_like(batch.y, torch.nan)
    for validation in ([], [unknown]):
        method.begin_epoch(Parts([batch], validation), LATER)
        assert method.chosen == 1


def test_the_choice_is_in_the_state():
    method, batch = make(DIVE, "multiclass")
    method.chosen.fill_(2)
    fresh, _ = make(DIVE, "multiclass")
    fresh.load_state_dict(method.state_dict())
    assert torch.equal(fresh.predict(batch), method.answer(2, batch))
    assert torch.equal(fresh.embed(batch), method.represent(method.member(2), batch, method.member(2).mask(batch)))


def test_scores():
    y = torch.tensor([[0.0], [2.0], [torch.nan], [1.0]])
    assert score(torch.tensor([[2.0, 0, 0], [0, 0, 1], [0, 0, 1], [1, 0, 0]]), y, TASKS["multiclass"]) == 2 / 3
    logits = torch.tensor([[0.1], [0.4], [0.35], [0.8]])
    assert score(logits, torch.tensor([[0.0], [0.0], [1.0], [1.0]]), TASKS["binary"]) == 0.75
    assert score(logits, torch.ones(4, 1), TASKS["binary"]) is None


def test_refuses_to_have_no_model():
    with pytest.raises(UsageError, match="members >= 1, not 0"):
        make(DIVE, "binary", members=0)
