import pytest
from rdkit import Chem

from mphil.chem.assemble import Assembly, open_sites
from mphil.chem.parse import parse_smiles


def test_a_chain_of_fragments_and_where_each_atom_came_from():
    assembly = Assembly(parse_smiles("c1ccncc1"))
    linked = assembly.attach(0, parse_smiles("OCC"))
    assembly.attach(linked, parse_smiles("C(=O)O"))
    assembly.attach(1, parse_smiles("Cl"))
    smiles, origin = assembly.finish()
    mol = parse_smiles(smiles)
    assert smiles == Chem.CanonSmiles("c1(OCCC(=O)O)c(Cl)cncc1")
    expected = {1: "OCCC(=O)[OH]", 2: "C(=O)[OH]", 3: "Cl"}
    assert sorted((origin == 2).nonzero()[0]) == sorted(mol.GetSubstructMatch(Chem.MolFromSmarts(expected[2])))
    assert sorted((origin == 3).nonzero()[0]) == list(mol.GetSubstructMatch(Chem.MolFromSmarts(expected[3])))
    chain = set(mol.GetSubstructMatch(Chem.MolFromSmarts(expected[1])))
    assert {i for i, o in enumerate(origin) if o in (1, 2)} == chain
    assert all(mol.GetAtomWithIdx(i).GetIsAromatic() == (o == 0) for i, o in enumerate(origin.tolist()))


def test_the_fragments_are_left_as_they_were():
    core, side = parse_smiles("C1CCOCC1"), parse_smiles("C#N")
    Assembly(core).attach(0, side)
    assert (Chem.MolToSmiles(core), Chem.MolToSmiles(side)) == ("C1CCOCC1", "C#N")


@pytest.mark.parametrize(
    ("smiles", "sites"),
    [
        ("c1cc[nH]c1", [0, 1, 2, 4]),
        ("C1CCOCC1", [0, 1, 5]),
        ("C1COCCO1", []),
        ("Cc1ccccc1", [2, 3, 4, 5, 6]),
        ("C1CCC2(CC1)CCCO2", [0, 1, 2, 4, 5, 6, 7]),
    ],
)
def test_sites_are_carbons_that_take_a_substituent(smiles, sites):
    assert open_sites(parse_smiles(smiles)) == sites
