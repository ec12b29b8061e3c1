"""Sets keep their promise on exchangeable data, exactly; everything else against loops."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.errors import DataError, IntegrityError, UsageError
from mphil.task import Task
from mphil.trust.conformal import Conformal

NAN = math.nan
BINARY = Task("binary", 1, "roc_auc")
THREE = Task("multiclass", 3, "accuracy")
PAIR = Task("multitask", 2, "roc_auc")
ALPHAS = st.sampled_from([0.05, 0.1, 0.2, 0.3, 0.5])


@st.composite
def bag(draw, distinct=False):
    """Probabilities of three classes and labels: any at all, in half of the cases with many ties."""
    n = draw(st.integers(1, 30))
    generator = np.random.default_rng(draw(st.integers(0, 10**6)))
    chances = generator.dirichlet([1, 1, 1], n)
    if not distinct and draw(st.booleans()):
        chances = chances.round(1)
    return chances, generator.integers(0, 3, (n, 1)).astype(float)


def left_out(chances, y, alpha, per_class):
    """For each row: does the set hold its label when all others are the held-out ones?"""
    for row in range(len(y)):
        others = np.arange(len(y)) != row
        conformal = Conformal.fit(chances[others], y[others], THREE, alpha=alpha, per_class=per_class)
        yield bool(conformal.sets(chances[[row]])[0, 0, int(y[row, 0])])


@given(bag(), ALPHAS)
@settings(max_examples=60)
def test_whichever_is_the_new_one_at_most_alpha_are_missed(case, alpha):
    """Exchangeable means: each of the n + 1 rows is the new one equally often. So the promise is a count."""
    chances, y = case
    covered = sum(left_out(chances, y, alpha, per_class=False))
    assert Fraction(covered, len(y)) >= 1 - Fraction(str(alpha))


@given(bag(distinct=True), ALPHAS)
@settings(max_examples=40)
def test_without_ties_no_more_is_covered_than_must_be(case, alpha):
    chances, y = case
    covered = sum(left_out(chances, y, alpha, per_class=False))
    assert Fraction(covered, len(y)) < 1 - Fraction(str(alpha)) + Fraction(1, len(y))


@given(bag(), ALPHAS)
@settings(max_examples=60)
def test_the_promise_for_each_class(case, alpha):
    chances, y = case
    covered = list(left_out(chances, y, alpha, per_class=True))
    for c in range(3):
        mine = [hit for hit, label in zip(covered, y[:, 0], strict=True) if label == c]
        assert not mine or Fraction(sum(mine), len(mine)) >= 1 - Fraction(str(alpha))


def loop_sets(held_out, labels, chances, alpha, per_class):
    """Sets of a three-class problem, class by class."""
    found = []
    for row in chances.tolist():
        chosen = []
        for c in range(3):
            pairs = [(held, int(y)) for held, (y,) in zip(held_out, labels, strict=True) if y == y]
            scores = sorted(1 - held[y] for held, y in pairs if y == c or not per_class)
            place = math.ceil((len(scores) + 1) * (1 - Fraction(str(alpha))))
            chosen.append(place > len(scores) or 1 - row[c] <= scores[place - 1])
        found.append([chosen])
    return found


@pytest.mark.parametrize("per_class", [False, True])
@given(bag(), bag(), ALPHAS)
@settings(max_examples=40)
def test_sets_against_a_loop(per_class, held_out, new, alpha):
    chances, y = held_out
    y = np.where(np.arange(len(y))[:, None] % 4 == 3, NAN, y)
    found = Conformal.fit(chances, y, THREE, alpha=alpha, per_class=per_class).sets(new[0])
    assert found.tolist() == loop_sets(chances, y, new[0], alpha, per_class)


def test_thresholds_written_out():
    """Nine labels, alpha 0.1: place ceil(10 * 0.9) = 9, the largest score; with alpha 0.2, place 8."""
    chances = np.arange(1, 10)[:, None] / 10
    strict = Conformal.fit(chances, np.ones((9, 1)), BINARY, alpha=0.1)
    loose = Conformal.fit(chances, np.ones((9, 1)), BINARY, alpha=0.2)
    assert strict.thresholds[0] == pytest.approx((0.9, 0.9))
    assert loose.thresholds[0] == pytest.approx((0.8, 0.8))
    assert strict.labels == loose.labels == ((9, 9),)


def test_tasks_stand_by_themselves_and_missing_labels_are_left_out():
    generator = np.random.default_rng(0)
    chances, y = generator.random((50, 2)), generator.integers(0, 2, (50, 2)).astype(float)
    y[:20, 0] = NAN
    for per_class in (False, True):
        both = Conformal.fit(chances, y, PAIR, per_class=per_class).sets(chances)
        assert both.shape == (50, 2, 2)
        for column in (0, 1):
            kept = ~np.isnan(y[:, column])
            alone = Conformal.fit(chances[kept][:, [column]], y[kept][:, [column]], BINARY, per_class=per_class)
            assert (both[:, column] == alone.sets(chances[:, [column]])[:, 0]).all()


def test_a_class_without_held_out_labels_is_in_every_set():
    chances, y = np.linspace(0.01, 0.4, 30)[:, None], np.zeros((30, 1))
    conformal = Conformal.fit(chances, y, BINARY, per_class=True)
    assert conformal.always.tolist() == [[False, True]]
    assert conformal.labels == ((30, 0),)
    assert conformal.sets([[0.0], [0.99]]).tolist() == [[[True, True]], [[False, True]]]


@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize(
    ("chances", "y"),
    [
        (np.zeros((0, 1)), np.zeros((0, 1))),
        ([[0.7]], [[1.0]]),
        ([[0.7]] * 8, [[1.0]] * 8),
        ([[0.7]] * 20, [[NAN]] * 20),
    ],
)
def test_too_few_labels_promise_nothing(chances, y, per_class):
    conformal = Conformal.fit(chances, y, BINARY, alpha=0.1, per_class=per_class)
    assert conformal.always.all()
    assert conformal.sets([[0.0], [0.5], [1.0]]).all()


def test_constant_probabilities_are_all_plausible():
    conformal = Conformal.fit([[0.5]] * 40, [[0.0], [1.0]] * 20, BINARY)
    assert conformal.sets([[0.5]]).all()
    assert not conformal.always.any()


def test_an_unheard_of_doubt_gives_an_empty_set():
    conformal = Conformal.fit([[0.99]] * 20 + [[0.01]] * 20, [[1.0]] * 20 + [[0.0]] * 20, BINARY)
    assert not conformal.sets([[0.5]]).any()


def test_coverage_counted_by_hand():
    conformal = Conformal(0.1, True, "multitask", ((0.5, 0.3), (None, 0.1)), ((9, 9), (0, 9)))
    chances = [[0.2, 0.95], [0.8, 0.5], [0.6, 0.5], [0.9, 0.2]]
    y = [[0.0, 1.0], [1.0, NAN], [1.0, 1.0], [0.0, 0.0]]
    # Sets of the first task: {0}, {1}, {} and {1}; of the second, in which 0 is always: {0, 1}, {0}, {0}, {0}.
    found = conformal.coverage(chances, y)
    assert found.labels == 7
    assert found.covered == pytest.approx(4 / 7)
    assert found.by_class == pytest.approx((2 / 3, 2 / 4))
    assert found.size == pytest.approx((1 + 1 + 0 + 1 + 2 + 1 + 1) / 7)
    assert found.single == pytest.approx(5 / 7)
    assert found.empty == pytest.approx(1 / 7)


def test_coverage_of_nothing_is_none():
    conformal = Conformal.fit([[0.5]] * 40, [[0.0], [1.0]] * 20, BINARY)
    for chances, y in (([[0.4]], [[NAN]]), (np.zeros((0, 1)), np.zeros((0, 1)))):
        found = conformal.coverage(chances, y)
        assert (found.labels, found.covered, found.by_class, found.size) == (0, None, (None, None), None)


def test_a_rare_class_is_protected_class_by_class_only():
    """Two in a hundred are positive and look negative: together they may all be missed, by themselves not."""
    generator = np.random.default_rng(0)
    y = (np.arange(3000) % 50 == 0).astype(float)[:, None]
    chances = generator.beta(1, 20, (3000, 1)) + 0.05 * y
    whole, each = (Conformal.fit(chances[:1500], y[:1500], BINARY, per_class=c) for c in (False, True))
    assert whole.coverage(chances[1500:], y[1500:]).by_class[1] < 0.5
    assert each.coverage(chances[1500:], y[1500:]).by_class[1] >= 0.8
    assert whole.coverage(chances[1500:], y[1500:]).covered >= 0.88


@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize("task", [BINARY, THREE, PAIR], ids=lambda task: task.kind)
def test_it_comes_back_from_json(task, per_class):
    generator = np.random.default_rng(1)
    chances = generator.random((40, task.n_outputs))
    y = generator.integers(0, task.n_classes, (40, task.n_tasks)).astype(float)
    y[y == 0] = NAN if per_class else 0.0
    conformal = Conformal.fit(chances, y, task, per_class=per_class)
    again = Conformal.from_dict(json.loads(json.dumps(conformal.to_dict(), allow_nan=False)))
    assert again == conformal
    assert (again.sets(chances) == conformal.sets(chances)).all()


GOOD = {"alpha": 0.1, "per_class": True, "kind": "binary", "thresholds": [[0.5, None]], "labels": [[9, 0]]}


@pytest.mark.parametrize(
    "values",
    [
        {},
        GOOD | {"alpha": 0.0},
        GOOD | {"alpha": 1.5},
        GOOD | {"thresholds": []},
        GOOD | {"thresholds": [[0.5]]},
        GOOD | {"thresholds": [[0.5, NAN]]},
        GOOD | {"thresholds": [[0.5, 0.5, 0.5]], "labels": [[9, 9, 9]]},
        GOOD | {"thresholds": [[0.5, 0.5]] * 2, "labels": [[9, 9]] * 2},
        GOOD | {"labels": [[9]]},
        GOOD | {"kind": "regression"},
        GOOD | {"other": 1},
    ],
)
def test_a_spoiled_file_is_refused(values):
    assert Conformal.from_dict(GOOD).alpha == 0.1
    with pytest.raises(IntegrityError, match="stored conformal cannot be used"):
        Conformal.from_dict(values)


def test_impossible_requests():
    with pytest.raises(UsageError, match="alpha must be between 0 and 1, not 1"):
        Conformal.fit([[0.5]], [[0.0]], BINARY, alpha=1)
    with pytest.raises(DataError, match="is no probability"):
        Conformal.fit([[3.0]], [[0.0]], BINARY)
    with pytest.raises(DataError, match="probabilities have shape"):
        Conformal.from_dict(GOOD).sets([[0.5, 0.5]])
