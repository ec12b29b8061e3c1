"""Whole groups are held out: shares and classes as wanted, nothing on two sides, whatever the order of rows."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mphil.errors import DataError
from mphil.tables.splitting import HELD, LEAST_HELD, by_group, class_counts

OOD_VAL, OOD_TEST = 3, 4
FEW = settings(max_examples=60)
LABELS = st.sampled_from([0.0, 1.0, float("nan")])
ROWS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 30), LABELS), min_size=3, max_size=80)
SIZES = st.lists(st.integers(1, 4), min_size=40, max_size=120)
"""Groups of at most half a held-out part."""


def columns(rows):
    groups, keys, labels = zip(*rows, strict=True)
    return [f"g{group}" for group in groups], [str(key) for key in keys], np.array(labels)[:, None]


def split_or_none(*arguments, **options):
    try:
        return by_group(*arguments, **options)
    except DataError:
        return None


def wanted(n):
    return max(1, round(HELD * n), min(LEAST_HELD, n // 5))


def of_sizes(sizes):
    groups = [f"g{number}" for number, size in enumerate(sizes) for _ in range(size)]
    return groups, [str(row) for row in range(len(groups))]


@FEW
@given(ROWS, st.integers(0, 3))
def test_every_row_has_a_part_and_no_group_is_on_two_sides(rows, seed):
    groups, keys, labels = columns(rows)
    found = split_or_none(groups, keys, labels, seed=seed)
    assume(found is not None)
    assert set(found.part.tolist()) <= set(range(5))
    assert (found.part <= 2).sum() >= len(rows) / 2, "training keeps half of the rows"
    sides, homes, environments = defaultdict(set), defaultdict(set), defaultdict(set)
    for group, key, part, env in zip(groups, keys, found.part.tolist(), found.env.tolist(), strict=True):
        sides[group].add(max(part, 2))
        homes[key, max(part, 2)].add(part)
        environments[group].add(env)
        assert (env >= 0) == (part <= 2)
    assert all(len(side) == 1 for side in sides.values())
    assert all(len(home) == 1 for home in homes.values()), "a molecule in train and in id_val or id_test"
    assert all(len(inside) == 1 for inside in environments.values())


@FEW
@given(ROWS, st.integers(0, 3), st.randoms(use_true_random=False))
def test_neither_the_order_of_rows_nor_a_second_call_changes_anything(rows, seed, random):
    groups, keys, labels = columns(rows)
    one, again = (split_or_none(groups, keys, labels, seed=seed) for _ in range(2))
    assume(one is not None)
    order = list(range(len(rows)))
    random.shuffle(order)
    other = by_group([groups[i] for i in order], [keys[i] for i in order], labels[order], seed=seed)
    assert one.part.tolist() == again.part.tolist()
    assert other.part.tolist() == one.part[order].tolist()
    assert other.env.tolist() == one.env[order].tolist()


@FEW
@given(SIZES, st.integers(0, 3))
def test_shares_are_reached_up_to_one_group(sizes, seed):
    n = sum(sizes)
    held = np.bincount(by_group(*of_sizes(sizes), seed=seed).part, minlength=5)[[OOD_VAL, OOD_TEST]]
    assert (held <= wanted(n)).all()
    assert (held > wanted(n) - max(sizes)).all()


@FEW
@given(SIZES, st.floats(0.2, 0.9), st.floats(0, 0.3), st.integers(0, 100))
def test_both_classes_are_held_out_where_there_are_enough(sizes, positive, missing, seed):
    groups, keys = of_sizes(sizes)
    label, known = np.random.default_rng(seed).random((2, len(groups), 1))
    labels = np.where(known < missing, np.nan, (label < positive).astype(float))
    number = np.unique(groups, return_inverse=True)[1]
    counts = class_counts(number, labels)
    # So that neither part can take so much of a class that too little is left for the other one and for training.
    assume(counts.shape[1] == 2 and (7 * counts.max(0) <= counts.sum(0)).all())
    part = by_group(groups, keys, labels).part
    for held in (OOD_VAL, OOD_TEST):
        assert {0.0, 1.0} <= set(labels[part == held, 0].tolist())
    left = [(labels[part <= 2, 0] == value).sum() for value in (0, 1)]
    assert (3 * np.array(left) >= counts.sum(0)).all(), "training keeps a third of every class"


def test_a_rare_class_is_shared_out_and_most_of_it_stays():
    groups, keys = of_sizes([1] * 1000)
    labels = np.array([[float(i % 50 == 0), np.nan if i % 3 else float(i % 2)] for i in range(1000)])
    part = by_group(groups, keys, labels).part
    assert np.bincount(part).tolist() == [600, 100, 100, 100, 100]
    for held in (OOD_VAL, OOD_TEST):
        assert labels[part == held, 0].sum() >= 2
        assert min(Counter(labels[part == held, 1]).get(value, 0) for value in (0.0, 1.0)) >= 10


def test_large_groups_are_trained_on_and_small_ones_are_drawn_by_the_seed():
    sizes = [300, 200] + [2] * 250
    groups, keys = of_sizes(sizes)
    one, other = by_group(groups, keys, seed=0).part, by_group(groups, keys, seed=1).part
    assert set(one[:500].tolist()) == {0, 1, 2}
    assert np.bincount(one).tolist() == [600, 100, 100, 100, 100]
    assert (np.flatnonzero(one == OOD_TEST)[0], np.flatnonzero(one == OOD_TEST)[-1]) != (998, 999)
    assert (one != other).any()
    names = sorted({groups[row] for row in np.flatnonzero(one >= OOD_VAL)})
    everything = sorted(set(groups[500:]))
    middle = np.mean([everything.index(name) for name in names]) / len(everything)
    assert 0.35 < middle < 0.65, "held-out groups are not the end of the alphabet"


def test_few_groups():
    """Where all groups are large, the smallest ones are held out."""
    part = by_group(*of_sizes([40, 20, 20, 19, 1])).part
    assert set(part[:80].tolist()) <= {0, 1, 2, 3, 4}
    held = [int((part == code).sum()) for code in (OOD_VAL, OOD_TEST)]
    assert min(held) >= 19
    assert (part <= 2).sum() >= 50


def test_a_small_table_has_parts_worth_scoring():
    part = by_group(*of_sizes([1] * 100)).part
    assert np.bincount(part).tolist() == [40, 10, 10, 20, 20]


@pytest.mark.parametrize(
    ("groups", "labels", "message"),
    [
        (["a", "a", "b"], None, "2 different groups"),
        (["a", "b", "c"], np.zeros((2, 1)), "2 rows of labels for 3 rows; give one for each"),
        (["a"] * 40 + ["b"] * 40 + ["c"] * 40, None, "group '.' holds 40 of 120 rows and is not divided"),
    ],
)
def test_refusals(groups, labels, message):
    keys = [str(row) for row in range(len(groups))]
    with pytest.raises(DataError, match=message):
        by_group(groups, keys, labels)
    with pytest.raises(DataError, match="give one for each"):
        by_group(groups, keys[1:], labels)
