"""What `fit` holds out."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.model.estimator.holdout import hold_out
from mphil.tables.splitting import ID_VAL, OOD_VAL, TRAIN

ROWS = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 30), st.sampled_from([0.0, 1.0, 2.0])),
    min_size=4,
    max_size=60,
)


@settings(max_examples=60)
@given(ROWS, st.floats(0.05, 0.5), st.integers(0, 3))
def test_nothing_is_on_two_sides_and_every_class_is_trained(rows, share, seed):
    # Equal keys are equal molecules: they have one scaffold and, here, one label.
    first = {key: (domain, label) for domain, key, label in reversed(rows)}
    keys = [str(key) for _, key, _ in rows]
    domains, labels = zip(*(first[key] for _, key, _ in rows), strict=True)
    y = np.array(labels)[:, None]
    made = hold_out(domains, keys, y, share, seed)
    assert set(made.part) <= {TRAIN, ID_VAL, OOD_VAL}
    shifted = {domain for domain, part in zip(domains, made.part, strict=True) if part == OOD_VAL}
    assert not shifted & {domain for domain, part in zip(domains, made.part, strict=True) if part != OOD_VAL}
    for key in set(keys):
        assert len({part for part, own in zip(made.part, keys, strict=True) if own == key}) == 1
    assert set(y[made.part == TRAIN, 0]) == set(labels)
    assert ((made.env >= 0) == (made.part != OOD_VAL)).all()
    # All of it depends on what the rows are, not on their order.
    back = hold_out(domains[::-1], keys[::-1], y[::-1], share, seed)
    assert back.part[::-1].tolist() == made.part.tolist()


def test_half_of_the_share_are_the_last_domains_and_half_is_drawn_from_every_class():
    domains = ["a"] * 60 + ["b"] * 30 + ["c"] * 10
    y = np.array([[0.0], [1.0]] * 50)
    made = hold_out(domains, [str(row) for row in range(100)], y, 0.2, 0)
    assert np.flatnonzero(made.part == OOD_VAL).tolist() == list(range(90, 100))
    assert np.unique(y[made.part == ID_VAL], return_counts=True)[1].tolist() == [5, 5]


def test_a_last_domain_that_is_too_large_is_not_held_out():
    made = hold_out(["a"] * 5 + ["z"] * 15, [str(row) for row in range(20)], np.array([[0.0], [1.0]] * 10), 0.2, 0)
    assert not (made.part == OOD_VAL).any()


def test_a_class_that_only_the_last_domain_has_is_trained():
    y = np.array([[0.0]] * 18 + [[1.0]] * 2)
    made = hold_out(["a"] * 18 + ["z"] * 2, [str(row) for row in range(20)], y, 0.2, 0)
    assert not (made.part == OOD_VAL).any()
    assert (made.part[18:] == TRAIN).sum() == 1


def test_the_seed_decides_what_is_drawn():
    keys, y = [str(row) for row in range(60)], np.array([[0.0], [1.0]] * 30)
    drawn = [tuple(np.flatnonzero(hold_out(["a"] * 60, keys, y, 0.2, seed).part == ID_VAL)) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_several_tasks_with_gaps():
    y = np.array([[0.0, np.nan], [1.0, 1.0], [np.nan, 0.0]] * 10)
    made = hold_out(["a"] * 27 + ["z"] * 3, [str(row) for row in range(30)], y, 0.2, 0)
    assert np.bincount(made.part, minlength=4).tolist() == [24, 3, 0, 3]
