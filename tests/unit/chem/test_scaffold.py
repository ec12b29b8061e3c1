import pytest

from mphil.chem.parse import parse_smiles
from mphil.chem.scaffold import murcko_smiles


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
