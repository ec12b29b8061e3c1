"""Features that trees split on: finite, the same for every spelling, quick for any molecule."""

import time

import numpy as np
import pytest

from mphil.chem.batch import read_batch
from mphil.chem.descriptors import COUNTS, DESCRIPTORS, FEATURES, LARGEST, NAME, descriptors, morgan_counts
from mphil.chem.parse import parse_smiles

STRANGE = ("[Na+].[Cl-]", "[U]", "[H][H]", "[Fe+2]", "C", "FI(F)(F)(F)(F)(F)F", "[He]", "O=[Os](=O)(=O)=O")


def test_shapes_and_name():
    assert descriptors([]).shape == (0, DESCRIPTORS)
    assert morgan_counts([]).shape == (0, COUNTS)
    assert FEATURES == COUNTS + DESCRIPTORS
    assert NAME == "morgan-counts-2-2048+rdkit-109/1"


def test_strange_molecules_have_finite_numbers():
    mols = []
    for smiles in STRANGE:
        try:
            mols.append(parse_smiles(smiles))
        except Exception:  # what RDKit refuses is not asked about
            continue
    found = descriptors(mols)
    assert len(mols) > 4
    assert np.isfinite(found).all()
    assert np.abs(found).max() <= LARGEST


def test_the_spelling_does_not_matter():
    found = read_batch(["OCC", "C(C)O"], wanted=["spelling", "features"]).arrays
    assert (found["counts"][0] == found["counts"][1]).all()
    assert (found["descriptors"][0] == found["descriptors"][1]).all()
    alone = read_batch(["CCO"], wanted=["features"]).arrays
    assert (alone["counts"] == found["counts"][:1]).all()
    assert (alone["descriptors"] == found["descriptors"][:1]).all()


def test_counts_count():
    methane, ethane, long = morgan_counts(map(parse_smiles, ["C", "CC", "C" * 400]))
    assert (methane.max(), ethane.max()) == (1, 2)
    assert long.max() == 255


@pytest.mark.parametrize("smiles", ["C" * 999, "C(F)(F)" * 300 + "C", "NCC(=O)" * 200 + "O"])
def test_no_molecule_takes_seconds(smiles):
    mol = parse_smiles(smiles)
    started = time.process_time()
    descriptors([mol])
    assert time.process_time() - started < 2
