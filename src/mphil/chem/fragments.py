"""Where a molecule would fall apart: the bonds that retrosynthesis would cut."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from rdkit import rdBase

from mphil.chem.parse import SmilesError, parse_lenient

REMEMBERED = 500_000
"""Molecules whose bonds are kept: finding them takes a millisecond, and every epoch asks again."""


@lru_cache(maxsize=REMEMBERED)
def brics_bonds(smiles: str) -> tuple[int, npt.NDArray[np.int16]]:
    """The BRICS bonds of a molecule (Degen et al., 2008).

    Args:
        smiles: the molecule.

    Returns:
        its number of atoms, and (n, 2) the atoms of each bond, numbered in the order of the string and sorted; no
        bonds for a molecule whose valences RDKit does not know, and no atoms either for a string it cannot read.

    Example:
        >>> brics_bonds("CCOC(C)=O")[1].tolist()
        [[1, 2], [2, 3]]
    """
    from rdkit.Chem.BRICS import FindBRICSBonds  # compiles its patterns when it is imported

    none = np.zeros((0, 2), np.int16)
    try:
        mol, partial = parse_lenient(smiles)
    except SmilesError:
        return 0, none
    # The patterns of BRICS ask for valences, which a partially sanitised molecule does not have.
    if partial:
        return mol.GetNumAtoms(), none
    with rdBase.BlockLogs():
        pairs = sorted(sorted(pair) for pair, _ in FindBRICSBonds(mol))  # type: ignore[no-untyped-call]
    return mol.GetNumAtoms(), np.array(pairs, np.int16).reshape(-1, 2)
