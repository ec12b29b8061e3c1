"""Molecules beside each other."""

from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import MolFromSmiles
from rdkit.DataStructs import CreateFromBinaryText, TanimotoSimilarity

from mphil.chem.describe import morgan_fingerprints
from mphil.chem.similarity import REMOVED, corresponding_atoms, largest_shared, similar_groups
from mphil.trust.neighbours import most_similar
from tests.products import molecules


def test_what_is_shared_matches_in_every_molecule():
    molecules = ["CC(=O)Nc1ccc(O)cc1", "CC(=O)Nc1ccccc1F", "O=C(CBr)Nc1ccccc1"]
    shared = largest_shared(molecules)
    assert shared.complete
    assert shared.atoms == 10
    pattern = Chem.MolFromSmarts(shared.smarts)
    for smiles, match in zip(molecules, shared.matches, strict=True):
        assert len(match) == shared.atoms == len(set(match))
        assert set(match) in [set(m) for m in Chem.MolFromSmiles(smiles).GetSubstructMatches(pattern)]


def test_bonds_of_a_ring_are_shared_with_the_whole_ring_or_not_at_all():
    shared = largest_shared(["c1ccccc1CCCC", "c1ccncc1CCCC"])
    assert shared.atoms == 5
    assert not any(bond.IsInRing() for bond in Chem.MolFromSmarts(shared.smarts).GetBonds())


@pytest.mark.parametrize("molecules", [[], ["CCO"], ["CCO", "CCN"], ["CCCC", "c1ccccc1"]])
def test_next_to_nothing(molecules):
    assert largest_shared(molecules) is None


DRUGS = (
    "CC(=O)Oc1ccccc1C(=O)O",
    "CN1C=NC2=C1C(=O)N(C(=O)N2C)C",
    "C[C@H](N)C(=O)N[C@@H](CO)C(=O)O",
    "[Na+].[O-]C(=O)CS",
)


def canonical(smiles: str) -> str:
    return Chem.MolToSmiles(Chem.MolFromSmiles(smiles))


def check_same_atoms(written: str, seen: str) -> None:
    """Elements and bonds agree under the correspondence, and every atom has a different number."""
    numbers = corresponding_atoms(written, seen)
    one, other = Chem.MolFromSmiles(written), Chem.MolFromSmiles(seen)
    assert sorted(number for number in numbers if number != REMOVED) == list(range(other.GetNumAtoms()))
    for atom, number in enumerate(numbers):
        if number != REMOVED:
            here, there = one.GetAtomWithIdx(atom), other.GetAtomWithIdx(number)
            assert here.GetAtomicNum() == there.GetAtomicNum()
            assert {numbers[n.GetIdx()] for n in here.GetNeighbors()} == {n.GetIdx() for n in there.GetNeighbors()}


@pytest.mark.parametrize("smiles", DRUGS)
def test_spellings_of_a_molecule(smiles):
    seen = canonical(smiles)
    ranks = list(Chem.CanonicalRankAtoms(Chem.MolFromSmiles(seen), breakTies=False))
    for spelling in Chem.MolToRandomSmilesVect(Chem.MolFromSmiles(smiles), 25, randomSeed=3):
        check_same_atoms(spelling, seen)
        own = list(Chem.CanonicalRankAtoms(Chem.MolFromSmiles(spelling), breakTies=False))
        assert own == [ranks[number] for number in corresponding_atoms(spelling, seen)]


def test_a_counter_ion_was_removed():
    assert corresponding_atoms("Cl.OCC", "CCO") == [REMOVED, 2, 1, 0]


def test_one_of_two_equal_parts_is_taken():
    assert corresponding_atoms("OCC.CCO", "CCO") == [2, 1, 0, REMOVED, REMOVED, REMOVED]


def test_a_charge_was_taken_away():
    check_same_atoms("[Na+].[O-]C(=O)CC", "CCC(=O)O")
    # The charged oxygen became the hydroxyl one, not the other.
    assert corresponding_atoms("[O-]C(=O)C", "CC(=O)O") == [3, 1, 2, 0]


def test_bonds_may_have_changed_their_order():
    assert sorted(corresponding_atoms("C[N+](=O)[O-]", "CN(=O)=O")) == [0, 1, 2, 3]


def test_molecules_that_have_nothing_to_do_with_each_other():
    assert corresponding_atoms("CCO", "c1ccccc1") == [REMOVED] * 3


def test_hydrogens_that_were_written_belong_to_their_atoms():
    assert corresponding_atoms("[H]OC([H])([H])C", "CCO") == [2, 1, 0]


def similarity(fingerprints):
    vectors = [CreateFromBinaryText(row.tobytes()) for row in fingerprints]
    return np.array([[TanimotoSimilarity(one, other) for other in vectors] for one in vectors])


def reference(alike, similar):
    """Butina as the paper says: count neighbours once, then take molecules by that count."""
    neighbours = alike >= similar
    centre = np.full(len(alike), -1)
    for place in np.argsort(-neighbours.sum(1), kind="stable"):
        if centre[place] < 0:
            centre[neighbours[place] & (centre < 0)] = place
    return centre


def test_against_the_definition():
    fingerprints = morgan_fingerprints([MolFromSmiles(smiles) for smiles in molecules()])
    alike = similarity(fingerprints)
    for similar in (0.3, 0.4, 0.7):
        found = similar_groups(fingerprints, most_similar, similar=similar)
        assert found.tolist() == reference(alike, similar).tolist()
        assert 1 < len(np.unique(found)) < len(found)


def test_the_rest_joins_the_most_similar_centre():
    fingerprints = morgan_fingerprints([MolFromSmiles(smiles) for smiles in molecules()])
    alike = similarity(fingerprints)
    found = similar_groups(fingerprints, most_similar, most=40)
    assert found[:40].tolist() == reference(alike[:40, :40], 0.4).tolist()
    centres = np.unique(found[:40])
    for place in range(40, len(found)):
        best = centres[alike[place, centres].argmax()]
        assert found[place] == (best if alike[place, best] >= 0.4 else place)


def test_no_molecule():
    assert similar_groups(np.empty((0, 256), np.uint8), most_similar).tolist() == []


def test_many_molecules_are_looked_up_at_once():
    bits = np.random.default_rng(0).integers(0, 256, (20_000, 8), np.uint8)
    asked = []

    def nearest(rows, references):
        asked.append((len(rows), len(references)))
        return np.zeros(len(rows), np.int64), np.ones(len(rows))

    found = similar_groups(bits, nearest, most=50)
    assert asked == [(20_000 - 50, len(np.unique(found[:50])))]
    assert (found[50:] == found[:50].min()).all()
