"""Weighted conformal prediction against a reference that writes the distribution out, and by its properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.errors import DataError, UsageError
from mphil.task import Task
from mphil.trust.conformal import Conformal
from mphil.trust.shift import (
    FOLDED,
    DensityRatio,
    effective_size,
    fingerprint_features,
    weighted_sets,
    weighted_thresholds,
)

BINARY = Task("binary", 1, "roc_auc")
scores_and_weights = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), min_size=1, max_size=25)


def reference(scores, weights, own: float, alpha: float) -> float:
    """The smallest value at which the distribution function, point mass by point mass, reaches 1 - alpha."""
    total = sum(weights) + own
    for value in sorted(scores):
        if sum(w for s, w in zip(scores, weights, strict=True) if s <= value) / total >= 1 - alpha - 1e-12:
            return value
    return np.inf


@settings(max_examples=80, deadline=None)
@given(scores_and_weights, st.integers(1, 9), st.sampled_from([0.05, 0.1, 0.25, 0.5, 0.9]))
def test_thresholds_are_those_of_the_distribution_written_out(rows, own, alpha):
    scores, weights = zip(*rows, strict=True)
    found = weighted_thresholds(scores, weights, [float(own)], alpha)
    assert found[0] == reference(scores, weights, own, alpha)


@settings(max_examples=40, deadline=None)
@given(scores_and_weights, st.floats(0.1, 10), st.floats(0.1, 100))
def test_only_ratios_of_weights_count_and_more_own_weight_is_never_bolder(rows, own, factor):
    scores, weights = (np.array(one, float) for one in zip(*rows, strict=True))
    first = weighted_thresholds(scores, weights, [own, 2 * own], 0.2)
    assert first[0] <= first[1]
    assert weighted_thresholds(scores, weights * factor, [own * factor], 0.2 + 1e-7)[0] <= first[0]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 60), st.sampled_from([0.05, 0.1, 0.2]), st.booleans(), st.integers(0, 99))
def test_equal_weights_give_the_plain_sets(n, alpha, per_class, seed):
    draw = np.random.default_rng(seed)
    held, y = draw.random((n, 1)), draw.integers(0, 2, (n, 1)).astype(float)
    y[draw.random(n) < 0.1] = np.nan
    new = draw.random((20, 1))
    plain = Conformal.fit(held, y, BINARY, alpha=alpha, per_class=per_class).sets(new)
    ones = np.ones(n), np.ones(20)
    found, unsupported = weighted_sets(held, y, ones[0], new, ones[1], BINARY, alpha=alpha, per_class=per_class)
    np.testing.assert_array_equal(found, plain)
    assert found[unsupported].all()


def test_several_classes_and_several_tasks():
    draw = np.random.default_rng(3)
    for task in (Task("multiclass", 3, "accuracy"), Task("multitask", 2, "roc_auc")):
        held = draw.dirichlet(np.ones(3), 40) if task.kind == "multiclass" else draw.random((40, 2))
        y = draw.integers(0, task.n_classes, (40, task.n_tasks)).astype(float)
        found, unsupported = weighted_sets(held, y, np.ones(40), held[:5], np.ones(5), task)
        assert found.shape == (5, task.n_tasks, task.n_classes)
        assert unsupported.shape == (5, task.n_tasks)


def test_without_support_every_class_is_in_the_set():
    held, y = np.full((50, 1), 0.9), np.ones((50, 1))
    sets, unsupported = weighted_sets(held, y, np.full(50, 0.01), [[0.99], [0.99]], np.array([0.01, 10.0]), BINARY)
    assert unsupported[:, 0].tolist() == [False, True]
    assert sets[1].all()
    assert not sets[0].all()


def test_coverage_holds_again_under_a_known_shift():
    """The score's spread grows with x, and x moves: plain sets cover too little, weighted ones what they promise."""
    draw = np.random.default_rng(0)

    def scores(x):
        return np.abs(draw.normal(size=len(x))) * np.exp(0.7 * x)

    held, new = draw.normal(0, 1, 4000), draw.normal(1, 1, 4000)
    known, asked = scores(held), scores(new)
    ratio = DensityRatio.fit(held[:, None], held, new[:, None], new)
    weights, own = ratio(held[:, None], held), ratio(new[:, None], new)
    plain = (asked <= np.quantile(known, 0.9)).mean()
    weighted = (asked <= weighted_thresholds(known, weights, own, 0.1)).mean()
    assert plain < 0.8
    assert weighted == pytest.approx(0.9, abs=0.03)
    assert effective_size(weights) < 0.5 * len(weights)


def test_rows_drawn_alike_have_weights_near_one():
    draw = np.random.default_rng(1)
    held, new = draw.normal(size=(400, 30)), draw.normal(size=(600, 30))
    ratio = DensityRatio.fit(held, held[:, 0], new, new[:, 0])
    assert ratio(held, held[:, 0]).mean() == pytest.approx(1.0, abs=0.1)
    assert effective_size(ratio(held, held[:, 0])) > 350


def test_features_that_never_change_do_no_harm():
    same = np.ones((10, 4))
    ratio = DensityRatio.fit(same, np.zeros(10), same, np.zeros(10))
    np.testing.assert_allclose(ratio(same, np.zeros(10)), 1.0, atol=1e-6)


def test_fingerprints_are_folded():
    bits = np.zeros((1, 64), np.uint8)
    bits[0, 0] = bits[0, 32] = 0b10000000
    found = fingerprint_features(bits)
    assert found.shape == (1, FOLDED)
    assert (found[0, 0], found.sum()) == (2.0, 2.0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: weighted_thresholds([1.0], [1.0, 2.0], [1.0], 0.1), DataError, "2 weights for 1 scores"),
        (lambda: weighted_thresholds([1.0], [-1.0], [1.0], 0.1), DataError, "negative"),
        (lambda: weighted_thresholds([1.0], [1.0], [1.0], 1.0), UsageError, "between 0 and 1"),
        (lambda: DensityRatio.fit(np.ones((2, 1)), [0, 0], np.ones((0, 1)), []), DataError, "new ones"),
        (lambda: DensityRatio.fit(np.ones((2, 1)), [0], np.ones((1, 1)), [0]), DataError, "1 distances for 2"),
        (lambda: fingerprint_features(np.zeros((1, 3), np.uint8)), DataError, "multiples of 256"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()
