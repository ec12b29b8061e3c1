"""Salts, charges, isotopes: what standardisation changes and what it leaves alone."""

import pytest
from rdkit import Chem

from mphil.chem.batch import read_batch
from mphil.chem.standardise import CHARGES, FRAGMENTS, standardise
from tests.products import molecules


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
