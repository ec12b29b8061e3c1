import pytest

from mphil.chem.parse import parse_smiles
from mphil.errors import DataError


def test_atoms_keep_the_order_of_the_string():
    assert [atom.GetSymbol() for atom in parse_smiles("OCN").GetAtoms()] == ["O", "C", "N"]


@pytest.mark.parametrize("smiles", ["", "C(", "c1cccc1", "C(C)(C)(C)(C)C", "not a molecule"])
def test_what_is_no_molecule_is_refused(smiles, capfd):
    with pytest.raises(DataError, match="not a molecule"):
        parse_smiles(smiles)
    assert capfd.readouterr().err == ""


def test_a_long_string_is_shortened_in_the_message():
    with pytest.raises(DataError) as caught:
        parse_smiles("C" * 500 + "(")
    assert len(str(caught.value)) < 150
