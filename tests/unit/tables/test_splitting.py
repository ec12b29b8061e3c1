"""Splits are disjoint, cover all rows, keep domains and molecules whole, and do not depend on the order of rows."""

import csv
import gzip
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mphil.errors import DataError
from mphil.graphs.split import PARTS
from mphil.tables.roles import PART_NAMES
from mphil.tables.splitting import at_random, by_domain, cut_between_domains, order_domains, predefined

NAMES = st.sampled_from(["", "c1ccccc1", "C1CC1", "c1ccncc1", "a", "b", "7", "10", "9.5"])
TABLES = st.lists(st.tuples(NAMES, st.integers(0, 30).map(str)), min_size=3, max_size=60)
FEW = settings(max_examples=60)


def walked(sizes, cuts):
    """The rule of GOOD row by row: on to the next part at the first new domain at or past the cut."""
    domains = [d for d, size in enumerate(sizes) for _ in range(size)]
    parts, part = [], 0
    for i, domain in enumerate(domains):
        if part < len(cuts) and i >= cuts[part] and i and domain != domains[i - 1]:
            part += 1
        parts.append(part)
    return domains, parts


def split_or_none(domains, keys, **options):
    try:
        return by_domain(domains, keys, **options)
    except DataError:
        return None


@FEW
@given(st.lists(st.integers(1, 12), min_size=1, max_size=20), st.lists(st.integers(0, 80), max_size=9).map(sorted))
def test_cuts_are_those_of_a_walk_row_by_row(sizes, cuts):
    domains, parts = walked(sizes, cuts)
    assert cut_between_domains(np.array(domains), cuts).tolist() == parts


@FEW
@given(TABLES, st.booleans(), st.integers(0, 3))
def test_domain_split(rows, descending, seed):
    domains, keys = zip(*rows, strict=True)
    found = split_or_none(domains, keys, descending=descending, seed=seed)
    assume(found is not None)
    split = found.to_split()
    assert sorted(i for _, part in split for i in part.tolist()) == list(range(len(rows)))
    assert all(len(split[part]) for part in ("train", "ood_val", "ood_test"))
    sides = defaultdict(set)
    homes = defaultdict(set)
    for (domain, key), part, env in zip(rows, found.part.tolist(), found.env.tolist(), strict=True):
        sides[domain].add("pool" if part <= 2 else PARTS[part])
        homes[key, "pool" if part <= 2 else PARTS[part]].add(part)
        assert (env >= 0) == (part <= 2)
    assert all(len(side) == 1 for side in sides.values()), "a domain on two sides"
    assert all(len(home) == 1 for home in homes.values()), "a molecule in train and in id_val or id_test"
    for env in set(found.env.tolist()) - {-1}:
        inside = {rows[i][0] for i in np.flatnonzero(found.env == env)}
        outside = {rows[i][0] for i in np.flatnonzero((found.env != env) & (found.part <= 2))}
        assert not inside & outside, "a domain in two environments"


@FEW
@given(TABLES, st.randoms(use_true_random=False), st.booleans(), st.integers(0, 3))
def test_domain_split_does_not_depend_on_the_order_of_rows(rows, random, descending, seed):
    order = list(range(len(rows)))
    random.shuffle(order)
    shuffled = [rows[i] for i in order]
    one = split_or_none(*zip(*rows, strict=True), descending=descending, seed=seed)
    other = split_or_none(*zip(*shuffled, strict=True), descending=descending, seed=seed)
    assume(one is not None)
    assert other.part.tolist() == one.part[order].tolist()
    assert other.env.tolist() == one.env[order].tolist()


@FEW
@given(st.lists(st.integers(0, 40).map(str), min_size=3, max_size=60), st.randoms(use_true_random=False))
def test_random_split(keys, random):
    assume(len(set(keys)) >= 3)
    found = at_random(keys)
    found.to_split()
    assert Counter(found.part.tolist()).total() == len(keys)
    assert set(found.part.tolist()) <= set(range(5))
    home = {}
    for key, part, env in zip(keys, found.part.tolist(), found.env.tolist(), strict=True):
        assert home.setdefault(key, (part, env)) == (part, env)
    order = list(range(len(keys)))
    random.shuffle(order)
    assert at_random([keys[i] for i in order]).part.tolist() == found.part[order].tolist()


def test_shares_of_different_molecules():
    keys = [str(i) for i in range(1000)]
    domains = [f"d{i % 200:03}" for i in range(1000)]
    assert np.bincount(at_random(keys).part).tolist() == [600, 100, 100, 100, 100]
    assert np.bincount(by_domain(domains, keys).part).tolist() == [600, 100, 100, 100, 100]
    assert np.bincount(by_domain(domains, keys).env + 1).tolist() == [200] + [80] * 10


def test_random_environments_are_in_all_parts_of_the_pool():
    found = at_random([str(i) for i in range(1000)])
    for part in range(3):
        assert set(found.env[found.part == part].tolist()) == set(range(10))


def test_seed_moves_only_what_chance_decides():
    keys, domains = [str(i) for i in range(500)], [str(i // 5) for i in range(500)]
    one, other = by_domain(domains, keys, seed=0), by_domain(domains, keys, seed=1)
    assert (np.maximum(one.part, 2) == np.maximum(other.part, 2)).all()
    assert (one.part != other.part).sum() > 50
    assert (at_random(keys, seed=0).part != at_random(keys, seed=1).part).any()


def test_a_domain_is_not_divided_and_the_largest_come_first_when_descending():
    sizes = ["30"] * 5 + ["20"] * 3 + ["10"] * 1 + ["5"] * 1
    found = by_domain(sizes, [str(i) for i in range(10)], descending=True)
    assert found.part[8:].tolist() == [3, 4]


def test_few_domains_give_the_last_two():
    domains = [f"batch {i % 4}" for i in range(40)]
    found = by_domain(domains, [str(i) for i in range(40)])
    assert {d for d, p in zip(domains, found.part.tolist(), strict=True) if p == 3} == {"batch 2"}
    assert {d for d, p in zip(domains, found.part.tolist(), strict=True) if p == 4} == {"batch 3"}


def test_order_of_domains():
    assert order_domains(["10", "9", "", "9.0", "-1"]) == ["", "-1", "9", "9.0", "10"]
    assert order_domains(["2024-01-02", "2023-12-31"]) == ["2023-12-31", "2024-01-02"]
    assert order_domains(["10", "9", "nan"]) == ["10", "9", "nan"]


@pytest.mark.parametrize(
    ("domains", "text"),
    [
        (["a", "b"], "2 different domains"),
        (["a", "b", *["c"] * 50], "domain 'c' holds 50 of 52 rows"),
        (["a", *["b"] * 50, "c"], "too little is left to train on"),
        (["a", "b", "c", "d"], "4 domains for 3 rows"),
    ],
)
def test_what_cannot_be_split(domains, text):
    with pytest.raises(DataError, match=text):
        by_domain(domains, [str(i) for i in range(len(domains) - ("d" in domains))])


def test_too_few_molecules():
    with pytest.raises(DataError, match="2 different molecules"):
        at_random(["a", "b", "a"])


def test_predefined_parts():
    found = predefined(["Train", "valid", "TEST", "", "id_val", " train "], PART_NAMES)
    assert found.part.tolist() == [0, 3, 4, -1, 1, 0]
    assert found.to_split().sizes == {"train": 2, "id_val": 1, "id_test": 0, "ood_val": 1, "ood_test": 1}
    with pytest.raises(DataError, match="'holdout' names no part"):
        predefined(["train", "holdout"], PART_NAMES)


@pytest.mark.parametrize(("domain", "descending"), [("scaffold", False), ("size", True)])
def test_published_parts_and_environments_of_hiv(shared_data, domain, descending):
    """The pinned file says which domain each row has and where GOOD put it."""
    with gzip.open(shared_data / "good" / f"good_hiv_{domain}_covariate.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    found = by_domain([row["domain_id"] for row in rows], [row["idx"] for row in rows], descending=descending)
    side = {"train_pool": 0, "ood_val": 3, "ood_test": 4}
    expected = [side[row["part"]] for row in rows]
    assert np.where(found.part <= 2, 0, found.part).tolist() == expected
    env = [-1 if row["env_id"] in ("", "-1") else int(float(row["env_id"])) for row in rows]
    assert found.env.tolist() == env
    assert (found.part == 1).sum() == 4112
    assert (found.part == 2).sum() == 4112
