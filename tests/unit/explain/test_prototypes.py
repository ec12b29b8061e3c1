from __future__ import annotations

import numpy as np
import pytest

from mphil.errors import DataError
from mphil.explain import prototypes
from mphil.explain.prototypes import TrainingMolecules, centres_of, evenly, neighbourhoods, over_represented

from .conftest import built

ACIDS = ["OC(=O)" + "C" * n for n in range(3, 13)]
ALKANES = ["C" * n for n in range(3, 33)]


def made(smiles, embeddings=None, labels=None) -> TrainingMolecules:
    n = len(smiles)
    vectors = np.eye(n)[:, :3] if embeddings is None else np.asarray(embeddings, float)
    return TrainingMolecules(smiles, vectors, np.zeros(n) if labels is None else np.asarray(labels, float))


def test_neighbourhoods_by_hand():
    """Two classes with two prototypes each, in the plane; lengths do not count, only directions."""
    angles = np.radians([0, 10, 80, 95, 170, 185])
    training = made(["C", "CC", "CCC", "CCCC", "C" * 5, "C" * 6], np.stack([np.cos(angles), np.sin(angles)], 1) * 7)
    centres = np.array([[[1, 0], [0, 5]], [[-2, 0], [0, -1]]], float)
    found = neighbourhoods(training, centres)
    assert [(one.class_number, one.slot) for one in found] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [one.members.tolist() for one in found] == [[0, 1], [2, 3], [4, 5], []]
    assert list(found[0].nearest)[:3] == [0, 1, 2]
    np.testing.assert_allclose(found[0].similarity[:2], [1, np.cos(np.radians(10))])
    assert all(len(one.nearest) == prototypes.NEAREST for one in found)


def test_one_molecule_is_shown_once():
    training = made(["C", "C", "CC", "C"], np.array([[1, 0], [1, 0], [1, 1], [1, 0.1]]))
    (one,) = neighbourhoods(training, np.array([[[1.0, 0.0]]]))
    assert list(one.nearest) == [0, 2]
    assert len(one.members) == 4


def test_prototypes_are_the_methods_own(molecules):
    method = built("mphil", molecules)
    centres, real = centres_of(method, made(["C"]), 0)
    assert real
    np.testing.assert_allclose(centres, method.prototypes[0])


def test_without_prototypes_a_class_is_its_mean_direction(molecules):
    training = made(["C"] * 4, [[2, 0], [0, 1], [-3, 0], [9, 9]], [0, 0, 1, np.nan])
    centres, real = centres_of(built("erm", molecules), training, 0)
    assert not real
    np.testing.assert_allclose(centres, [[[np.sqrt(0.5), np.sqrt(0.5)]], [[-1, 0]]])


def test_what_a_group_has_more_often():
    training = made(ACIDS + ALKANES)
    acids, alkanes, nobody = over_represented(training, [np.arange(10), np.arange(10, 40), np.zeros(0, np.int64)])
    assert [(part.smiles, part.here, part.overall) for part in acids] == [("*C(=O)O", (10, 10), (10, 40))]
    assert acids[0].times == 4
    assert alkanes == nobody == []


def test_the_least_likely_part_comes_first():
    """All chlorides are here; hydroxyls are more in number, and common elsewhere; two amines prove nothing."""
    here = ["CC" + "C" * n + "Cl" for n in range(6)] + ["CC" + "C" * n + "O" for n in range(8)] + ["CCN", "CCCN"]
    training = made(here + ["C" * 12 + "C" * n + "O" for n in range(10)] + ALKANES)
    (found,) = over_represented(training, [np.arange(len(here))])
    assert [(part.smiles, part.here, part.overall) for part in found] == [
        ("*Cl", (6, 16), (6, 56)),
        ("*O", (8, 16), (18, 56)),
    ]


def test_no_more_is_counted_than_allowed(monkeypatch):
    monkeypatch.setattr(prototypes, "COUNTED", 20)
    steps: list[int] = []
    (found,) = over_represented(made(ACIDS + ALKANES), [np.arange(10)], advance=steps.append)
    assert len(steps) == 20
    assert found[0].overall == (5, 20)


@pytest.mark.parametrize(("count", "most", "expected"), [(3, 5, [0, 1, 2]), (10, 4, [0, 2, 5, 7]), (0, 3, [])])
def test_evenly(count, most, expected):
    assert evenly(count, most).tolist() == expected


def test_columns_must_fit():
    with pytest.raises(DataError, match="must be as many"):
        TrainingMolecules(["C"], np.zeros((2, 3)), np.zeros(1))
