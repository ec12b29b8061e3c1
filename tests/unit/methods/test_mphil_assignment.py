"""Weights, and prototypes that move by them, against `reference`, in float64, with gradients and edge cases."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from mphil.methods import mphil_assignment as assignment
from mphil.nn import sphere
from mphil.nn.losses import one_hot
from tests.unit.nn import reference
from tests.unit.nn.cases import SMALL, cases, leaf, quick, same

# --- weights --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", ["class", "all"])
@quick
@given(case=cases())
def test_attention(over, case):
    log_weights = assignment.attention(case.z @ case.W_Q.T, case.W_K, case.M, over)
    lists = (tensor.tolist() for tensor in (case.z, case.M, case.W_Q, case.W_K))
    same(log_weights.exp(), reference.attention(*lists, over_all=over == "all"))
    total = log_weights.exp().sum((-1, -2) if over == "all" else -1)
    same(total, torch.ones(total.shape).tolist())


def test_attention_is_over_each_class_unless_told():
    given = SMALL.z @ SMALL.W_Q.T, SMALL.W_K, SMALL.M
    assert torch.equal(assignment.attention(*given), assignment.attention(*given, "class"))


@pytest.mark.parametrize("over", ["class", "all"])
def test_attention_gradient(over):
    given = (SMALL.z @ SMALL.W_Q.T, SMALL.W_K, SMALL.M)
    assert gradcheck(lambda q, k, M: assignment.attention(q, k, M, over), tuple(map(leaf, given)))


@pytest.mark.parametrize("over", ["class", "all"])
@quick
@given(case=cases(), length=st.sampled_from([0.1, 1.0, 30.0]))
def test_cosine_attention(over, case, length):
    found = assignment.cosine_attention(length * case.z, case.M, case.tau, over)
    same(found.exp(), reference.cosine_attention(case.z.tolist(), case.M.tolist(), case.tau, over == "all"))
    total = found.exp().sum((-1, -2) if over == "all" else -1)
    same(total, torch.ones(total.shape).tolist())


@quick
@given(case=cases(), temperature=st.sampled_from([0.01, 0.1, 1.0]))
def test_cosine_attention_gives_the_nearest_prototype_the_largest_weight(case, temperature):
    nearest = sphere.similarity(case.z, case.M).argmax(-1)
    assert torch.equal(assignment.cosine_attention(case.z, case.M, temperature).argmax(-1), nearest)


def test_a_small_temperature_is_a_hard_choice_and_a_large_one_none():
    hard = assignment.nearest(sphere.similarity(SMALL.z, SMALL.M)).exp()
    torch.testing.assert_close(assignment.cosine_attention(SMALL.z, SMALL.M, 1e-4).exp(), hard)
    even = assignment.cosine_attention(SMALL.z, SMALL.M, 1e6).exp()
    torch.testing.assert_close(even, torch.full_like(even, 1 / 3), atol=1e-6, rtol=0)


def test_cosine_attention_gradient():
    given = leaf(SMALL.z), leaf(SMALL.M)
    assert gradcheck(lambda z, M: assignment.cosine_attention(z, M, 0.3), given)


def test_a_sample_without_direction_belongs_to_all_alike():
    even = assignment.cosine_attention(torch.zeros(1, 2), SMALL.M.float(), 0.1).exp()
    assert even.allclose(torch.tensor(1 / 3))


# --- balanced weights -----------------------------------------------------------------------------------------------


@quick
@given(case=cases(), epsilon=st.sampled_from([0.05, 0.5]), rounds=st.integers(0, 4))
def test_sinkhorn(case, epsilon, rounds):
    cosines = sphere.similarity(case.z, case.M)
    found = assignment.sinkhorn(cosines, case.membership, epsilon=epsilon, rounds=rounds).exp()
    expected = reference.sinkhorn(cosines.tolist(), reference.labelled(case.y), epsilon, rounds)
    same(found * case.membership.unsqueeze(-1), expected)


def one_class(samples: int, K: int, seed: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Cosines (samples, 1, 1, K) of random points, and that all belong to the only class."""
    draw = torch.Generator().manual_seed(seed)
    cosines = 2 * torch.rand(samples, 1, 1, K, generator=draw, dtype=dtype) - 1
    return cosines, torch.ones(samples, 1, 1, dtype=dtype)


@quick
@given(samples=st.integers(1, 30), K=st.integers(1, 6), seed=st.integers(0, 999))
def test_sinkhorn_shares_samples_out_in_equal_parts(samples, K, seed):
    cosines, membership = one_class(samples, K, seed)
    found = assignment.sinkhorn(cosines, membership, epsilon=0.5, rounds=300).exp().view(samples, K)
    torch.testing.assert_close(found.sum(1), torch.ones(samples, dtype=torch.float64))
    torch.testing.assert_close(found.sum(0), torch.full((K,), samples / K, dtype=torch.float64), atol=1e-6, rtol=0)


@quick
@given(samples=st.integers(1, 30), K=st.integers(1, 6), seed=st.integers(0, 999))
def test_every_round_of_sinkhorn_comes_closer_to_equal_parts(samples, K, seed):
    cosines, membership = one_class(samples, K, seed)
    gaps = []
    for rounds in range(5):
        weights = assignment.sinkhorn(cosines, membership, rounds=rounds).exp()
        same(weights.sum(-1), torch.ones(samples, 1, 1).tolist())
        gaps.append((weights.sum(0) - samples / K).abs().sum().item())
    assert all(after <= before + 1e-9 for before, after in itertools.pairwise(gaps))


def test_sinkhorn_uses_prototypes_that_are_nearest_to_nobody():
    cosines = torch.tensor([0.9, 0.8]).repeat(8, 1).view(8, 1, 1, 2) + torch.linspace(0, 0.1, 8).view(8, 1, 1, 1)
    used = assignment.sinkhorn(cosines, torch.ones(8, 1, 1), rounds=3).exp().sum(0).flatten()
    torch.testing.assert_close(used, torch.tensor([4.0, 4.0]))


def test_sinkhorn_over_several_processes_is_that_of_the_whole_batch():
    """The second process has the rest of the batch: what it adds to each sum is replayed."""
    cosines, membership = one_class(9, 3, seed=4)
    whole = assignment.sinkhorn(cosines, membership)
    sums: list[Tensor] = []
    assignment.sinkhorn(cosines, membership, lambda part: sums.append(part) or part)
    remaining = iter(sums)
    mine = assignment.sinkhorn(cosines[:4], membership[:4], lambda part: next(remaining))
    torch.testing.assert_close(mine, whole[:4])


def test_sinkhorn_of_extreme_cosines_is_finite_in_single_precision():
    cosines = torch.tensor([[1.0, -1.0, -1.0], [1.0, -1.0, 1.0], [1.0, 1.0, -1.0], [1.0, -1.0, -1.0]]).view(4, 1, 1, 3)
    membership = torch.ones(4, 1, 1)
    found = assignment.sinkhorn(cosines, membership, rounds=50)
    expected = reference.sinkhorn(cosines.tolist(), [[0]] * 4, rounds=50)
    torch.testing.assert_close(found.exp(), torch.tensor(expected), atol=1e-5, rtol=0)


def test_sinkhorn_passes_no_gradient_and_copes_with_absent_classes():
    cosines = leaf(torch.rand(3, 1, 2, 2))
    membership = one_hot(torch.tensor([[0.0], [0.0], [math.nan]]), 2)
    found = assignment.sinkhorn(cosines, membership)
    assert not found.requires_grad
    assert found.isfinite().all()


# --- nearest and pruned weights -------------------------------------------------------------------------------------


@quick
@given(case=cases())
def test_nearest(case):
    sim = sphere.similarity(case.z, case.M)
    same(assignment.nearest(sim).exp(), reference.hard_weights(sim.tolist()))


@quick
@given(case=cases())
def test_prune(case):
    log_weights = assignment.attention(case.z @ case.W_Q.T, case.W_K, case.M)
    same(assignment.prune(log_weights, case.n).exp(), reference.prune(log_weights.exp().tolist(), case.n))


def test_pruning_to_all_changes_nothing():
    log_weights = SMALL.z.new_empty(3, 2, 2, 3).normal_()
    assert torch.equal(assignment.prune(log_weights, 3), log_weights)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_equal_weights_still_keep_exactly_n(n):
    kept = assignment.prune(torch.full((4, 1, 2, 5), 0.2).log(), n).exp()
    assert (kept > 0).sum(-1).eq(n).all()
    assert kept[kept > 0].allclose(torch.tensor(0.2))


def test_equal_similarities_still_have_one_nearest():
    assert assignment.nearest(torch.ones(4, 1, 2, 5)).exp().sum(-1).eq(1).all()


def test_prune_gradient_reaches_only_what_was_kept():
    log_weights = leaf(torch.tensor([[0.5, 0.2, 0.3]]).log())
    assignment.prune(log_weights, 2).exp().sum().backward()
    assert log_weights.grad is not None
    torch.testing.assert_close(log_weights.grad, torch.tensor([[0.5, 0.0, 0.3]]))


# --- prototypes -----------------------------------------------------------------------------------------------------


def moved_by(
    z: Tensor, M: Tensor, log_weights: Tensor, membership: Tensor, momentum: float, mean: bool = False
) -> Tensor:
    return assignment.move(M, *assignment.received(log_weights, membership, z, mean=mean), momentum)


@quick
@given(case=cases(), momentum=st.sampled_from([0.0, 0.3, 0.9, 0.99]), mean=st.booleans())
def test_move(case, momentum, mean):
    found = moved_by(case.z, case.M, case.log_weights, case.membership, momentum, mean)
    lists = (case.M.tolist(), case.z.tolist(), case.log_weights.exp().tolist())
    same(found, reference.updated(*lists, reference.labelled(case.y), momentum, mean))
    same(found.norm(dim=-1), torch.ones(found.shape[:-1]).tolist())


@pytest.mark.parametrize("mean", [False, True])
def test_move_gradient_through_embeddings_weights_and_prototypes(mean):
    # A pruned slot is -inf, where no finite difference exists; here all weights are kept.
    log_weights = torch.randn(3, 2, 2, 3, dtype=torch.float64).log_softmax(-1)
    leaves = (leaf(SMALL.z), leaf(SMALL.M), leaf(log_weights))
    assert gradcheck(lambda z, M, w: moved_by(z, M, w, SMALL.membership, 0.6, mean), leaves)


@quick
@given(case=cases())
def test_only_prototypes_that_receive_something_are_named(case):
    slots, sums = assignment.received(case.log_weights, case.membership, case.z)
    weights = (case.log_weights.exp() * case.membership.unsqueeze(-1)).flatten(1)
    assert slots.tolist() == weights.sum(0).nonzero().squeeze(1).tolist()
    torch.testing.assert_close(sums, (weights.T @ case.z)[slots])


def test_it_is_a_sum_over_the_batch_not_a_mean():
    z, M = torch.tensor([[0.0, 1.0]]), torch.tensor([[[[1.0, 0.0]], [[-1.0, 0.0]]]])
    once = moved_by(z, M, torch.zeros(1, 1, 2, 1), torch.tensor([[[1.0, 0.0]]]), 0.9)
    thrice = moved_by(z.expand(3, 2), M, torch.zeros(3, 1, 2, 1), torch.tensor([[[1.0, 0.0]]]).expand(3, 1, 2), 0.9)
    torch.testing.assert_close(once[0, 0, 0, 1] / once[0, 0, 0, 0], torch.tensor(0.1 / 0.9))
    torch.testing.assert_close(thrice[0, 0, 0, 1] / thrice[0, 0, 0, 0], torch.tensor(0.3 / 0.9))


@quick
@given(case=cases(), times=st.integers(2, 5))
def test_a_mean_does_not_depend_on_the_size_of_the_batch(case, times):
    once = moved_by(case.z, case.M, case.log_weights, case.membership, 0.9, mean=True)
    repeated = [tensor.repeat(times, *[1] * (tensor.dim() - 1)) for tensor in (case.z, case.log_weights)]
    often = moved_by(repeated[0], case.M, repeated[1], case.membership.repeat(times, 1, 1), 0.9, mean=True)
    torch.testing.assert_close(often, once)


def test_a_mean_is_divided_by_the_weight_received():
    z, M = torch.tensor([[0.0, 1.0]]), torch.tensor([[[[1.0, 0.0]], [[-1.0, 0.0]]]])
    log_weights = torch.full((1, 1, 2, 1), 0.25).log()
    found = moved_by(z, M, log_weights, torch.tensor([[[1.0, 0.0]]]), 0.9, mean=True)
    torch.testing.assert_close(found[0, 0, 0, 1] / found[0, 0, 0, 0], torch.tensor(0.1 / 0.9))


def test_what_received_nothing_stays_bit_for_bit():
    torch.manual_seed(0)
    z, M = sphere.unit(torch.randn(4, 3)), sphere.random_directions(1, 3, 2, 3)
    log_weights = assignment.prune(torch.tensor([0.7, 0.3]).log().expand(4, 1, 3, 2), 1)
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
    same(assignment.spherical_kmeans(z, centres, rounds), reference.kmeans(z.tolist(), centres.tolist(), rounds))


def test_spherical_kmeans_finds_separate_groups():
    torch.manual_seed(0)
    poles = torch.eye(3)
    points = sphere.unit(poles.repeat_interleave(20, 0) + 0.05 * torch.randn(60, 3))
    centres = assignment.spherical_kmeans(points, sphere.unit(poles + 0.4))
    assert (centres @ poles.T).diagonal().min() > 0.99


def test_spherical_kmeans_keeps_a_centre_whose_points_cancel():
    points, centres = torch.tensor([[0.0, 1.0], [0.0, -1.0]]), torch.tensor([[1.0, 0.0]])
    assert torch.equal(assignment.spherical_kmeans(points, centres), centres)


# --- where prototypes start -----------------------------------------------------------------------------------------


def clusters(per_class: int, classes: int = 3, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Points around the axes of a space, and the class (n, 1, C) of each."""
    draw = torch.Generator().manual_seed(seed)
    y = torch.arange(classes).repeat(per_class).double()
    points = torch.eye(classes, 8, dtype=torch.float64)[y.long()]
    noise = 0.1 * torch.randn(points.shape, generator=draw, dtype=torch.float64)
    return sphere.unit(points + noise), one_hot(y.unsqueeze(1), classes)


@quick
@given(per_class=st.integers(1, 20), K=st.integers(1, 5), seed=st.integers(0, 99))
def test_class_means_lie_in_their_class_and_differ(per_class, K, seed):
    z, membership = clusters(per_class, seed=seed)
    torch.manual_seed(seed)
    found = assignment.class_means(z, membership, torch.zeros(1, 3, K, 8, dtype=torch.float64))
    same(found.norm(dim=-1), torch.ones(1, 3, K).tolist())
    means = sphere.unit(torch.stack([z[membership[:, 0, label] > 0].sum(0) for label in range(3)]))
    nearest = (found[0].flatten(0, 1) @ means.T).argmax(1)
    assert nearest.tolist() == torch.arange(3).repeat_interleave(K).tolist()
    assert found.flatten(0, 2).unique(dim=0).shape[0] == 3 * K


def test_without_noise_each_is_the_mean_of_an_equal_part_and_the_parts_make_up_the_class():
    """Twelve points on twelve axes: the coordinates of a mean say which points went into it."""
    z, membership = torch.eye(12), one_hot(torch.tensor([[0.0]] * 6 + [[1.0]] * 4 + [[math.nan]] * 2), 2)
    torch.manual_seed(0)
    found = assignment.class_means(z, membership, torch.zeros(1, 2, 2, 12), noise=0.0)
    for label, members in ((0, range(6)), (1, range(6, 10))):
        parts = [mean.nonzero().flatten().tolist() for mean in found[0, label]]
        assert sorted(parts[0] + parts[1]) == list(members)
        assert len(parts[0]) == len(parts[1])
        for mean, part in zip(found[0, label], parts, strict=True):
            torch.testing.assert_close(mean[part], torch.full((len(part),), len(part) ** -0.5))
    torch.manual_seed(2)
    assert not torch.equal(assignment.class_means(z, membership, torch.zeros(1, 2, 2, 12), noise=0.0), found)


@pytest.mark.parametrize("spread", [0.1, 0.5])
def test_the_noise_is_a_share_of_the_spread(spread):
    """Two kinds of points, on both sides of their mean; parts of equal size have both."""
    torch.manual_seed(0)
    height = (1 - spread**2) ** 0.5
    z = torch.zeros(40_000, 500)
    z[:, 0], z[:20_000, 1], z[20_000:, 1] = height, spread, -spread
    found = assignment.class_means(z, torch.ones(len(z), 1, 1), torch.zeros(1, 1, 4, 500), noise=0.8)[0, 0]
    tangents = (found / found[:, :1])[:, 1:].norm(dim=1)
    torch.testing.assert_close(tangents, torch.full((4,), 0.8 * spread), atol=0.02, rtol=0.1)


def test_a_class_without_points_starts_where_it_was_and_tasks_are_apart():
    z, before = sphere.unit(torch.randn(4, 3)), sphere.random_directions(2, 2, 2, 3)
    membership = one_hot(torch.tensor([[0.0, 1.0], [0.0, 1.0], [math.nan, 0.0], [0.0, 1.0]]), 2)
    found = assignment.class_means(z, membership, before, noise=0.0)
    assert torch.equal(found[0, 1], before[0, 1])
    torch.testing.assert_close(found[1, 0], z[2].expand(2, 3))
