from __future__ import annotations

import pytest
from rdkit import Chem

from mphil.chem.substructures import find_substructures

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
DRUGS = (
    ASPIRIN,
    "CN1C=NC2=C1C(=O)N(C(=O)N2C)C",
    "O=C(NC1CCN(Cc2ccccc2)CC1)c1ccc2[nH]ccc2c1",
    "CC(C)(C)NCC(O)c1ccc(O)c(CO)c1",
    "C1CC2(C1)CCOC2",
    "[Na+].[O-]C(=O)CS(=O)(=O)N",
)


def named(smiles: str) -> set[tuple[str, str]]:
    return {(found.kind, found.smiles) for found in find_substructures(smiles)}


def test_aspirin_by_hand():
    found = {part.atoms: (part.kind, part.smiles) for part in find_substructures(ASPIRIN)}
    assert found == {
        (4, 5, 6, 7, 8, 9): ("ring", "*c1ccccc1*"),
        (1, 2, 3): ("group", "*OC(*)=O"),
        (10, 11, 12): ("group", "*C(=O)O"),
        (0, 1, 2): ("fragment", "*C(C)=O"),
        (3,): ("fragment", "*O*"),
    }


def test_fused_rings_are_found_together_and_one_by_one():
    rings = [part for part in find_substructures("Oc1ccc2[nH]ccc2c1") if part.kind == "ring"]
    assert [len(part.atoms) for part in rings] == [9, 5, 6]
    assert [part.smiles for part in rings] == ["*c1ccc2[nH]ccc2c1", "c1cc[nH]c1", "c1ccccc1"]


def test_rings_that_share_an_atom_only_are_apart():
    assert {part.smiles for part in find_substructures("C1CC2(C1)CCOC2") if part.kind == "ring"} == {
        "C1CCC1",
        "C1CCOC1",
    }


@pytest.mark.parametrize(
    ("smiles", "groups"),
    [
        ("CCF", ["*F"]),
        ("CC(F)(F)F", ["*C(F)(F)F"]),
        ("CC#N", ["*C#N"]),
        ("CCC=CC", ["*C=C*"]),
        ("CCc1ccncc1", []),
        ("CC(OC)OC", ["*OC(*)O*"]),
        ("CN(C)S(=O)(=O)C", ["*N(*)S(*)(=O)=O"]),
        ("CC", []),
    ],
)
def test_functional_groups(smiles, groups):
    assert [part.smiles for part in find_substructures(smiles) if part.kind == "group"] == groups


def test_nothing_is_a_part_of_itself():
    assert find_substructures("c1ccccc1") == []
    assert find_substructures("C") == []


@pytest.mark.parametrize("smiles", DRUGS)
def test_parts_are_connected_distinct_and_inside(smiles):
    mol = Chem.MolFromSmiles(smiles)
    found = find_substructures(smiles)
    assert len({part.atoms for part in found}) == len(found)
    for part in found:
        inside, reached, waiting = set(part.atoms), set(), [part.atoms[0]]
        while waiting:
            atom = waiting.pop()
            reached.add(atom)
            near = {n.GetIdx() for n in mol.GetAtomWithIdx(atom).GetNeighbors()}
            waiting += near & inside - reached
        assert reached == inside
        assert list(part.atoms) == sorted(part.atoms)
        assert len(inside) < mol.GetNumAtoms()


@pytest.mark.parametrize("smiles", DRUGS)
def test_a_star_stands_for_each_cut_bond(smiles):
    mol = Chem.MolFromSmiles(smiles)
    for part in find_substructures(smiles):
        inside = set(part.atoms)
        cut = [b for b in mol.GetBonds() if len({b.GetBeginAtomIdx(), b.GetEndAtomIdx()} & inside) == 1]
        assert part.smiles.count("*") == (0 if any(bond.IsInRing() for bond in cut) else len(cut))


@pytest.mark.parametrize("smiles", DRUGS)
def test_every_spelling_has_the_same_parts(smiles):
    for spelling in Chem.MolToRandomSmilesVect(Chem.MolFromSmiles(smiles), 10, randomSeed=1):
        assert named(spelling) == named(smiles)


def test_a_molecule_of_a_thousand_atoms():
    assert find_substructures("C" * 990) == []
    groups = [part for part in find_substructures("CCCO" * 240) if part.kind == "group"]
    assert [part.smiles for part in groups] == ["*O*"] * 239 + ["*O"]
