"""Fingerprints are RDKit's, packed, and do not depend on the spelling."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator

from mphil.chem.describe import FINGERPRINT, morgan_fingerprints
from mphil.chem.parse import parse_lenient, parse_smiles
from mphil.chem.read_rows import read_batch
from mphil.tables.pool import run

SMILES = [
    "CC(=O)Oc1ccccc1C(=O)O",
    "C[C@H](N)C(=O)[O-]",
    "F/C=C/Br",
    "[Na+].[Cl-]",
    "Cn1c(=O)c2c(ncn2C)n(C)c1=O",
    "C",
    "[Fe]",
]
ALUMINIUM = "O=C1O[Al]23(OC1=O)(OC(=O)C(=O)O2)OC(=O)C(=O)O3"


def test_the_bits_are_those_of_rdkit():
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    mols = [Chem.MolFromSmiles(smiles) for smiles in SMILES]
    packed = morgan_fingerprints(mols)
    assert (packed.shape, packed.dtype) == ((len(SMILES), 256), np.uint8)
    for row, mol in zip(packed, mols, strict=True):
        bits = [8 * byte + bit for byte in range(256) for bit in range(8) if row[byte] >> bit & 1]
        assert bits == list(generator.GetFingerprint(mol).GetOnBits())


@given(st.sampled_from(SMILES[:5]), st.randoms(use_true_random=False))
@settings(max_examples=30)
def test_every_spelling_has_the_same_fingerprint(smiles, random):
    mol = parse_smiles(smiles)
    order = list(range(mol.GetNumAtoms()))
    random.shuffle(order)
    spelling = Chem.MolToSmiles(Chem.RenumberAtoms(mol, order), canonical=False)
    first, second = morgan_fingerprints([mol, parse_smiles(spelling)])
    assert (first == second).all()


def test_nothing_gives_no_rows_and_rows_can_be_written_to():
    assert morgan_fingerprints([]).shape == (0, 256)
    assert morgan_fingerprints([parse_smiles("C")]).flags.writeable


def test_a_partially_sanitised_molecule_has_a_fingerprint():
    mol, partial = parse_lenient(ALUMINIUM)
    assert partial
    assert np.bitwise_count(morgan_fingerprints([mol])).sum() > 5


def test_the_name_tells_what_it_is():
    assert FINGERPRINT == "morgan-2-2048/1"


@pytest.mark.parametrize("workers", [0, 1])
def test_as_a_job_of_other_processes(workers):
    rows = [*SMILES, "C C", ALUMINIUM]
    found = run(rows, {"wanted": ["fingerprint"], "lenient": True}, workers=workers)
    assert [issue.status for issue in found.issues] == ["whitespace", "partial"]
    mols = [parse_lenient(smiles)[0] for smiles in rows if smiles != "C C"]
    assert (found.arrays["fingerprint"] == morgan_fingerprints(mols)).all()
    assert (read_batch(rows, wanted=["fingerprint"]).arrays["fingerprint"] == found.arrays["fingerprint"][:-1]).all()
