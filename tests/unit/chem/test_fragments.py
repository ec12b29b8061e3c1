"""BRICS bonds: the ones RDKit names, in the order of the string."""

from __future__ import annotations

import pytest
from rdkit import Chem
from rdkit.Chem import BRICS

from mphil.chem.fragments import brics_bonds
from mphil.testing.graphs import MOLECULES


@pytest.mark.parametrize("smiles", MOLECULES)
def test_cutting_them_gives_the_fragments_of_rdkit(smiles):
    mol = Chem.MolFromSmiles(smiles)
    n_atoms, bonds = brics_bonds(smiles)
    assert n_atoms == mol.GetNumAtoms()
    assert (bonds[:, 0] < bonds[:, 1]).all()
    numbers = [mol.GetBondBetweenAtoms(int(u), int(v)).GetIdx() for u, v in bonds]
    cut = Chem.FragmentOnBonds(mol, numbers, addDummies=False) if numbers else mol
    expected = Chem.GetMolFrags(BRICS.BreakBRICSBonds(mol), asMols=True)
    sizes = sorted(sum(atom.GetAtomicNum() > 0 for atom in part.GetAtoms()) for part in expected)
    assert sorted(map(len, Chem.GetMolFrags(cut))) == sizes


@pytest.mark.parametrize(("smiles", "n_atoms"), [("C[N](C)(C)(C)C", 6), ("CC(", 0), ("", 0), ("O", 1)])
def test_what_cannot_be_analysed_has_no_bonds(smiles, n_atoms):
    found, bonds = brics_bonds(smiles)
    assert found == n_atoms
    assert bonds.shape == (0, 2)


def test_hydrogens_are_part_of_their_atoms_and_isotopes_are_not():
    assert brics_bonds("[H]OCC")[0] == 3
    assert brics_bonds("[2H]CO")[0] == 3


def test_molecules_are_remembered():
    before = brics_bonds.cache_info().hits
    assert brics_bonds("CCOC(C)=O") is brics_bonds("CCOC(C)=O")
    assert brics_bonds.cache_info().hits > before
