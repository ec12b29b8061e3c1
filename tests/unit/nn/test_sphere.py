"""Every equation on the sphere against `reference`, in float64, with its gradient and its edge cases."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from mphil.methods import mphil_assignment as assignment
from mphil.nn import sphere
from mphil.nn.losses import one_hot
from tests.unit.nn import reference
from tests.unit.nn.cases import SINGLE, SMALL, cases, leaf, quick, same

AGGREGATES = ("max", "mean", "min", "sum")


# --- unit -----------------------------------------------------------------------------------------------------------


@quick
@given(rows=st.integers(1, 4), p=st.integers(1, 6), scale=st.sampled_from([1e-6, 1, 1e8]), seed=st.integers(0, 99))
def test_unit(rows, p, scale, seed):
    torch.manual_seed(seed)
    v = torch.randn(rows, p, dtype=torch.float64) * scale
    same(sphere.unit(v), [reference.normalise(row) for row in v.tolist()])
    same(sphere.unit(v).norm(dim=-1), [1.0] * rows)


def test_unit_gradient():
    assert gradcheck(sphere.unit, leaf(torch.randn(3, 4, dtype=torch.float64)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_zero_vector_stays_zero_and_passes_no_gradient(dtype):
    v = torch.tensor([[0.0, 0.0], [3.0, 4.0]], dtype=dtype, requires_grad=True)
    result = sphere.unit(v)
    result.sum().backward()
    assert result[0].tolist() == [0, 0]
    assert v.grad is not None
    assert v.grad[0].tolist() == [0, 0]
    assert v.grad.isfinite().all()


def test_random_directions_are_on_the_sphere_and_differ():
    torch.manual_seed(0)
    M = sphere.random_directions(2, 3, 4, 5)
    assert M.shape == (2, 3, 4, 5)
    torch.testing.assert_close(M.norm(dim=-1), torch.ones(2, 3, 4))
    assert M.flatten(0, 2).unique(dim=0).shape[0] == 24


def test_random_directions_prefer_no_direction():
    torch.manual_seed(0)
    assert sphere.random_directions(10, 10, 100, 3).mean((0, 1, 2)).abs().max() < 0.03


@quick
@given(case=cases())
def test_similarity(case):
    same(sphere.similarity(case.z, case.M), reference.similarity(case.z.tolist(), case.M.tolist()))


# --- scores ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("aggregate", AGGREGATES)
@quick
@given(case=cases())
def test_class_logits(aggregate, case):
    sim = sphere.similarity(case.z, case.M)
    found = sphere.class_logits(sim / case.tau, case.log_weights, aggregate)
    scores = reference.class_scores(case.log_weights.exp().tolist(), sim.tolist(), case.tau, aggregate)
    same(found, reference.log_scores(scores))
    same(found.softmax(-1), reference.probabilities(scores))


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("logits", [sphere.class_logits, sphere.product_logits])
def test_logits_gradient(logits, aggregate):
    scaled = leaf(torch.randn(2, 2, 2, 3, dtype=torch.float64))
    log_weights = leaf(torch.randn(2, 2, 2, 3, dtype=torch.float64).log_softmax(-1))
    assert gradcheck(lambda s, w: logits(s, assignment.prune(w, 2), aggregate), (scaled, log_weights))


@quick
@given(case=cases())
def test_mean_and_sum_give_equal_probabilities(case):
    scaled = sphere.similarity(case.z, case.M) / case.tau
    mean, total = (sphere.class_logits(scaled, case.log_weights, how).softmax(-1) for how in ("mean", "sum"))
    torch.testing.assert_close(mean, total, rtol=1e-12, atol=1e-12)


@quick
@given(case=cases())
def test_product_logits_as_released(case):
    log_weights = assignment.attention(case.z @ case.W_Q.T, case.W_K, case.M, "all")
    found = sphere.product_logits(sphere.similarity(case.z, case.M), log_weights)
    same(found, reference.released_logits(log_weights.exp().tolist(), case.z.tolist(), case.M.tolist()))


@pytest.mark.parametrize(("aggregate", "expected"), [("max", -0.1), ("min", -0.4), ("sum", -0.5), ("mean", -0.25)])
def test_product_logits_leave_pruned_slots_out(aggregate, expected):
    log_weights = torch.tensor([[[[0.5, 0.2, 0.0]]]]).log()
    found = sphere.product_logits(torch.tensor([[[[-0.8, -0.5, 0.9]]]]), log_weights, aggregate)
    assert found.item() == pytest.approx(expected)


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_nothing_overflows_in_single_precision(aggregate):
    sim = torch.tensor([[1.0, -1.0, 0.5], [-1.0, -1.0, -0.9]]).expand(2, 1, 2, 3)
    scaled = leaf(sim * 1e4)
    log_weights = leaf(torch.tensor([0.0, -5e3, -2e4]).log_softmax(-1).expand(2, 1, 2, 3))
    membership = one_hot(torch.tensor([[1.0], [0.0]]), 2)
    logits = sphere.class_logits(scaled, assignment.prune(log_weights, 2), aggregate)
    loss = -(logits.log_softmax(-1) * membership).sum() + sphere.matching_loss(scaled, membership).sum()
    loss.backward()
    for tensor in (logits, logits.softmax(-1), loss, scaled.grad, log_weights.grad):
        assert tensor is not None
        assert tensor.isfinite().all()


# --- losses ---------------------------------------------------------------------------------------------------------


@quick
@given(case=cases())
def test_matching_loss(case):
    sim = sphere.similarity(case.z, case.M)
    found = sphere.matching_loss(sim / case.tau, case.membership)
    for b, row in enumerate(reference.labelled(case.y)):
        for t, label in enumerate(row):
            one = reference.matching([[sim[b, t].tolist()]], [[label]], case.tau)
            assert found[b, t].item() == pytest.approx(one, rel=1e-12, abs=1e-12)


def test_matching_gradient():
    scaled = leaf(torch.randn(3, 2, 2, 3, dtype=torch.float64))
    assert gradcheck(lambda s: sphere.matching_loss(s, SMALL.membership), scaled)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (sphere.separation_loss, reference.separation),
        (sphere.summed_separation_loss, reference.released_separation),
        (sphere.dispersion_loss, reference.dispersion),
    ],
)
class TestSeparation:
    @quick
    @given(case=cases())
    def test_value(self, found, expected, case):
        same(found(case.M, case.tau), expected(case.M.tolist(), case.tau))

    @pytest.mark.parametrize("case", [SMALL, SINGLE])
    def test_gradient(self, found, expected, case):
        assert gradcheck(lambda M: found(M, 0.5), leaf(case.M))

    @quick
    @given(case=cases(), share=st.sampled_from([0.0, 0.4, 1.0]))
    def test_gradient_of_those_that_moved(self, found, expected, case, share):
        every, some = leaf(case.M), leaf(case.M)
        moved = (torch.rand(case.T * case.C * case.K) < share).nonzero().squeeze(1)
        found(every, case.tau).backward()
        found(some, case.tau, moved).backward()
        assert every.grad is not None
        assert some.grad is not None
        torch.testing.assert_close(some.grad.view(-1, case.p)[moved], every.grad.view(-1, case.p)[moved])

    @pytest.mark.parametrize("K", [1, 3])
    def test_identical_prototypes(self, found, expected, K):
        M = leaf(torch.tensor([0.6, 0.8], dtype=torch.float64).expand(2, 2, K, 2))
        loss = found(M, 0.5)
        loss.backward()
        same(loss, expected(M.tolist(), 0.5))
        assert M.grad is not None
        assert M.grad.isfinite().all()

    @pytest.mark.parametrize("K", [1, 3])
    def test_nothing_overflows_in_single_precision(self, found, expected, K):
        torch.manual_seed(0)
        M = leaf(sphere.random_directions(1, 2, K, 3))
        loss = found(M, 1e-4)
        loss.backward()
        assert M.grad is not None
        assert loss.isfinite()
        assert M.grad.isfinite().all()


def test_separation_is_negative_when_classes_are_apart():
    M = torch.tensor([[[[1.0, 0.0], [1.0, 0.0]], [[-1.0, 0.0], [-1.0, 0.0]]]])
    assert sphere.separation_loss(M, 0.5).item() == pytest.approx(-2 / 0.5 + math.log(2))


def test_dispersion_lets_prototypes_of_a_class_lie_where_they_like():
    together = torch.tensor([[[[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]]])
    spread = torch.tensor([[[[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]], [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]]])
    assert sphere.dispersion_loss(together, 0.1).item() == pytest.approx(sphere.dispersion_loss(spread, 0.1).item())
    assert sphere.separation_loss(together, 0.1) < sphere.separation_loss(spread, 0.1)
