"""Morgan fingerprints: which small neighbourhoods of atoms a molecule has, as a row of bits."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from rdkit.Chem import Mol
from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
from rdkit.DataStructs import BitVectToBinaryText

RADIUS = 2
BITS = 2048
NAME = f"morgan-{RADIUS}-{BITS}/1"
"""What a stored fingerprint is called; a change of the bits or of their order is another name."""

_GENERATOR = GetMorganGenerator(radius=RADIUS, fpSize=BITS)


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
    rows = [BitVectToBinaryText(_GENERATOR.GetFingerprint(mol)) for mol in mols]
    return np.frombuffer(bytearray().join(rows), np.uint8).reshape(len(rows), BITS // 8)


def packed(counts: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The fingerprints of molecules whose neighbourhoods were counted: (n, BITS) counts to (n, BITS / 8) bytes.

    Args:
        counts: of the same neighbourhoods in as many places, as `mphil.chem.descriptors.morgan_counts` gives them.
    """
    return np.packbits(counts > 0, axis=1, bitorder="little")
