"""Joining and mixing rows: every pair, its label, and the random numbers they come from."""

from __future__ import annotations

from math import isnan

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.nn.mixing import all_pairs, mixup, mixup_loss, permutation, random_pairs
from tests.graphs import TASKS
from tests.unit.methods.stepping import mean, same, written_losses

NAN = float("nan")


def rows(n, d=3, seed=0):
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_a_permutation_has_everybody_once_and_follows_the_seed():
    torch.manual_seed(3)
    first = permutation(20)
    torch.manual_seed(3)
    assert torch.equal(first, permutation(20))
    assert not torch.equal(first, permutation(20))
    assert first.sort().values.tolist() == list(range(20))


@settings(max_examples=15, derandomize=True)
@given(n=st.integers(1, 5), m=st.integers(1, 5))
def test_all_pairs_are_in_the_order_of_their_owners(n, m):
    own, other = rows(n), rows(m, seed=1)
    pairs = all_pairs(own, other)
    assert pairs.shape == (n * m, 3)
    owners = torch.arange(n).repeat_interleave(m)
    for number, row in enumerate(pairs):
        i, j = divmod(number, m)
        assert owners[number] == i
        assert torch.equal(row, own[i] + other[j])


def test_random_pairs_belong_to_their_owners_and_use_every_partner_equally_often():
    own, other = 100.0 * torch.arange(6.0).unsqueeze(1), torch.arange(6.0).unsqueeze(1)
    pairs = random_pairs(own, other, 4).squeeze(1)
    assert (pairs // 100).tolist() == torch.arange(6.0).repeat_interleave(4).tolist()
    assert torch.bincount((pairs % 100).long()).tolist() == [4] * 6


def test_mixup_mixes_every_row_with_its_partner_in_one_proportion():
    torch.manual_seed(0)
    z = rows(6)
    mixture = mixup(z, alpha=0.5)
    assert 0 <= mixture.share <= 1
    assert mixture.share.dtype == z.dtype
    for i, j in enumerate(mixture.partner.tolist()):
        same(mixture.features[i], mixture.share * z[i] + (1 - mixture.share) * z[j])


def test_the_proportion_is_drawn_from_a_beta_distribution():
    torch.manual_seed(0)
    z = rows(2)
    shares = torch.stack([mixup(z, alpha=0.2).share for _ in range(400)])
    assert shares.mean() == pytest.approx(0.5, abs=0.06)
    assert shares.var() == pytest.approx(0.25 / 1.4, abs=0.02)  # ab / ((a + b)^2 (a + b + 1))


@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("kind", sorted(TASKS))
def test_the_loss_of_a_mixture_mixes_the_losses_of_both_labels(kind, missing):
    task = TASKS[kind]
    draw = torch.Generator().manual_seed(1)
    y = torch.randint(task.n_classes, (8, task.n_tasks), generator=draw).double()
    y[torch.rand(y.shape, generator=draw) < missing] = NAN
    logits = rows(8, task.n_outputs, seed=2)
    torch.manual_seed(4)
    mixture = mixup(rows(8), alpha=1.0)
    share = mixture.share.item()

    own, theirs = written_losses(logits, y, task), written_losses(logits, y[mixture.partner], task)
    expected = mean(share * own[entry] + (1 - share) * theirs[entry] for entry in own.keys() & theirs.keys())
    assert 0.01 < share < 0.99
    assert any(isnan(value) for value in y.flatten().tolist()) == (missing > 0)
    same(mixup_loss(logits, y, mixture, task), expected)


def test_a_mixture_without_any_label_costs_nothing():
    logits = rows(3, 1).requires_grad_()
    loss = mixup_loss(logits, torch.full((3, 1), NAN), mixup(rows(3), 1.0), TASKS["binary"])
    (slope,) = torch.autograd.grad(loss, logits)
    assert loss == 0
    assert not slope.any()
