"""k-means and support vector machines on embeddings."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.metrics import roc_auc_score
from sklearn.svm import LinearSVC

from mphil.nn import posthoc
from mphil.nn.posthoc import fit_probe, kmeans, nearest_centre, score, soft_clusters, soft_labels
from mphil.nn.sphere import unit
from tests.graphs import TASKS


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


NAN = float("nan")


def points_and_answers(n=120, d=5, columns=1, seed=0, missing=0.0):
    torch.manual_seed(seed)
    x = 3 + 2 * torch.randn(n, d, dtype=torch.float64)
    answers = ((x - 3) @ torch.randn(d, columns, dtype=torch.float64) + 2 * torch.randn(n, columns) > 1).double()
    answers[torch.rand(n, columns) < missing] = NAN
    return x, answers


def theirs(x, answers, folds):
    """scikit-learn's probabilities with the same folds, for points that are standardised."""
    places = [(np.flatnonzero(folds != f), np.flatnonzero(folds == f)) for f in range(folds.max() + 1)]
    machine = LinearSVC(tol=1e-10, max_iter=1_000_000)
    return CalibratedClassifierCV(machine, cv=places).fit(x, answers).predict_proba(x)[:, 1]


@pytest.mark.parametrize("folds", [2, 3])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_the_same_probabilities_as_scikit_learn(folds, missing):
    x, answers = points_and_answers(columns=2, missing=missing)
    torch.manual_seed(7)
    probe = fit_probe(x, answers, folds)
    torch.manual_seed(7)
    fold_of = posthoc._folds(answers, folds).numpy()
    standard = ((x - x.mean(0)) / x.std(0, correction=0)).numpy()
    for column in range(2):
        known = ~answers[:, column].isnan().numpy()
        expected = theirs(standard[known], answers[known, column].numpy(), fold_of[known, column])
        np.testing.assert_allclose(probe(x)[known, column], expected, atol=2e-5)


def test_folds_share_out_both_answers():
    _, answers = points_and_answers(n=100, columns=3, missing=0.2)
    fold_of = posthoc._folds(answers, 3)
    for column in range(3):
        for answer in (0.0, 1.0):
            counts = fold_of[answers[:, column] == answer, column].bincount(minlength=3)
            assert counts.max() - counts.min() <= 1


def test_a_weight_that_cannot_be_improved():
    x, answers = points_and_answers(n=60)
    x = posthoc._with_intercept((x - x.mean(0)) / x.std(0))
    signs = 2 * answers.T - 1
    weight = posthoc._fit_hinge(x, signs, torch.ones_like(signs, dtype=torch.bool)).requires_grad_()
    lack = [(1 - signs[0, i] * (weight[0] * x[i]).sum()).clamp_min(0) ** 2 for i in range(len(x))]
    (weight.square().sum() / 2 + sum(lack)).backward()
    assert weight.grad.abs().max() < 1e-8


@pytest.mark.parametrize("answer", [0.0, 1.0])
def test_a_column_with_one_answer_is_near_it_and_one_without_any_is_undecided(answer):
    x, answers = points_and_answers(n=30, columns=3)
    answers[:, 1], answers[:, 2] = answer, NAN
    found = fit_probe(x, answers)(x)
    assert ((found[:, 1] - answer).abs() < 0.2).all()
    torch.testing.assert_close(found[:, 2], torch.full((30,), 0.5, dtype=torch.float64))


@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_handful_of_points_and_constant_columns(n):
    x = torch.ones(n, 3)
    found = soft_labels(x, torch.arange(n).unsqueeze(1) % 3.0, TASKS["multiclass"])(x)
    assert found.shape == (n, 3)
    torch.testing.assert_close(found.sum(1), torch.ones(n, dtype=torch.float64))


def test_many_machines_at_a_time_do_not_disturb_each_other(monkeypatch):
    x, answers = points_and_answers(columns=5, missing=0.2)
    torch.manual_seed(1)
    together = fit_probe(x, answers)(x)
    monkeypatch.setattr(posthoc, "COLUMNS_AT_ONCE", 2)
    torch.manual_seed(1)
    torch.testing.assert_close(fit_probe(x, answers)(x), together)


def test_more_points_than_the_limit_are_drawn(monkeypatch):
    monkeypatch.setattr(posthoc, "MOST_POINTS", 50)
    x, answers = points_and_answers(n=200)
    seen = []
    fit = posthoc._fit_hinge
    monkeypatch.setattr(posthoc, "_fit_hinge", lambda x, *rest: seen.append(len(x)) or fit(x, *rest))
    probe = fit_probe(x, answers)
    assert seen == [50]
    assert score(probe(x), answers, TASKS["binary"]) > 0.7


@pytest.mark.parametrize("kind", sorted(TASKS))
def test_soft_labels_know_the_labels_they_were_made_from(kind):
    task = TASKS[kind]
    torch.manual_seed(0)
    y = torch.randint(task.n_classes, (90, task.n_tasks)).float()
    points = torch.randn(90, 6) + 3 * y @ torch.randn(task.n_tasks, 6)
    y[torch.rand_like(y) < 0.2] = NAN
    predict = soft_labels(points, y, task)
    found = predict(points)
    assert found.shape == (90, task.n_outputs)
    assert score(found, y, task) > (0.8 if kind == "multiclass" else 0.9)
    if kind == "multiclass":
        torch.testing.assert_close(found.sum(1), torch.ones(90, dtype=torch.float64))


def test_score_is_accuracy_or_the_area_under_the_curve():
    assert (
        score(
            torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5], [1.0, 0.0, 0.0]]),
            torch.tensor([[0.0], [1.0], [NAN]]),
            TASKS["multiclass"],
        )
        == 0.5
    )
    torch.manual_seed(0)
    found, y = (torch.rand(40, 4) * 8).round(), torch.randint(2, (40, 4)).float()
    y[:5, 0], y[:, 2], y[:, 3] = NAN, 1.0, NAN
    expected = [roc_auc_score(y[known, t], found[known, t]) for t, known in enumerate(~y.isnan().T) if t < 2]
    assert score(found, y, TASKS["multitask"]) == pytest.approx(np.mean(expected), abs=1e-12)
    assert np.isnan(score(found[:, :1], y[:, 3:], TASKS["binary"]))


def test_soft_clusters_find_the_groups_and_their_shares():
    torch.manual_seed(0)
    centres = torch.tensor([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])
    owner = torch.tensor([0] * 30 + [1] * 20 + [2] * 10)
    soft, share = soft_clusters(centres[owner] + torch.randn(60, 2), 3)
    torch.testing.assert_close(soft.sum(1), torch.ones(60, dtype=torch.float64))
    torch.testing.assert_close(share, torch.tensor([0.5] * 30 + [1 / 3] * 20 + [1 / 6] * 10))
    found = soft.argmax(1)
    assert len({tuple(found[owner == j].unique().tolist()) for j in range(3)}) == 3
    assert all(len(found[owner == j].unique()) == 1 for j in range(3))


@pytest.mark.parametrize("n", [1, 2, 5])
def test_fewer_points_than_clusters(n):
    soft, share = soft_clusters(torch.randn(n, 4), 3)
    assert soft.isfinite().all()
    assert soft.shape == (n, 3)
    assert ((share > 0) & (share <= 1)).all()
