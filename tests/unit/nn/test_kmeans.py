"""k-means against scikit-learn and its definition."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from mphil.nn.kmeans import kmeans, nearest_centre
from mphil.nn.sphere import unit


def spread(points, labels, centres):
    return sum(((p - centres[c]) ** 2).sum().item() for p, c in zip(points, labels, strict=True))


@pytest.mark.parametrize(("n", "d", "k"), [(40, 3, 4), (60, 8, 2), (30, 2, 5)])
def test_as_good_as_scikit_learn(n, d, k):
    torch.manual_seed(n)
    points = torch.randn(n, d, dtype=torch.float64)
    labels, centres = kmeans(points, k, restarts=20)
    theirs = KMeans(k, n_init=50, random_state=0).fit(points.numpy()).inertia_
    assert spread(points, labels, centres) <= theirs * 1.01


@settings(max_examples=20, derandomize=True)
@given(st.integers(1, 12), st.integers(1, 4), st.integers(1, 6), st.booleans())
def test_a_result_that_no_further_move_would_change(n, d, k, cosine):
    torch.manual_seed(n + 10 * d + 100 * k)
    points = torch.randn(n, d, dtype=torch.float64)
    labels, centres = kmeans(points, k, cosine=cosine)
    assert labels.shape == (n,)
    assert centres.shape == (k, d)
    points = unit(points) if cosine else points
    for j in range(k):
        own = points[labels == j]
        if len(own):
            mean = unit(own.sum(0)) if cosine else own.mean(0)
            if mean.any():
                torch.testing.assert_close(centres[j], mean)
    for point, label in zip(points, labels, strict=True):
        distances = [(point - centre).square().sum().item() for centre in centres]
        assert distances[label] <= min(distances) + 1e-12
    assert torch.equal(labels, nearest_centre(points, centres, cosine))


def test_far_from_the_origin_in_single_precision():
    points = torch.tensor([[0.0], [0.2], [5.0], [5.2]]) + 1e5
    labels, _ = kmeans(points, 2)
    assert (labels == labels[0]).tolist() == [True, True, False, False]


def test_directions_do_not_care_for_lengths():
    points = torch.tensor([[1.0, 0.1], [90.0, 0.0], [0.0, 2.0], [0.2, 70.0]])
    labels, centres = kmeans(points, 2, cosine=True)
    assert (labels == labels[0]).tolist() == [True, True, False, False]
    torch.testing.assert_close(centres.norm(dim=1), torch.ones(2))


@pytest.mark.parametrize("cosine", [False, True])
def test_fewer_points_than_clusters_equal_points_and_none(cosine):
    labels, centres = kmeans(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), 5, cosine=cosine)
    assert labels[0] != labels[1]
    assert centres.shape == (5, 2)
    labels, centres = kmeans(torch.zeros(4, 2), 3, cosine=cosine)
    assert labels.tolist() == [0] * 4
    assert centres.isfinite().all()
    labels, centres = kmeans(torch.zeros(0, 2), 3, cosine=cosine)
    assert (labels.shape, centres.shape) == ((0,), (3, 2))


def test_one_seed_one_result_and_no_gradient():
    points = torch.randn(20, 3, requires_grad=True)
    results = []
    for _ in range(2):
        torch.manual_seed(3)
        results.append(kmeans(points, 4))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])
    assert not results[0][1].requires_grad
