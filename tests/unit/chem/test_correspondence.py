from __future__ import annotations

import pytest
from rdkit import Chem

from mphil.chem.correspondence import REMOVED, corresponding_atoms

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
