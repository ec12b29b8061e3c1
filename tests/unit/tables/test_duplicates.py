"""Duplicates, contradictions and leaks."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.errors import UnknownName
from mphil.graphs.split import PARTS
from mphil.tables.cell_values import Coded, Target
from mphil.tables.duplicates import RULES, find_duplicates, find_leaks, settle_duplicates
from mphil.tables.survey import Survey

LABEL = st.sampled_from([0.0, 1.0, float("nan")])


@settings(max_examples=80)
@given(st.lists(st.tuples(st.integers(0, 6), LABEL, LABEL), max_size=25))
def test_duplicates_and_conflicts_pair_by_pair(rows):
    keys = np.array([row[0] for row in rows], np.int64)
    found = find_duplicates(keys, np.array([row[1:] for row in rows]).reshape(len(rows), 2))
    pairs = {(a, b) for a, b in combinations(range(len(rows)), 2) if rows[a][0] == rows[b][0]}
    assert {pair for group in found.groups for pair in combinations(group.rows, 2)} == pairs
    clash = {rows[a][0] for a, b in pairs if any({rows[a][t], rows[b][t]} == {0.0, 1.0} for t in (1, 2))}
    assert {rows[group.rows[0]][0] for group in found.conflicts} == clash
    assert found.rows == len(rows) - len(set(keys.tolist()))
    firsts = [group.rows[0] for group in found.groups]
    assert firsts == sorted(firsts)


@settings(max_examples=80)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(-1, 4)), max_size=25))
def test_leaks_part_by_part(rows):
    keys, part = np.array(rows, np.int64).reshape(-1, 2).T
    found = find_leaks(keys, part)
    members = [{key for key, p in rows if p == code} for code in range(5)]
    expected = {
        (PARTS[a], PARTS[b]): len(members[a] & members[b])
        for a, b in combinations(range(5), 2)
        if members[a] & members[b]
    }
    assert found.between == expected
    shared = {key for a, b in combinations(range(5), 2) for key in members[a] & members[b]}
    assert found.molecules == len(shared)
    assert found.rows == sum(key in shared and p >= 0 for key, p in rows)


NAN = float("nan")


def survey(keys, *labels, external=None):
    coded = Coded()
    coded.extend(keys)
    row = np.arange(len(keys))
    targets = tuple(Target(f"t{i}", "binary", ("0", "1"), np.array(y, float)) for i, y in enumerate(labels))
    outside = None if external is None else np.array(external)
    return Survey(len(keys), row, row + 2, coded, row, None, targets, external=outside)


def settled(rule, keys, *labels, **options):
    made = settle_duplicates(survey(keys, *labels, **options), rule)
    assert made.survey.row.tolist() == made.positions.tolist()
    return made.survey


@pytest.mark.parametrize("rule", RULES)
def test_rows_that_agree_are_merged(rule):
    made = settled(rule, "abab", [1, 0, 1, NAN], [NAN, 1, 0, 1])
    assert made.row.tolist() == [0, 1]
    np.testing.assert_array_equal(made.y, [[1, 0], [0, 1]])
    assert [(one.row, one.line, into) for one, into in made.merged.items()] == [(2, 4, 0), (3, 5, 1)]
    assert (made.assumed, made.bad) == (("2 rows merged into another row of the same molecule",), ())


def test_contradictions():
    keys, y = "aaabbc", [1, 0, 1, 0, 1, 1]
    assert settled("keep", keys, y).row.tolist() == [0, 1, 2, 3, 4, 5]
    dropped = settled("drop", keys, y)
    assert dropped.row.tolist() == [5]
    assert [(bad.row, bad.status) for bad in dropped.bad] == [(row, "contradiction") for row in range(5)]
    assert "(lines 2, 3, 4) contradict each other: dropped" in dropped.bad[0].message
    most = settled("majority", keys, y)
    assert (most.row.tolist(), most.y.ravel().tolist()) == ([0, 5], [1, 1])
    assert "no label has a majority" in most.bad[0].message
    assert most.assumed[1] == (
        "2 molecules have labels that contradict each other: the majority decides, and 2 rows without one are dropped "
        "(--duplicates)"
    )


def test_a_contradiction_in_one_task_costs_that_label_only():
    made = settled("majority", "aa", [0, 1], [1, 1])
    np.testing.assert_array_equal(made.y, [[NAN, 1]])


def test_rows_of_a_test_set_stay_there():
    made = settled("majority", "aaa", [1, 1, 0], external=[False, True, True])
    assert made.row.tolist() == [0]
    assert [bad.row for bad in made.bad] == [1, 2]


def test_an_unknown_rule():
    with pytest.raises(UnknownName, match="majority"):
        settle_duplicates(survey("a", [1]), "majorty")


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from([0.0, 1.0, NAN])), min_size=1, max_size=30),
    st.sampled_from(RULES),
)
def test_every_row_is_somewhere_and_only_keep_leaves_duplicates(rows, rule):
    keys, y = zip(*rows, strict=True)
    made = settled(rule, keys, y)
    places = [*made.row.tolist(), *(one.row for one in made.merged), *(bad.row for bad in made.bad)]
    assert sorted(places) == list(range(len(rows)))
    if rule != "keep":
        assert not find_duplicates(made.keys.array(), made.y).groups


def test_measurements_are_merged_to_their_median():
    given = survey("aabbc", [1.0, 4.0, NAN, 2.0, 9.0], [1.0, 1.0, 0.0, 5.0, 7.0])
    measured = tuple(replace(target, kind="continuous", classes=()) for target in given.targets)
    made = settle_duplicates(replace(given, targets=measured), "majority").survey
    np.testing.assert_array_equal(made.y, [[2.5, 1.0], [2.0, 2.5], [9.0, 7.0]])
    assert "2 molecules have labels that contradict each other: the median of their measurements" in made.assumed[1]
    assert len(settle_duplicates(replace(given, targets=measured), "drop").survey) == 1


def test_splits_balance_measurements_by_their_median():
    given = survey("abcd", [1.0, 0.0, NAN, 1.0], [3.0, 9.0, 1.0, NAN])
    first, second = given.targets
    mixed = replace(given, targets=(first, replace(second, kind="continuous", classes=())))
    np.testing.assert_array_equal(mixed.strata, [[1, 0], [0, 1], [NAN, 0], [1, NAN]])


@pytest.mark.parametrize("rule", RULES)
def test_names_of_many_contradicting_rows_are_not_read_for_each_molecule(rule, monkeypatch):
    pairs = 3_000
    names = Coded()
    names.extend(f"M-{row}" for row in range(2 * pairs))
    table = replace(survey([str(row // 2) for row in range(2 * pairs)], [0, 1] * pairs), ids=names)
    asked, values = [], Coded.values
    monkeypatch.setattr(Coded, "values", lambda column: asked.append(column) or values(column))
    found = settle_duplicates(table, rule).survey
    assert len([column for column in asked if column is names]) <= 3, "not once a molecule"
    assert [bad.id for bad in found.bad] == ([] if rule == "keep" else [f"M-{row}" for row in range(2 * pairs)])
