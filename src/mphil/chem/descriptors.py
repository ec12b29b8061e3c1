"""What models of trees see of a molecule: counts of small neighbourhoods, and descriptors of the whole.

The descriptors are a fixed list of those that RDKit computes in compiled code in time that grows gently with the number
of atoms; none looks for stereo centres, walks all paths or solves for eigenvalues, so that no molecule takes seconds.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from rdkit import rdBase
from rdkit.Chem import Mol, rdMolDescriptors
from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

from mphil.chem.crippen import crippen

RADIUS = 2
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

NAME = f"morgan-counts-{RADIUS}-{COUNTS}+rdkit-{DESCRIPTORS}/1"
"""What the features of a stored model are called; any change of them is another name."""

_GENERATOR = GetMorganGenerator(radius=RADIUS, fpSize=COUNTS)
_SHARED = ("CrippenClogP", "CrippenMR", "NumRotatableBonds")
_ALONE = tuple(name for name in PROPERTIES if name not in _SHARED)
"""Properties that come with others, and those that do not; the rotatable bonds are in this place of the MQN."""

_ROTATABLE = 18
_CALCULATOR = rdMolDescriptors.Properties(_ALONE)
_ORDER = [(*_ALONE, *_SHARED).index(name) for name in PROPERTIES]


def morgan_counts(mols: Iterable[Mol]) -> npt.NDArray[np.uint8]:
    """(n, COUNTS) how often each neighbourhood of up to `RADIUS` bonds occurs, at most 255."""
    rows = [_GENERATOR.GetCountFingerprintAsNumPy(mol).clip(max=255).astype(np.uint8) for mol in mols]
    return np.stack(rows) if rows else np.empty((0, COUNTS), np.uint8)


def descriptors(mols: Iterable[Mol]) -> npt.NDArray[np.float32]:
    """(n, DESCRIPTORS) finite numbers; what is not defined for a molecule is 0.

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
        sums, slogp, smr = crippen(asked)
    properties = np.concatenate([_matrix(alone, len(_ALONE)), sums, mqn[:, [_ROTATABLE]]], axis=1)[:, _ORDER]
    found = np.concatenate([properties, slogp, smr, peoe, mqn], axis=1)
    found = np.nan_to_num(found, nan=0.0, posinf=LARGEST, neginf=-LARGEST).clip(-LARGEST, LARGEST)
    return found.astype(np.float32)


def _matrix(rows: Iterable[Iterable[float]], width: int) -> npt.NDArray[np.float64]:
    """(n, width) of n rows."""
    return np.array([list(row) for row in rows], np.float64).reshape(-1, width)
