"""Every equation on the sphere against `reference`, in float64, with its gradient and its edge cases."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from mphil.nn import sphere
from mphil.nn.losses import one_hot
from tests.unit.nn import reference

AGGREGATES = ("max", "mean", "min", "sum")
quick = settings(max_examples=15, deadline=None, derandomize=True)


@dataclass
class Case:
    """Random inputs of all functions: B graphs, T tasks, C classes, K prototypes, p coordinates, n weights kept."""

    B: int
    T: int
    C: int
    K: int
    p: int
    n: int
    seed: int = 0

    def __post_init__(self) -> None:
        draw = torch.Generator().manual_seed(self.seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=draw, dtype=torch.float64)

        self.z = sphere.unit(normal(self.B, self.p))
        self.M = sphere.unit(normal(self.T, self.C, self.K, self.p))
        self.W_Q, self.W_K = 3 * normal(self.p + 1, self.p), 3 * normal(self.p + 1, self.p)
        self.y = torch.randint(self.C, (self.B, self.T), generator=draw).double()
        self.y[torch.rand(self.B, self.T, generator=draw) < 0.3] = math.nan
        self.membership = one_hot(self.y, self.C)
        self.log_weights = sphere.prune(normal(self.B, self.T, self.C, self.K).log_softmax(-1), self.n)
        self.tau = 0.05 + torch.rand(1, generator=draw).item()


@st.composite
def cases(draw) -> Case:
    K = draw(st.integers(1, 4))
    return Case(
        B=draw(st.integers(1, 5)),
        T=draw(st.integers(1, 3)),
        C=draw(st.integers(2, 4)),
        K=K,
        p=draw(st.integers(2, 5)),
        n=draw(st.integers(1, K)),
        seed=draw(st.integers(0, 999)),
    )


SMALL = Case(B=3, T=2, C=2, K=3, p=2, n=2, seed=5)
SINGLE = Case(B=2, T=1, C=3, K=1, p=3, n=1, seed=6)


def same(found: Tensor, expected: object) -> None:
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)


def leaf(tensor: Tensor) -> Tensor:
    return tensor.clone().requires_grad_()


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


def test_random_prototypes_are_on_the_sphere_and_differ():
    torch.manual_seed(0)
    M = sphere.random_prototypes(2, 3, 4, 5)
    assert M.shape == (2, 3, 4, 5)
    torch.testing.assert_close(M.norm(dim=-1), torch.ones(2, 3, 4))
    assert M.flatten(0, 2).unique(dim=0).shape[0] == 24


def test_random_prototypes_prefer_no_direction():
    torch.manual_seed(0)
    assert sphere.random_prototypes(10, 10, 100, 3).mean((0, 1, 2)).abs().max() < 0.03


# --- weights --------------------------------------------------------------------------------------------------------


@quick
@given(case=cases())
def test_similarity(case):
    same(sphere.similarity(case.z, case.M), reference.similarity(case.z.tolist(), case.M.tolist()))


@pytest.mark.parametrize("over", ["class", "all"])
@quick
@given(case=cases())
def test_attention(over, case):
    log_weights = sphere.attention(case.z @ case.W_Q.T, case.W_K, case.M, over)
    lists = (tensor.tolist() for tensor in (case.z, case.M, case.W_Q, case.W_K))
    same(log_weights.exp(), reference.attention(*lists, over_all=over == "all"))
    total = log_weights.exp().sum((-1, -2) if over == "all" else -1)
    same(total, torch.ones(total.shape).tolist())


def test_attention_is_over_each_class_unless_told():
    given = SMALL.z @ SMALL.W_Q.T, SMALL.W_K, SMALL.M
    assert torch.equal(sphere.attention(*given), sphere.attention(*given, "class"))


@pytest.mark.parametrize("over", ["class", "all"])
def test_attention_gradient(over):
    given = (SMALL.z @ SMALL.W_Q.T, SMALL.W_K, SMALL.M)
    assert gradcheck(lambda q, k, M: sphere.attention(q, k, M, over), tuple(map(leaf, given)))


@quick
@given(case=cases())
def test_nearest(case):
    sim = sphere.similarity(case.z, case.M)
    same(sphere.nearest(sim).exp(), reference.hard_weights(sim.tolist()))


@quick
@given(case=cases())
def test_prune(case):
    log_weights = sphere.attention(case.z @ case.W_Q.T, case.W_K, case.M)
    same(sphere.prune(log_weights, case.n).exp(), reference.prune(log_weights.exp().tolist(), case.n))


def test_pruning_to_all_changes_nothing():
    log_weights = SMALL.z.new_empty(3, 2, 2, 3).normal_()
    assert torch.equal(sphere.prune(log_weights, 3), log_weights)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_equal_weights_still_keep_exactly_n(n):
    kept = sphere.prune(torch.full((4, 1, 2, 5), 0.2).log(), n).exp()
    assert (kept > 0).sum(-1).eq(n).all()
    assert kept[kept > 0].allclose(torch.tensor(0.2))


def test_equal_similarities_still_have_one_nearest():
    assert sphere.nearest(torch.ones(4, 1, 2, 5)).exp().sum(-1).eq(1).all()


def test_prune_gradient_reaches_only_what_was_kept():
    log_weights = leaf(torch.tensor([[0.5, 0.2, 0.3]]).log())
    sphere.prune(log_weights, 2).exp().sum().backward()
    assert log_weights.grad is not None
    torch.testing.assert_close(log_weights.grad, torch.tensor([[0.5, 0.0, 0.3]]))


# --- prototypes -----------------------------------------------------------------------------------------------------


def moved_by(z: Tensor, M: Tensor, log_weights: Tensor, membership: Tensor, momentum: float) -> Tensor:
    return sphere.move(M, *sphere.received(log_weights, membership, z), momentum)


@quick
@given(case=cases(), momentum=st.sampled_from([0.0, 0.3, 0.9, 0.99]))
def test_move(case, momentum):
    found = moved_by(case.z, case.M, case.log_weights, case.membership, momentum)
    lists = (case.M.tolist(), case.z.tolist(), case.log_weights.exp().tolist())
    same(found, reference.updated(*lists, reference.labelled(case.y), momentum))
    same(found.norm(dim=-1), torch.ones(found.shape[:-1]).tolist())


def test_move_gradient_through_embeddings_weights_and_prototypes():
    # A pruned slot is -inf, where no finite difference exists; here all weights are kept.
    log_weights = torch.randn(3, 2, 2, 3, dtype=torch.float64).log_softmax(-1)
    leaves = (leaf(SMALL.z), leaf(SMALL.M), leaf(log_weights))
    assert gradcheck(lambda z, M, w: moved_by(z, M, w, SMALL.membership, 0.6), leaves)


@quick
@given(case=cases())
def test_only_prototypes_that_receive_something_are_named(case):
    slots, sums = sphere.received(case.log_weights, case.membership, case.z)
    weights = (case.log_weights.exp() * case.membership.unsqueeze(-1)).flatten(1)
    assert slots.tolist() == weights.sum(0).nonzero().squeeze(1).tolist()
    torch.testing.assert_close(sums, (weights.T @ case.z)[slots])


def test_it_is_a_sum_over_the_batch_not_a_mean():
    z, M = torch.tensor([[0.0, 1.0]]), torch.tensor([[[[1.0, 0.0]], [[-1.0, 0.0]]]])
    once = moved_by(z, M, torch.zeros(1, 1, 2, 1), torch.tensor([[[1.0, 0.0]]]), 0.9)
    thrice = moved_by(z.expand(3, 2), M, torch.zeros(3, 1, 2, 1), torch.tensor([[[1.0, 0.0]]]).expand(3, 1, 2), 0.9)
    torch.testing.assert_close(once[0, 0, 0, 1] / once[0, 0, 0, 0], torch.tensor(0.1 / 0.9))
    torch.testing.assert_close(thrice[0, 0, 0, 1] / thrice[0, 0, 0, 0], torch.tensor(0.3 / 0.9))


def test_what_received_nothing_stays_bit_for_bit():
    torch.manual_seed(0)
    z, M = sphere.unit(torch.randn(4, 3)), sphere.random_prototypes(1, 3, 2, 3)
    log_weights = sphere.prune(torch.tensor([0.7, 0.3]).log().expand(4, 1, 3, 2), 1)
    membership = one_hot(torch.tensor([[0.0], [0.0], [2.0], [math.nan]]), 3)
    found = moved_by(z, M, log_weights, membership, 0.9)
    assert torch.equal(found[0, 1], M[0, 1]), "class 1 is absent"
    assert torch.equal(found[0, :, 1], M[0, :, 1]), "the second slot is pruned everywhere"
    assert not torch.equal(found[0, 0, 0], M[0, 0, 0])


@pytest.mark.parametrize("embeddings", [[[0.0, 0.0]], [[0.0, 1.0], [0.0, -1.0]]])
def test_a_sum_without_direction_leaves_the_prototype_where_it_was(embeddings):
    z, M = torch.tensor(embeddings), torch.tensor([[[[1.0, 0.0]], [[-1.0, 0.0]]]])
    membership = torch.tensor([[[1.0, 0.0]]]).expand(len(z), 1, 2)
    assert torch.equal(moved_by(z, M, torch.zeros(len(z), 1, 2, 1), membership, 0.0), M)


@quick
@given(
    points=st.integers(1, 9),
    K=st.integers(1, 4),
    p=st.integers(2, 4),
    rounds=st.integers(0, 4),
    seed=st.integers(0, 99),
)
def test_spherical_kmeans(points, K, p, rounds, seed):
    torch.manual_seed(seed)
    z = sphere.unit(torch.randn(points, p, dtype=torch.float64))
    centres = sphere.unit(torch.randn(K, p, dtype=torch.float64))
    same(sphere.spherical_kmeans(z, centres, rounds), reference.kmeans(z.tolist(), centres.tolist(), rounds))


def test_spherical_kmeans_finds_separate_groups():
    torch.manual_seed(0)
    poles = torch.eye(3)
    points = sphere.unit(poles.repeat_interleave(20, 0) + 0.05 * torch.randn(60, 3))
    centres = sphere.spherical_kmeans(points, sphere.unit(poles + 0.4))
    assert (centres @ poles.T).diagonal().min() > 0.99


def test_spherical_kmeans_keeps_a_centre_whose_points_cancel():
    points, centres = torch.tensor([[0.0, 1.0], [0.0, -1.0]]), torch.tensor([[1.0, 0.0]])
    assert torch.equal(sphere.spherical_kmeans(points, centres), centres)


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
    assert gradcheck(lambda s, w: logits(s, sphere.prune(w, 2), aggregate), (scaled, log_weights))


@quick
@given(case=cases())
def test_mean_and_sum_give_equal_probabilities(case):
    scaled = sphere.similarity(case.z, case.M) / case.tau
    mean, total = (sphere.class_logits(scaled, case.log_weights, how).softmax(-1) for how in ("mean", "sum"))
    torch.testing.assert_close(mean, total, rtol=1e-12, atol=1e-12)


@quick
@given(case=cases())
def test_product_logits_as_released(case):
    log_weights = sphere.attention(case.z @ case.W_Q.T, case.W_K, case.M, "all")
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
    logits = sphere.class_logits(scaled, sphere.prune(log_weights, 2), aggregate)
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
        M = leaf(sphere.random_prototypes(1, 2, K, 3))
        loss = found(M, 1e-4)
        loss.backward()
        assert M.grad is not None
        assert loss.isfinite()
        assert M.grad.isfinite().all()


def test_separation_is_negative_when_classes_are_apart():
    M = torch.tensor([[[[1.0, 0.0], [1.0, 0.0]], [[-1.0, 0.0], [-1.0, 0.0]]]])
    assert sphere.separation_loss(M, 0.5).item() == pytest.approx(-2 / 0.5 + math.log(2))
