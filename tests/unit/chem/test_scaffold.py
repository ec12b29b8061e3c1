import pytest
from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

from mphil.chem.describe import murcko_smiles, n_heavy_atoms
from mphil.chem.parse import parse_lenient, parse_smiles


@pytest.mark.parametrize(
    ("smiles", "scaffold"),
    [
        ("CC(=O)Oc1ccccc1C(=O)O", "c1ccccc1"),
        ("CCCC", ""),
        ("[Na+].[Cl-]", ""),
        ("O=C(NCc1ccccc1)C1CCNC1", "O=C(NCc1ccccc1)C1CCNC1"),
        ("C[C@H]1CC[C@@H](C)N1c1ccc(F)cc1", "c1ccc(N2CCCC2)cc1"),
        ("C[C@@]12CCCC[C@H]1CCCC2", "C1CCC2CCCCC2C1"),
    ],
)
def test_known_scaffolds(smiles, scaffold):
    assert murcko_smiles(parse_smiles(smiles)) == scaffold


@pytest.mark.parametrize(
    "smiles",
    ["C[C@H]1CC[C@@H](C)N1c1ccc(F)cc1", "O=C1c2ccccc2C(=O)N1CCC1CC1", "C1CC2CCC1CC2.c1ccccc1", "CC/C=C/C", "N1C=CC=C1"],
)
def test_agrees_with_the_scaffolds_of_rdkit(smiles):
    assert murcko_smiles(parse_smiles(smiles)) == MurckoScaffoldSmiles(smiles)


def test_a_partially_sanitised_molecule_has_a_scaffold():
    mol, partial = parse_lenient("Cc1ccc([B-2]2(c3ccc(C)cc3)=NCCO2)cc1")
    assert partial
    assert murcko_smiles(mol) == "c1ccc([B-2]2(c3ccccc3)=NCCO2)cc1"


def test_the_molecule_is_left_as_it_was():
    mol = parse_smiles("C[C@H](N)c1ccccc1")
    before = mol.ToBinary()
    murcko_smiles(mol)
    assert mol.ToBinary() == before


@pytest.mark.parametrize(
    ("smiles", "size"), [("CCO", 3), ("[H]C([H])[H]", 1), ("[2H]C([2H])O", 2), ("[H][H]", 0), ("*C", 1)]
)
def test_size_counts_heavy_atoms(smiles, size):
    assert n_heavy_atoms(parse_smiles(smiles)) == size
