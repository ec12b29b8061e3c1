"""Features that trees split on: finite, the same for every spelling, quick for any molecule."""

import time

import numpy as np
import pytest
from rdkit.Chem import rdMolDescriptors

from mphil.chem.batch import read_batch
from mphil.chem.describe import (
    COUNTS,
    DESCRIPTORS,
    FEATURES,
    FEATURES_NAME,
    LARGEST,
    PROPERTIES,
    descriptors,
    morgan_counts,
    morgan_fingerprints,
    packed,
)
from mphil.chem.parse import parse_smiles

STRANGE = ("[Na+].[Cl-]", "[U]", "[H][H]", "[Fe+2]", "C", "FI(F)(F)(F)(F)(F)F", "[He]", "O=[Os](=O)(=O)=O")

ORDINARY = (
    *("CC(=O)Nc1ccc(OCC(=O)N2CCOCC2)cc1", "OC(=O)c1ccccc1O", "c1ccc2[nH]ccc2c1", "C[N+](C)(C)CCO", "NO", "OO"),
    *("S=C(N)S", "[O-][N+](=O)c1cc(Cl)c(Br)cc1I", "C1CC2CCC1C2", "C=C=CC#N", "CP(=O)(O)OC", "CS(=O)(=O)NC"),
    *("B(O)(O)c1ccsc1", "O", "[2H]O", "[2H]OC", "[2H]C([2H])O", "[2H][2H]", "[2H]N([2H])c1ccccc1", "[2H]S"),
    *("[H]O[2H]", "C[Si](C)(C)O", "[OH-]", "[O-]C(=O)C[NH3+]", "O=[N+]([O-])OCC", "C[Hg]Cl", "N[C@@H](C)C(=O)O"),
    *("F/C=C/F", "CC(=O)OO", "ON=C", "OC=C", "ON"),
)


def test_shapes_and_name():
    assert descriptors([]).shape == (0, DESCRIPTORS)
    assert morgan_counts([]).shape == (0, COUNTS)
    assert FEATURES == COUNTS + DESCRIPTORS
    assert FEATURES_NAME == "morgan-counts-2-2048+rdkit-109/1"


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


def test_sharing_patterns_changes_no_bit():
    """As RDKit's own functions say, each by itself; next to deuterium a hydrogen more is another pattern."""
    calculator = rdMolDescriptors.Properties(PROPERTIES)
    vectors = ("SlogP_VSA_", "SMR_VSA_", "PEOE_VSA_", "MQNs_")
    expected = []
    for mol in map(parse_smiles, ORDINARY):
        parts = [calculator.ComputeProperties(mol), *(getattr(rdMolDescriptors, name)(mol) for name in vectors)]
        expected.append([value for part in parts for value in part])
    kept = np.nan_to_num(np.array(expected), posinf=LARGEST, neginf=-LARGEST).clip(-LARGEST, LARGEST)
    found = descriptors(map(parse_smiles, ORDINARY))
    assert kept.astype(np.float32).tobytes() == found.tobytes()


def test_fingerprints_of_counts_are_the_fingerprints():
    mols = [parse_smiles(smiles) for smiles in (*ORDINARY, "C" * 400)]
    assert packed(morgan_counts(mols)).tobytes() == morgan_fingerprints(mols).tobytes()
    both = read_batch(ORDINARY, wanted=["fingerprint", "features"]).arrays
    alone = read_batch(ORDINARY, wanted=["fingerprint"]).arrays
    assert (both["fingerprint"] == alone["fingerprint"]).all()


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
