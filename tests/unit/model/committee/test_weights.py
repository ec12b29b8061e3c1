"""Weights follow the evidence as far as there is any."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mphil.model.committee.weights import NETWORKS, as_logits, combine, first_weights, fit_weights, spread
from mphil.task import Task
from mphil.trust.calibration import Calibration

BINARY = Task("binary", 1, "roc_auc")


def members(n, seed=0):
    """Labels; a member that knows, one that guesses, one that is sure and wrong."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, (n, 1)).astype(float)
    said = np.stack([np.where(y > 0, 0.8, 0.2), np.full((n, 1), 0.5), np.where(y > 0, 0.1, 0.9)])
    return said, y


def test_who_knows_counts_most():
    weights = fit_weights([members(5_000)], BINARY)
    assert weights[0] > 0.9
    assert weights.sum() == pytest.approx(1)


def test_few_labels_move_the_weights_little():
    plain = np.full(3, 1 / 3)
    gaps = [np.abs(fit_weights([members(n)], BINARY) - plain).max() for n in (0, 5, 50, 500)]
    assert gaps[0] == pytest.approx(0)
    assert gaps == sorted(gaps)
    assert gaps[1] < 0.05


def test_what_weights_begin_with():
    mixed = first_weights([True, True, False, False, False])
    assert mixed[:2].sum() == pytest.approx(NETWORKS)
    assert mixed.sum() == pytest.approx(1)
    assert len(set(mixed[:2])) == len(set(mixed[2:])) == 1
    assert first_weights([True, False], 0.4).tolist() == [0.4, 0.6]
    assert first_weights([True, True]).tolist() == first_weights([False, False]).tolist() == [0.5, 0.5]
    start = np.array([0.2, 0.3, 0.5])
    np.testing.assert_allclose(fit_weights([members(0)], BINARY, start), start)
    np.testing.assert_allclose(
        fit_weights([members(5_000)], BINARY, start), fit_weights([members(5_000)], BINARY), atol=0.05
    )


def test_missing_labels_count_nothing():
    said, y = members(60)
    half = y.copy()
    half[30:] = np.nan
    np.testing.assert_allclose(fit_weights([(said, half)], BINARY), fit_weights([(said[:, :30], y[:30])], BINARY))


def test_a_small_part_counts_as_much_as_a_large_one():
    said, y = members(400)
    large, small = (said, y), (said[:, :40], 1 - y[:40])
    weights = fit_weights([large, small], BINARY)
    assert weights[0] < 0.5 < fit_weights([large], BINARY)[0], "one part praises the first member, the other the last"


@given(st.integers(0, 1_000), st.integers(1, 60))
def test_better_than_no_member_is_never_far_from_the_plain_mean(seed, n):
    rng = np.random.default_rng(seed)
    said, y = rng.uniform(0.01, 0.99, (4, n, 1)), rng.integers(0, 2, (n, 1)).astype(float)
    weights = fit_weights([(said, y)], BINARY)
    assert (weights >= 100 / 4 / (n + 100) - 1e-9).all()
    assert weights.sum() == pytest.approx(1)


def test_several_classes_and_tasks():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, (200, 1)).astype(float)
    good = np.full((200, 3), 0.1)
    good[np.arange(200), y[:, 0].astype(int)] = 0.8
    said = np.stack([good, np.full((200, 3), 1 / 3)])
    assert fit_weights([(said, y)], Task("multiclass", 3, "accuracy"))[0] > 0.6
    tasks = rng.integers(0, 2, (200, 2)).astype(float)
    said = np.stack([0.1 + 0.8 * tasks, np.full((200, 2), 0.5)])
    assert fit_weights([(said, tasks)], Task("multitask", 2, "roc_auc"))[0] > 0.6


def test_mean_and_spread():
    said = np.array([[[0.2]], [[0.6]]])
    assert combine(said, np.array([0.5, 0.5])) == pytest.approx(0.4)
    assert spread(said, np.array([0.5, 0.5])) == pytest.approx(0.2)
    assert spread(said, np.array([1.0, 0.0])) == pytest.approx(0.0)


@pytest.mark.parametrize("kind", ["binary", "multitask", "multiclass"])
def test_logits_give_the_probabilities_back(kind):
    outputs = 1 if kind == "binary" else 3
    said = np.random.default_rng(0).dirichlet(np.ones(outputs + 1), 50)[:, :outputs]
    if kind == "multiclass":
        said = said / said.sum(1, keepdims=True)
    found = Calibration("none", kind, outputs).apply(as_logits(said, kind))
    np.testing.assert_allclose(found, said, atol=1e-5)
    assert np.isfinite(as_logits(np.array([[0.0, 1.0, 0.0]]), kind)).all()
