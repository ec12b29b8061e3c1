"""Reading SMILES strictly, and the parent of a salt."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem

from mphil.chem.parse import CHARGES, FRAGMENTS, SmilesError, parse_lenient, parse_smiles, standardise
from mphil.chem.read_rows import read_batch
from mphil.errors import DataError
from mphil.limits import MAX_ATOMS, MAX_CHARGE, MAX_SMILES_LENGTH
from tests.products import molecules

REFUSED = [
    (None, "not-text"),
    (float("nan"), "not-text"),
    (b"CCO", "not-text"),
    ("", "empty"),
    (" ", "empty"),
    ("\t\n", "empty"),
    ("\u00a0", "empty"),
    ("C" * (MAX_SMILES_LENGTH + 1), "too-long"),
    ("\u0421", "not-ascii"),
    ("CC\u0421", "not-ascii"),
    ("C\u00a0C", "not-ascii"),
    ("\ufeffCCO", "not-ascii"),
    ("CCO\u200b", "not-ascii"),
    ("C\u2013C", "not-ascii"),
    ("\ud800C", "not-ascii"),
    ("C C", "whitespace"),
    ("CCO ethanol", "whitespace"),
    ("CCO\tethanol", "whitespace"),
    ("C\nC", "whitespace"),
    ("CCO\r", "whitespace"),
    (" CCO", "whitespace"),
    ("CCO ", "whitespace"),
    ("CCO |$a;b;c$|", "extension"),
    ("CCO |$a;b;c$| ethanol", "extension"),
    ("C\x00C", "control"),
    ("C\x01", "control"),
    ("C\x7f", "control"),
    ("C~C", "query"),
    ("[#6]", "query"),
    ("[13#6]", "query"),
    (f"[Al+{MAX_CHARGE + 1}]", "charge"),
    ("[C+200]", "charge"),
    ("[C-9999999999]", "charge"),
    ("C(", "syntax"),
    ("C[R1]", "wildcard"),
    ("[Xx]C", "wildcard"),
    ("C[13Du]", "wildcard"),
    ("[Q]", "wildcard"),
    ("[Rx]", "syntax"),
    ("C1CC", "syntax"),
    ("C..C", "syntax"),
    ("CC>>CO", "syntax"),
    ("[C,N]", "syntax"),
    ("CCO|x|", "syntax"),
    ("nan", "syntax"),
    ("None", "syntax"),
    ("N/A", "syntax"),
    ("InChI=1S/CH4/h1H4", "syntax"),
    ("'CCO'", "syntax"),
    ("C" * (MAX_ATOMS + 1), "too-many-atoms"),
    ("C(C)(C)(C)(C)C", "valence"),
    ("[CH9]", "valence"),
    ("F" + "(F)" * 5, "valence"),
    ("c1cccc1", "aromaticity"),
    ("c", "aromaticity"),
    ("C:C", "aromaticity"),
    ("CC(=O)Oc1(=O)Oc1(=O)Oc1ccccc1C(=O)O", "chemistry"),
]


@pytest.mark.parametrize(("smiles", "code"), REFUSED)
def test_what_is_not_the_whole_of_one_molecule_is_refused_with_a_code(smiles, code, capfd):
    with pytest.raises(SmilesError, match="not a molecule") as caught:
        parse_smiles(smiles)
    assert caught.value.code == code
    assert isinstance(caught.value, DataError)
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("smiles", ["C C", "CC\u0421", "C\nC", "", "C\x01", "CCO |$a;b;c$|", "[C+200]", "C:C", "C~C"])
def test_rdkit_alone_would_read_these_as_something(smiles):
    """If this fails, RDKit has become stricter, and a check of ours may go."""
    assert Chem.MolFromSmiles(smiles) is not None


@pytest.mark.parametrize(
    ("smiles", "canonical"),
    [
        ("OCC", "CCO"),
        ("[H]C([H])([H])O", "CO"),
        ("[2H]C", "[2H]C"),
        ("OC(=O)[C@@H](N)C", "C[C@H](N)C(=O)O"),
        ("N->[Fe]", "[NH3]->[Fe]"),
        ("*C", "*C"),
        ("[CH3:1]O", "O[CH3:1]"),
        ("c1:c:c:c:c:c:1", "c1ccccc1"),
        ("C%(123)CC%(123)", "C1CC1"),
        (f"[Al+{MAX_CHARGE}]", f"[Al+{MAX_CHARGE}]"),
        ("C.C", "C.C"),
        ("C" * MAX_ATOMS, "C" * MAX_ATOMS),
    ],
)
def test_molecules_are_read_as_rdkit_reads_them(smiles, canonical):
    mol = parse_smiles(smiles)
    assert Chem.MolToSmiles(mol) == canonical == Chem.CanonSmiles(smiles)
    assert mol.GetPropsAsDict() == {}


def test_atoms_keep_the_order_of_the_string():
    assert [atom.GetSymbol() for atom in parse_smiles("OCN").GetAtoms()] == ["O", "C", "N"]


def test_the_message_names_the_place_and_the_character():
    with pytest.raises(SmilesError, match="character 3 is CYRILLIC CAPITAL LETTER ES"):
        parse_smiles("CC\u0421")
    with pytest.raises(SmilesError, match="whitespace at character 2"):
        parse_smiles("C C")


@given(st.text(st.characters(max_codepoint=0x2FFF), max_size=12))
@settings(max_examples=100)
def test_any_text_is_read_or_refused(text):
    try:
        mol = parse_smiles(text)
    except SmilesError:
        pass
    else:
        assert text.isascii()
        assert text.isprintable()
        assert " " not in text
        assert mol.GetNumAtoms()


@pytest.mark.parametrize(("smiles", "code"), REFUSED)
def test_lenient_forgives_valences_and_nothing_else(smiles, code):
    if code == "valence":
        mol, partial = parse_lenient(smiles)
        assert partial
        assert mol.GetNumAtoms()
    else:
        with pytest.raises(SmilesError) as caught:
            parse_lenient(smiles)
        assert caught.value.code == code


def test_lenient_is_strict_about_what_else_is_wrong():
    for smiles, code in (("c1cccc1C(C)(C)(C)(C)C", "aromaticity"), ("[CH9]" + "C" * MAX_ATOMS, "too-many-atoms")):
        with pytest.raises(SmilesError) as caught:
            parse_lenient(smiles)
        assert caught.value.code == code


def test_a_sound_molecule_is_the_same_either_way():
    mol, partial = parse_lenient("C[C@H](N)c1ccccc1")
    assert not partial
    assert Chem.MolToSmiles(mol) == Chem.MolToSmiles(parse_smiles("C[C@H](N)c1ccccc1"))


def test_a_partially_sanitised_molecule_has_everything_else():
    """Rings, aromaticity, hybridisation, conjugation and stereo; hydrogens are part of their atoms."""
    mol, _ = parse_lenient("[H]c1ccc([Al](F)(F)(F)(F)(F)F)cc1[C@H](F)Cl")
    sound = parse_smiles("c1ccc([Al](F)F)cc1[C@H](F)Cl")
    assert mol.GetNumAtoms() == sound.GetNumAtoms() + 4
    assert mol.GetRingInfo().NumRings() == 1
    ring = [atom for atom in mol.GetAtoms() if atom.GetIsAromatic()]
    assert len(ring) == 6
    assert {str(atom.GetHybridization()) for atom in ring} == {"SP2"}
    assert all(bond.GetIsConjugated() for atom in ring for bond in atom.GetBonds() if bond.GetIsAromatic())
    (carbon,) = [atom for atom in mol.GetAtoms() if str(atom.GetChiralTag()) != "CHI_UNSPECIFIED"]
    assert carbon.HasProp("_CIPCode")


@pytest.mark.parametrize(
    ("smiles", "parent", "changed"),
    [
        ("CCO", "CCO", 0),
        ("[Na+].CC(=O)[O-]", "CC(=O)O", FRAGMENTS | CHARGES),
        ("Cl.C[C@H](N)c1ccccc1", "C[C@H](N)c1ccccc1", FRAGMENTS),
        ("[NH3+]CC(=O)[O-]", "NCC(=O)O", CHARGES),
        ("C[N+](C)(C)C.[Cl-]", "C[N+](C)(C)C", FRAGMENTS),
        ("C[N+](=O)[O-]", "C[N+](=O)[O-]", 0),
        ("C[n+]1ccccc1", "C[n+]1ccccc1", 0),
        ("[13CH3]C(=O)[O-].[K+]", "[13CH3]C(=O)O", FRAGMENTS | CHARGES),
        ("Oc1ccccn1", "Oc1ccccn1", 0),
        ("O=c1cccc[nH]1", "O=c1cccc[nH]1", 0),
        ("O=C(O)c1ccccc1.O", "O=C(O)c1ccccc1", FRAGMENTS),
        ("[Pt](Cl)Cl.N.N", "Cl[Pt]Cl.N.N", 0),
        ("[Na+].[Cl-]", "[Cl-].[Na+]", 0),
        ("F/C=C/[N+](=O)[O-]", "F/C=C/[N+](=O)[O-]", 0),
        ("C[C@H](F)C[N+](C)(C)C.[Cl-]", "C[C@H](F)C[N+](C)(C)C", FRAGMENTS),
        ("C[C@@H]([NH3+])C(=O)[O-]", "C[C@@H](N)C(=O)O", CHARGES),
        ("[O-]/C=C/[N+](C)(C)C", "C[N+](C)(C)/C=C/[O-]", 0),
    ],
)
def test_what_is_changed(smiles, parent, changed):
    made, bits = standardise(Chem.MolFromSmiles(smiles))
    assert Chem.MolToSmiles(made) == Chem.CanonSmiles(parent)
    assert bits == changed


def test_once_is_enough_and_the_writing_does_not_matter():
    for smiles in [*molecules(), "[Na+].CC(=O)[O-]", "[O-]C(=O)CC[NH3+].Cl", "CCO.CCN", "C[N+](C)(C)CC([O-])=O"]:
        mol = Chem.MolFromSmiles(smiles)
        once, _ = standardise(mol)
        parent = Chem.MolToSmiles(once)
        again, changed = standardise(Chem.MolFromSmiles(parent))
        assert (Chem.MolToSmiles(again), changed) == (parent, 0)
        for seed in range(3):
            other = Chem.MolFromSmiles(Chem.MolToRandomSmilesVect(mol, 1, randomSeed=seed)[0])
            assert Chem.MolToSmiles(standardise(other)[0]) == parent


def test_a_batch_as_it_is_or_standardised():
    rows = ["[Na+].CC(=O)[O-]", "C C", "CCO"]
    plain, made = (read_batch(rows, wanted=["spelling", "graph"], standardised=wanted) for wanted in (False, True))
    assert plain.arrays["n_nodes"].tolist() == [5, 3]
    assert plain.arrays["changed"].tolist() == [0, 0]
    assert made.arrays["n_nodes"].tolist() == [4, 3]
    assert made.arrays["changed"].tolist() == [3, 0]
    assert plain.issues == made.issues
