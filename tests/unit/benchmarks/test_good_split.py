"""GOOD's split rules against a walk that is written out, and against GOOD's own parts of HIV."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.benchmarks.good_split import (
    CONCEPT_GROUPS,
    POOL,
    TEST,
    VAL,
    Blocks,
    concept,
    concept_blocks,
    covariate,
    covariate_blocks,
    hold_out,
    no_shift,
    rank_by_population,
    rank_domains,
)
from mphil.benchmarks.moleculenet import pinned_index
from mphil.errors import DataError
from mphil.graphs.split import PARTS

COUNTS = {"scaffold": (24_682, 4_112, 4_112, 4_113, 4_108), "size": (26_169, 4_112, 4_112, 2_773, 3_961)}
domains = st.lists(st.integers(0, 30), min_size=1, max_size=150).map(np.array)
seeds = st.integers(0, 2**32)


def walked(domain, largest_first):
    """The rule of the covariate split, one molecule after the other."""
    order = sorted(range(len(domain)), key=lambda row: domain[row])
    order = order[::-1] if largest_first else order

    def walk(rows, cuts):
        piece, pieces = 0, {}
        for place, (before, row) in enumerate(pairwise([None, *rows])):
            changed = before is not None and domain[before] != domain[row]
            if piece < len(cuts) and place >= cuts[piece] and changed:
                piece += 1
            pieces[row] = piece
        return pieces

    n = len(domain)
    block = walk(order, [int(0.8 * n), int(0.9 * n)])
    pool = [row for row in order if block[row] == 0]
    env = walk(pool, [len(pool) // 10 * k for k in range(1, 10)])
    return [block[row] for row in range(n)], [env.get(row, -1) for row in range(n)]


@settings(max_examples=60)
@given(domains, st.booleans())
def test_covariate_blocks_are_those_of_the_walk(domain, largest_first):
    blocks = covariate_blocks(domain, largest_first=largest_first)
    assert (blocks.block.tolist(), blocks.env.tolist()) == walked(domain, largest_first)


@settings(max_examples=60)
@given(domains, st.booleans(), seeds)
def test_no_domain_is_on_two_sides_and_the_order_of_rows_does_not_matter(domain, largest_first, seed):
    blocks = covariate_blocks(domain, largest_first=largest_first)
    for value in np.unique(domain):
        rows = domain == value
        assert len(np.unique(blocks.block[rows])) == 1
        assert len(np.unique(blocks.env[rows])) == 1
    assert ((blocks.env >= 0) == (blocks.block == POOL)).all()
    order = np.random.default_rng(seed).permutation(len(domain))
    shuffled = covariate_blocks(domain[order], largest_first=largest_first)
    assert (shuffled.block == blocks.block[order]).all()
    assert (shuffled.env == blocks.env[order]).all()


@settings(max_examples=40)
@given(domains, seeds)
def test_a_covariate_split_covers_all_rows_once(domain, seed):
    blocks = covariate_blocks(domain)
    assignment = covariate(blocks, seed)
    parts = assignment.to_split()
    held = int(0.1 * len(domain))
    assert sorted(np.concatenate([rows.numpy() for _, rows in parts])) == list(range(len(domain)))
    assert (parts.sizes["id_val"], parts.sizes["id_test"]) == (held, held)
    assert parts.sizes["ood_val"] == (blocks.block == VAL).sum()
    assert parts.sizes["ood_test"] == (blocks.block == TEST).sum()
    assert (assignment.env == blocks.env).all()


@pytest.mark.parametrize("domain", ["scaffold", "size"])
def test_the_rule_gives_goods_own_parts_of_hiv(domain):
    index = pinned_index(domain)
    blocks = covariate_blocks(index.domain, largest_first=domain == "size")
    assert (blocks.block == index.blocks.block).all()
    assert (blocks.env == index.blocks.env).all()
    sizes = covariate(blocks, seed=0).to_split().sizes
    assert tuple(sizes[part] for part in PARTS) == COUNTS[domain]


def test_the_seed_moves_only_what_is_held_out():
    blocks = pinned_index("size").blocks
    one, same, other = (covariate(blocks, seed).part for seed in (0, 0, 1))
    assert (one == same).all()
    assert (one != other).any()
    assert ((one == other) | (blocks.block == POOL)).all()


def test_a_pool_that_is_too_small_is_refused():
    blocks = Blocks(np.array([POOL, POOL, VAL, TEST]), np.array([0, 0, -1, -1]))
    with pytest.raises(DataError, match="2 rows share the training domains"):
        hold_out(blocks, 1, seed=0, rule="any")


def test_concept_groups_have_the_correlation_they_ask_for():
    """In domains of many rows the added rows hardly count: shares follow from bias and take alone."""
    rng = np.random.default_rng(0)
    labels = (rng.random((20_000, 3)) < 0.4).astype(np.float64)
    labels[rng.random(labels.shape) < 0.3] = np.nan
    domain = np.arange(len(labels)) % 8  # the first four have exactly half of the rows
    blocks = concept_blocks(domain, labels, np.random.default_rng(0))
    mean = np.array([row[~np.isnan(row)].mean() if (~np.isnan(row)).any() else 0.0 for row in labels])
    high = np.where(domain < 4, mean > mean.mean(), mean < mean.mean())
    left = np.ones(len(domain), bool)
    for group in CONCEPT_GROUPS:
        inside = (blocks.block == group.block) & (blocks.env == group.env)
        follows = high if group.block == POOL else ~high
        for kind, share in ((True, group.bias), (False, 1 - group.bias)):
            candidates = left & (follows == kind)
            expected = share * group.take
            error = (expected * (1 - expected) / candidates.sum()) ** 0.5
            assert inside[candidates].mean() == pytest.approx(expected, abs=4 * error)
        left &= ~inside
    assert (blocks.block[left] == VAL).all()
    assert (blocks.env[left] == -1).all()


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=12, max_size=60), seeds)
def test_concept_groups_take_both_kinds_of_a_domain_or_none(rows, seed):
    domain, label = np.array([d for d, _ in rows]), np.array([[float(y)] for _, y in rows])
    blocks = concept_blocks(domain, label, np.random.default_rng(seed))
    high, left = label[:, 0] > label.mean(), np.ones(len(domain), bool)
    for group in CONCEPT_GROUPS:
        inside = (blocks.block == group.block) & (blocks.env == group.env)
        for value in np.unique(domain[left]):
            here = left & (domain == value)
            if len(set(high[here])) == 2 and inside[here].any():
                assert len(set(high[here & inside])) == 2
        left &= ~inside


@settings(max_examples=20)
@given(st.integers(20, 200), seeds)
def test_a_concept_split_covers_all_rows_once(n, seed):
    rng = np.random.default_rng(seed)
    assignment = concept(rng.integers(5, size=n), (rng.random((n, 2)) < 0.5).astype(float), seed)
    parts = assignment.to_split()
    pool = sum(parts.sizes[part] for part in ("train", "id_val", "id_test"))
    assert sum(parts.sizes.values()) == n
    assert parts.sizes["id_val"] == parts.sizes["id_test"] == int(0.15 * pool)
    assert set(assignment.env[parts.train.numpy()]) <= {0, 1, 2}
    assert (assignment.env[parts.ood_val.numpy()] == -1).all()
    assert (assignment.env[parts.ood_test.numpy()] == -1).all()


def test_a_row_without_labels_counts_as_zero():
    labels = np.array([[np.nan, np.nan], [0.0, np.nan], [1.0, 1.0], [1.0, 0.0]] * 50)
    zeros = np.nan_to_num(labels)
    domain = np.arange(len(labels)) % 7
    kept, filled = (concept_blocks(domain, table, np.random.default_rng(0)) for table in (labels, zeros))
    assert (kept.block == filled.block).all()


@settings(max_examples=20)
@given(st.integers(5, 300), seeds)
def test_no_shift_draws_all_parts_alike(n, seed):
    assignment = no_shift(n, seed)
    parts = assignment.to_split()
    assert tuple(parts.sizes.values()) == (int(0.6 * n), 0, 0, int(0.8 * n) - int(0.6 * n), n - int(0.8 * n))
    assert ((assignment.env >= 0) == (assignment.part == 0)).all()
    assert assignment.env.max() < 10


@given(st.lists(st.text("cCnNO1()=", max_size=4), min_size=1, max_size=40))
def test_ranks_follow_the_order_of_strings_or_of_counts(values):
    ascending, populous = rank_domains(values), rank_by_population(values)
    for i, one in enumerate(values):
        for j, other in enumerate(values):
            assert (ascending[i] < ascending[j]) == (one < other)
            key = (-values.count(one), one) < (-values.count(other), other)
            assert (populous[i] < populous[j]) == key
    assert set(ascending) == set(populous) == set(range(len(set(values))))
