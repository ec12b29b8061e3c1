"""How often RDKit reads a row between a table and a bundle, and between a table and its answers."""

from collections import Counter

import numpy as np
import pytest
from rdkit import Chem

from mphil.model.committee.trees import read_features
from mphil.model.estimator.estimators import MPHILClassifier
from mphil.model.predictor import load
from mphil.model.product import prepare, train_product
from mphil.model.screening import screen_file
from mphil.tables.inspection import check
from tests.products import TINY, molecules, write_table


@pytest.fixture
def reads(monkeypatch):
    """Every text that RDKit is given, and how often."""
    found, real = Counter(), Chem.MolFromSmiles
    monkeypatch.setattr(Chem, "MolFromSmiles", lambda text, *given: found.update([text]) or real(text, *given))
    # Columns are told apart by a fixed number of their cells, however long the table is.
    monkeypatch.setattr("mphil.tables.roles._molecules", lambda cells: (float("c1" in "".join(cells)), 9.0))
    return found


def table(path, *, canonical):
    smiles = [Chem.CanonSmiles(one.partition(".")[0]) if canonical else one for one in molecules()]
    labels = [int("N" in one) for one in molecules()]
    write_table(path, {"smiles": smiles, "active": labels})
    return path, smiles


def least(smiles):
    """A read of every row, and one of the canonical spelling where the row has another."""
    return Counter(smiles) + Counter(parent for one in smiles if (parent := _parent(one)) != one)


def _parent(smiles):
    return Chem.CanonSmiles(smiles.partition(".")[0])


@pytest.mark.parametrize("canonical", [True, False], ids=["canonical", "as written"])
@pytest.mark.parametrize("members", [0, 1])
def test_a_row_is_read_once_on_its_way_to_a_bundle_and_to_an_answer(tmp_path, reads, members, canonical):
    path, smiles = table(tmp_path / "a.csv", canonical=canonical)
    wanted = {"benchmark": {"path": str(path)}, "method": {"name": "erm"}, **TINY}
    expected = least(smiles)
    assert not canonical or set(expected.values()) == {1}
    reads.clear()
    prepared = prepare(wanted, members=members)
    train_product(prepared, tmp_path / "out", members=members, baselines=False)
    assert {text: reads[text] for text in expected} == expected
    predictor = load(tmp_path / "out" / "bundle")
    predictor._reasons = lambda *given: None  # why a molecule is out of domain is found by reading it again
    reads.clear()
    screen_file(predictor, path, tmp_path / "answers.csv", progress=False)
    assert {text: reads[text] for text in expected} == expected


def test_neither_a_check_nor_an_estimator_reads_it_more_often(tmp_path, reads):
    path, smiles = table(tmp_path / "a.csv", canonical=True)
    reads.clear()
    check(path, splits=["scaffold", "cluster"])
    assert {text: reads[text] for text in smiles} == Counter(smiles)
    reads.clear()
    labels = [int("N" in one) for one in smiles]
    MPHILClassifier(method="erm", epochs=1, width=8, layers=1, members=1).fit(smiles, labels)
    assert {text: reads[text] for text in smiles} == Counter(smiles)


def test_features_are_the_same_whenever_they_are_read(tmp_path):
    path, _ = table(tmp_path / "a.csv", canonical=False)
    wanted = {"benchmark": {"path": str(path)}, **TINY}
    early, late = prepare(wanted, members=1), prepare(wanted)
    assert "counts" in early.own.survey.facts
    assert "counts" not in late.own.survey.facts
    expected = read_features(early.data.store.smiles)
    for prepared in (early, late):
        np.testing.assert_array_equal(prepared.features.matrix(), expected.matrix())
