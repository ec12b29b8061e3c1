from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.graphs.split import PARTS
from mphil.tables.audit import find_duplicates, find_leaks

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
