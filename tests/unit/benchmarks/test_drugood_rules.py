"""DrugOOD's rules against a written-out version."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.benchmarks.drugood_curation import (
    activity_classes,
    activity_threshold,
    divide_training_domains,
    number_domains,
    ood_parts,
    split_by_domain,
)
from mphil.tables.splitting import ID_TEST, ID_VAL, OOD_TEST, OOD_VAL, TRAIN

names = st.lists(st.sampled_from("abcdefghijklm"), min_size=3, max_size=120)
seeds = st.integers(0, 2**32)


@pytest.mark.parametrize(
    ("values", "threshold"),
    [
        ([3.0, 4.0, 9.0], 4.0),
        ([3.0, 6.0, 9.0], 6.0),
        ([3.0, 3.9, 9.0], 5.0),
        ([3.0, 6.1, 9.0], 5.0),
        ([4.1, 5.5], 5.5),
        ([7.0], 5.0),
    ],
)
def test_threshold_is_the_upper_median_where_it_is_usual(values, threshold):
    assert activity_threshold(np.array(values)[::-1]) == threshold
    assert activity_classes(np.array(values)).tolist() == [int(value >= threshold) for value in values]


@given(names)
def test_domains_are_numbered_as_they_appear(values):
    order = list(dict.fromkeys(values))
    assert [order[number] for number in number_domains(values)] == values


def written_out(domain, weight):
    n, count, owner = len(domain), 0, {}
    for name in sorted(range(len(weight)), key=lambda name: -weight[name]):
        if count < int(0.6 * n):
            owner[name] = TRAIN
        elif count < int(0.6 * n) + int(0.2 * n):
            owner[name] = OOD_VAL
        else:
            owner[name] = OOD_TEST
        count += sum(other == name for other in domain)
    return [owner[name] for name in domain]


@settings(max_examples=60)
@given(names, st.data())
def test_ood_parts_are_those_of_the_loop_over_domains(values, data):
    domain = number_domains(values)
    n_domains = len(set(values))
    weight = np.array(data.draw(st.lists(st.integers(0, 4), min_size=n_domains, max_size=n_domains)))
    assert ood_parts(domain, weight).tolist() == written_out(domain.tolist(), weight.tolist())


@settings(max_examples=40)
@given(names, seeds)
def test_a_split_covers_all_rows_and_divides_training_domains_only(values, seed):
    domain = number_domains(values)
    weight = np.random.default_rng(seed).permutation(int(domain.max()) + 1)
    assignment = split_by_domain(domain, weight, seed)
    assert np.isin(assignment.part, range(5)).all()
    for name in np.unique(domain):
        inside = assignment.part[domain == name]
        if inside[0] in (OOD_VAL, OOD_TEST):
            assert (inside == inside[0]).all()
            assert (assignment.env[domain == name] == -1).all()
            continue
        n = len(inside)
        train, val = int(0.6 * n), int(0.2 * n)
        assert np.bincount(inside, minlength=5).tolist() == [train, val, n - train - val, 0, 0]
        assert len(np.unique(assignment.env[domain == name])) == 1
    environments = np.unique(assignment.env[assignment.env >= 0])
    assert environments.tolist() == list(range(len(environments)))


@settings(max_examples=40)
@given(names, seeds)
def test_with_distinct_weights_the_order_of_rows_does_not_matter(values, seed):
    """DrugOOD breaks ties by the order of appearance, so without ties there is nothing left to depend on it."""
    order = np.random.default_rng(seed).permutation(len(values))
    shuffled = [values[row] for row in order]
    weight = dict(zip(sorted(set(values)), np.random.default_rng(seed).permutation(len(set(values))), strict=True))
    one, other = (
        ood_parts(number_domains(rows), np.array([weight[name] for name in dict.fromkeys(rows)]))
        for rows in (values, shuffled)
    )
    assert (one[order] == other).all()


def test_equal_weights_keep_the_order_of_appearance():
    assert ood_parts(np.array([0, 1, 2, 3, 4]), np.zeros(5)).tolist() == [TRAIN] * 3 + [OOD_VAL, OOD_TEST]


def test_a_domain_of_one_molecule_is_wholly_in_id_test():
    assignment = divide_training_domains(np.full(6, TRAIN), np.array([0, 1, 1, 1, 1, 1]), seed=0)
    assert assignment.part[0] == ID_TEST
    assert sorted(assignment.part[1:]) == [TRAIN] * 3 + [ID_VAL, ID_TEST]
    moved = [
        divide_training_domains(np.full(6, TRAIN), np.array([0, 1, 1, 1, 1, 1]), s).part.tolist() for s in range(9)
    ]
    assert len({tuple(part) for part in moved}) > 1
