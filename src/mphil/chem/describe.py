"""What is told of a whole molecule: fingerprint, counts and descriptors, ring skeleton and size.

The descriptors are a fixed list of those that RDKit computes in compiled code in time that grows gently with the number
of atoms; none looks for stereo centres, walks all paths or solves for eigenvalues, so that no molecule takes seconds.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from rdkit import Chem, rdBase
from rdkit.Chem import Mol, rdMolDescriptors
from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
from rdkit.DataStructs import BitVectToBinaryText

from mphil.chem.crippen import crippen
from mphil.chem.schema import MoleculeArrays

RADIUS = 2
BITS = 2048
FINGERPRINT = f"morgan-{RADIUS}-{BITS}/1"
"""What a stored fingerprint is called; a change of the bits or of their order is another name."""

_BITS_GENERATOR = GetMorganGenerator(radius=RADIUS, fpSize=BITS)


def morgan_fingerprints(mols: Iterable[Mol]) -> npt.NDArray[np.uint8]:
    """Packed fingerprints of sanitised molecules: a bit for each circle of up to `RADIUS` bonds around an atom.

    The order in which a molecule names its atoms does not matter, nor does stereo.

    Returns:
        (n, BITS / 8) bytes; bit `b` is the bit of value `2 ** (b % 8)` in byte `b // 8`.

    Example:
        >>> from mphil.chem.parse import parse_smiles
        >>> ethanol, again, methane = morgan_fingerprints(map(parse_smiles, ["CCO", "OCC", "C"]))
        >>> bool((ethanol == again).all()), int(np.bitwise_count(methane).sum())
        (True, 1)
    """
    rows = [BitVectToBinaryText(_BITS_GENERATOR.GetFingerprint(mol)) for mol in mols]
    return np.frombuffer(bytearray().join(rows), np.uint8).reshape(len(rows), BITS // 8)


def packed(counts: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The fingerprints of molecules whose neighbourhoods were counted: (n, BITS) counts to (n, BITS / 8) bytes.

    Args:
        counts: of the same neighbourhoods in as many places, as `mphil.chem.describe.morgan_counts` gives them.
    """
    return np.packbits(counts > 0, axis=1, bitorder="little")


COUNTS = 2048
"""Places of the neighbourhoods; two that share one are counted together."""

PROPERTIES = (
    *("amw", "lipinskiHBA", "lipinskiHBD", "NumRotatableBonds", "NumHBD", "NumHBA", "NumHeavyAtoms", "NumAtoms"),
    *("NumHeteroatoms", "NumAmideBonds", "FractionCSP3", "NumRings", "NumAromaticRings", "NumAliphaticRings"),
    *("NumSaturatedRings", "NumHeterocycles", "NumAromaticHeterocycles", "NumSaturatedHeterocycles"),
    *("NumAliphaticHeterocycles", "NumSpiroAtoms", "NumBridgeheadAtoms", "labuteASA", "tpsa", "CrippenClogP"),
    *("CrippenMR", "chi0v", "chi1v", "chi0n", "chi1n", "hallKierAlpha", "kappa1"),
)
"""RDKit's names of single numbers."""

VECTORS = {"SlogP_VSA": 12, "SMR_VSA": 10, "PEOE_VSA": 14, "MQN": 42}
"""Several numbers each: surface by hydrophobicity, refractivity and charge, and counts of atoms, bonds and rings."""

DESCRIPTORS = len(PROPERTIES) + sum(VECTORS.values())
FEATURES = COUNTS + DESCRIPTORS
LARGEST = 1e6
"""Descriptors are kept within this, either sign."""

FEATURES_NAME = f"morgan-counts-{RADIUS}-{COUNTS}+rdkit-{DESCRIPTORS}/1"
"""What the features of a stored model are called; any change of them is another name."""

_COUNTS_GENERATOR = GetMorganGenerator(radius=RADIUS, fpSize=COUNTS)
_SHARED = ("CrippenClogP", "CrippenMR", "NumRotatableBonds")
_ALONE = tuple(name for name in PROPERTIES if name not in _SHARED)
"""Properties that are found together with other descriptors, and those that are not."""

_ROTATABLE = 18
"""Place of the rotatable bonds in the MQN."""

_CALCULATOR = rdMolDescriptors.Properties(_ALONE)
_ORDER = [(*_ALONE, *_SHARED).index(name) for name in PROPERTIES]


def morgan_counts(mols: Iterable[Mol]) -> npt.NDArray[np.uint8]:
    """(n, COUNTS) how often each neighbourhood of up to `RADIUS` bonds occurs, at most 255."""
    rows = [_COUNTS_GENERATOR.GetCountFingerprintAsNumPy(mol).clip(max=255).astype(np.uint8) for mol in mols]
    return np.stack(rows) if rows else np.empty((0, COUNTS), np.uint8)


def descriptors(mols: Iterable[Mol], made: MoleculeArrays | None = None) -> npt.NDArray[np.float32]:
    """(n, DESCRIPTORS) finite numbers; what is not defined for a molecule is 0.

    Args:
        mols: the molecules.
        made: what `featurize` says of them, if that is known.

    Example:
        >>> from mphil.chem.parse import parse_smiles
        >>> found = descriptors([parse_smiles("CCO")])
        >>> found.shape, round(float(found[0, PROPERTIES.index("amw")]), 2)
        ((1, 109), 46.07)
    """
    with rdBase.BlockLogs():
        asked = list(mols)
        alone = [map(_CALCULATOR.ComputeProperties(mol).__getitem__, range(len(_ALONE))) for mol in asked]
        peoe = _matrix(map(rdMolDescriptors.PEOE_VSA_, asked), VECTORS["PEOE_VSA"])
        mqn = _matrix(map(rdMolDescriptors.MQNs_, asked), VECTORS["MQN"])
        sums, slogp, smr = crippen(asked, made)
    properties = np.concatenate([_matrix(alone, len(_ALONE)), sums, mqn[:, [_ROTATABLE]]], axis=1)[:, _ORDER]
    found: npt.NDArray[np.float64] = np.concatenate([properties, slogp, smr, peoe, mqn], axis=1)
    found = np.nan_to_num(found, nan=0.0, posinf=LARGEST, neginf=-LARGEST).clip(-LARGEST, LARGEST)
    return found.astype(np.float32)


def _matrix(rows: Iterable[Iterable[float]], width: int) -> npt.NDArray[np.float64]:
    """(n, width) of n rows."""
    return np.array([list(row) for row in rows], np.float64).reshape(-1, width)


def murcko_smiles(mol: Mol) -> str:
    """Canonical SMILES of the Bemis-Murcko scaffold, without stereo; empty for a molecule without rings.

    Partially sanitised molecules have one too: valences are not checked.

    Example:
        >>> murcko_smiles(Chem.MolFromSmiles("CC(=O)Oc1ccccc1C(=O)O"))
        'c1ccccc1'
    """
    # Cutting a chain back atom by atom takes time that grows with the cube of its length.
    if not mol.GetRingInfo().NumRings():
        return ""
    scaffold = Chem.MurckoDecompose(mol)
    scaffold.ClearComputedProps()
    scaffold.UpdatePropertyCache(strict=False)
    Chem.GetSymmSSSR(scaffold)
    smiles: str = Chem.MolToSmiles(scaffold, isomericSmiles=False)
    return smiles


def n_heavy_atoms(mol: Mol) -> int:
    """Atoms that are not hydrogen: the size of a molecule.

    Example:
        >>> n_heavy_atoms(Chem.MolFromSmiles("[2H]C([2H])O"))
        2
    """
    count: int = mol.GetNumHeavyAtoms()
    return count
