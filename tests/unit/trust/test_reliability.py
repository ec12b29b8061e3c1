"""What probabilities are worth: errors against loops, simulation and scikit-learn."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.metrics import log_loss as sklearn_log_loss

from mphil.task import Task
from mphil.trust.reliability import (
    expected_calibration_error,
    log_loss,
    reliability,
    root,
    squared_calibration_error,
)

NAN = math.nan
BINARY = Task("binary", 1, "roc_auc")
THREE = Task("multiclass", 3, "accuracy")
PAIR = Task("multitask", 2, "roc_auc")
few = settings(max_examples=40)


def loop_error(said, hits, bins):
    """Expected calibration error, bin by bin."""
    pairs = [(p, h) for p, h in zip(said, hits, strict=True) if h == h]
    total = 0.0
    for b in range(bins):
        inside = [(p, h) for p, h in pairs if b / bins <= p < (b + 1) / bins or (b == bins - 1 and p == 1)]
        if inside:
            gap = abs(sum(p for p, _ in inside) - sum(h for _, h in inside)) / len(inside)
            total += gap * len(inside) / len(pairs)
    return total


@given(
    arrays.arrays(float, (12, 2), elements=st.sampled_from([0.0, 0.1, 0.21, 0.5, 0.77, 0.99, 1.0])),
    arrays.arrays(float, (12, 2), elements=st.sampled_from([0.0, 1.0, NAN])),
)
@few
def test_the_error_of_yes_or_no_tasks_against_a_loop(said, y):
    columns = [c for c in (0, 1) if not np.isnan(y[:, c]).all()]
    found = expected_calibration_error(said, y, PAIR, bins=8)
    if not columns:
        assert found is None
    else:
        expected = [loop_error(said[:, c].tolist(), y[:, c].tolist(), 8) for c in columns]
        assert found == pytest.approx(sum(expected) / len(expected), abs=1e-12)


def test_the_error_of_several_classes_is_that_of_the_likeliest():
    chances = np.array([[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.2, 0.1, 0.7], [0.5, 0.25, 0.25]])
    y = np.array([[0.0], [0.0], [2.0], [NAN]])
    said, hits = [0.6, 0.7, 0.7], [1.0, 0.0, 1.0]
    assert expected_calibration_error(chances, y, THREE, bins=5) == pytest.approx(loop_error(said, hits, 5))
    found = reliability(chances, y, THREE, bins=5)
    assert found.count.tolist() == [0, 0, 0, 3, 0]
    assert found.predicted[3] == pytest.approx(2 / 3)
    assert found.observed[3] == pytest.approx(2 / 3)
    assert np.isnan(found.observed[[0, 1, 2, 4]]).all()


def test_reliability_of_one_task_and_of_all():
    said, y = [[0.05, 0.95], [0.05, 1.0]], [[0.0, 1.0], [1.0, NAN]]
    first, second, both = (reliability(said, y, PAIR, target=t) for t in (0, 1, None))
    assert (first.count + second.count).tolist() == both.count.tolist() == [2, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert (first.observed[0], second.observed[9]) == (0.5, 1.0)
    assert (both.predicted[0], both.predicted[9]) == (0.05, 0.95)


def test_nothing_to_judge():
    assert reliability(np.zeros((0, 1)), np.zeros((0, 1)), BINARY).error is None
    assert expected_calibration_error([[0.4]], [[NAN]], BINARY) is None
    assert log_loss([[0.4]], [[NAN]], BINARY) is None


def test_log_loss_against_scikit_learn():
    generator = np.random.default_rng(4)
    chances = generator.dirichlet([1, 1, 1], 50)
    y = generator.integers(0, 3, (50, 1)).astype(float)
    y[::4] = NAN
    kept = ~np.isnan(y[:, 0])
    assert log_loss(chances, y, THREE) == pytest.approx(sklearn_log_loss(y[kept, 0], chances[kept], labels=[0, 1, 2]))
    assert log_loss([[0.9, 0.2]], [[1.0, 0.0]], PAIR) == pytest.approx(-(math.log(0.9) + math.log(0.8)) / 2)
    assert math.isfinite(log_loss([[0.0]], [[1.0]], BINARY))


def drawn(n, bend, seed):
    """Two numbers of 400 samples of n rows: the mean of both errors, labels drawn from `bend` of what is said."""
    rng = np.random.default_rng(seed)
    said = rng.beta(0.7, 1.6, (400, n, 1))
    y = (rng.random(said.shape) < bend(said)).astype(float)
    pairs = list(zip(said, y, strict=True))
    plain = [expected_calibration_error(p, labels, BINARY) for p, labels in pairs]
    return np.mean(plain), np.array([squared_calibration_error(p, labels, BINARY) for p, labels in pairs])


@pytest.mark.parametrize("n", [50, 150, 500])
def test_true_probabilities_have_no_squared_error_on_average(n):
    plain, squares = drawn(n, lambda p: p, seed=n)
    assert abs(squares.mean()) < 4 * squares.std() / 20
    assert abs(squares.mean()) < plain**2 / 5
    assert plain == pytest.approx({50: 0.15, 150: 0.09, 500: 0.05}[n], abs=0.01), "it takes chance for a gap"
    assert (squares < 0).any()


@pytest.mark.parametrize("n", [50, 150, 500])
def test_a_known_gap_is_found_at_any_size(n):
    _, squares = drawn(n, lambda p: 0.15 + 0.7 * p, seed=n + 1)
    rng = np.random.default_rng(0)
    said = rng.beta(0.7, 1.6, (400_000, 1))
    true = reliability(said, (rng.random(said.shape) < 0.15 + 0.7 * said).astype(float), BINARY, bins=15)
    assert root(squares.mean()) == pytest.approx(root(true.squared_error), abs=0.01)
    assert root(true.squared_error) == pytest.approx(0.0966, abs=0.002)


@given(
    arrays.arrays(float, (14, 2), elements=st.sampled_from([0.0, 0.1, 0.21, 0.5, 0.77, 0.99, 1.0])),
    arrays.arrays(float, (14, 2), elements=st.sampled_from([0.0, 1.0, NAN])),
)
@few
def test_the_squared_error_against_a_loop(said, y):
    found = []
    for p, labels in zip(said.T.tolist(), y.T.tolist(), strict=True):
        places = {b: [] for b in range(8)}
        for value, label in zip(p, labels, strict=True):
            if label == label:
                places[min(int(value * 8), 7)].append((value, label))
        larger = [rows for rows in places.values() if len(rows) > 1]
        total = 0.0
        for rows in larger:
            predicted, observed = (sum(column) / len(rows) for column in zip(*rows, strict=True))
            variance = sum((label - observed) ** 2 for _, label in rows) / (len(rows) - 1)
            total += len(rows) * ((observed - predicted) ** 2 - variance / len(rows))
        if larger:
            found.append(total / sum(map(len, larger)))
    expected = sum(found) / len(found) if found else None
    assert squared_calibration_error(said, y, PAIR, bins=8) == pytest.approx(expected, abs=1e-12)


def test_single_rows_tell_no_variance():
    assert squared_calibration_error([[0.1], [0.9]], [[0.0], [1.0]], BINARY) is None
    assert root(None) is None
    assert (root(-0.01), root(0.04)) == (0.0, 0.2)
