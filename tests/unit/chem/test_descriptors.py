"""Features that trees split on: finite, the same for every spelling, quick for any molecule."""

import time

import numpy as np
import pytest
from rdkit.Chem import AddHs, rdMolDescriptors

from mphil.chem import crippen
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
from mphil.chem.read_rows import read_batch
from mphil.chem.schema import SCHEMAS, featurize

STRANGE = ("[Na+].[Cl-]", "[U]", "[H][H]", "[Fe+2]", "C", "FI(F)(F)(F)(F)(F)F", "[He]", "O=[Os](=O)(=O)=O")

ORDINARY = (
    *("CC(=O)Nc1ccc(OCC(=O)N2CCOCC2)cc1", "OC(=O)c1ccccc1O", "c1ccc2[nH]ccc2c1", "C[N+](C)(C)CCO", "NO", "OO"),
    *("S=C(N)S", "[O-][N+](=O)c1cc(Cl)c(Br)cc1I", "C1CC2CCC1C2", "C=C=CC#N", "CP(=O)(O)OC", "CS(=O)(=O)NC"),
    *("B(O)(O)c1ccsc1", "O", "[2H]O", "[2H]OC", "[2H]C([2H])O", "[2H][2H]", "[2H]N([2H])c1ccccc1", "[2H]S"),
    *("[H]O[2H]", "C[Si](C)(C)O", "[OH-]", "[O-]C(=O)C[NH3+]", "O=[N+]([O-])OCC", "C[Hg]Cl", "N[C@@H](C)C(=O)O"),
    *("F/C=C/F", "CC(=O)OO", "ON=C", "OC=C", "ON"),
)

RARE = (
    *(
        "[I-]",
        "N",
        "[C]",
        "c1cc[nH+]cc1",
        "CN1C=CN=C1",
        "N=C1NCCS1",
        "[NH2-]",
        "[Na+].[O-]Cl",
        "c1ccoc1",
        "CN1SC=CC1=O",
    ),
    *("NC(=O)N", "c1snnc1-c1cnns1", "NN1C=NN=C1", "CC1=CC=CO1", "CN(C)C1=CC=NC=C1", "NCC1=CC=CO1", "C1OC1C1=CC=CC=C1"),
    *("C=Cc1ccccn1", "CC(C)(O)C1=CC=CC=C1", "SC1=CC=CC=C1", "FC1=CC=CC=C1"),
)
"""With ORDINARY, an atom for each rule about hydrophobicity."""

LEFT = ("[2H]O", "*CC", "C->[Fe]", "[S-6]", "C" * 999, "CC(C)(C)" * 60 + "C", "C(F)(F)" * 300 + "C")
"""Of which RDKit is asked: hydrogens as atoms, what codes do not tell, more matches than it looks for."""


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
    asked = list(map(parse_smiles, (*ORDINARY, *RARE, *LEFT)))
    for mol in asked:
        parts = [calculator.ComputeProperties(mol), *(getattr(rdMolDescriptors, name)(mol) for name in vectors)]
        expected.append([value for part in parts for value in part])
    kept = np.nan_to_num(np.array(expected), posinf=LARGEST, neginf=-LARGEST).clip(-LARGEST, LARGEST)
    assert kept.astype(np.float32).tobytes() == descriptors(asked).tobytes()
    for schema in SCHEMAS.values():
        assert (descriptors(asked, featurize(asked, schema)) == descriptors(asked)).all()


def test_the_rules_are_those_of_rdkit():
    """Contributions of each atom have the bits of RDKit's own; each rule is the first to hold for some atom."""
    mols = [parse_smiles(smiles) for smiles in (*ORDINARY, *RARE) if "[2H" not in smiles]
    atoms = crippen._Atoms(crippen.featurize(mols))
    assert not len(atoms.not_covered())
    heavy = crippen._first(crippen._rules(atoms), len(atoms.owner))
    hydrogens = crippen._first(crippen._hydrogen_rules(atoms), len(atoms.owner)).repeat(atoms.hydrogens, axis=1)
    added = [np.array(rdMolDescriptors._CalcCrippenContribs(AddHs(mol))) for mol in mols]
    sizes = [mol.GetNumAtoms() for mol in mols]
    assert (np.concatenate([one[:n] for one, n in zip(added, sizes, strict=True)]) == heavy.T).all()
    assert (np.concatenate([one[n:] for one, n in zip(added, sizes, strict=True)]) == hydrogens.T).all()
    for rules, asked in ((crippen._rules, atoms.element > 1), (crippen._hydrogen_rules, atoms.hydrogens > 0)):
        for holds, *_ in rules(atoms):
            assert (holds & asked).any()
            asked = asked & ~holds


@pytest.mark.parametrize("smiles", LEFT)
def test_what_the_rules_do_not_cover_is_left_to_rdkit(smiles):
    assert crippen._Atoms(crippen.featurize([parse_smiles(smiles)])).not_covered().tolist() == [0]


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
