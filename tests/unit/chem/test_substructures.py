"""Parts of molecules, and new ones."""

from __future__ import annotations

import pytest
from rdkit import Chem
from rdkit.Chem import BRICS

from mphil.chem.parse import parse_smiles
from mphil.chem.substructures import Seen, brics_bonds, contents, find_substructures
from mphil.testing.trial import MOLECULES


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


SEEN = Seen.of(["Cc1ccccc1", "C1CCNCC1", "c1ccc2[nH]ccc2c1", "not a molecule"])


@pytest.mark.parametrize(
    ("smiles", "missing"),
    [
        ("CCCc1ccccc1CC1CCNCC1", []),
        ("Brc1ccccc1", ["no training molecule has the element Br"]),
        ("c1cc[nH]c1", ["no training molecule has the ring system pyrrole"]),
        ("C1CC2CC1CC2N", ["no training molecule has the ring system C1CC2CCC1C2"]),
        ("[Na+].[Cl-].F.Br", [f"no training molecule has the element {symbol}" for symbol in ("Br", "Cl", "F")]),
    ],
)
def test_what_is_new_is_named(smiles, missing):
    assert SEEN.missing(smiles) == missing


def test_a_part_of_a_known_ring_system_is_not_known():
    assert SEEN.missing("c1ccc2ccccc2c1") == ["no training molecule has the ring system naphthalene"]


def test_the_spelling_does_not_matter():
    for one, other in (("c1cc2ccccc2[nH]1", "c1ccc2[nH]ccc2c1"), ("C1CC[C@H](C)CC1", "CC1CCCCC1")):
        assert contents(parse_smiles(one))[1].keys() == contents(parse_smiles(other))[1].keys()


def test_nothing_seen_is_all_new():
    assert len(Seen.of([]).missing("CO")) == 2
