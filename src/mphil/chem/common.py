"""What several molecules have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rdkit import Chem, rdBase
from rdkit.Chem import rdFMCS

from mphil.chem.parse import parse_smiles

SECONDS = 2
"""Time for the search; what was found by then is a common substructure, if not the largest."""

LEAST_ATOMS = 3
"""Two atoms are shared by nearly everything."""


@dataclass(frozen=True)
class Shared:
    """A substructure that all of some molecules hold.

    Attributes:
        smarts: the pattern.
        atoms: how many atoms it has.
        matches: for each molecule the atoms that match, numbered in the order of its SMILES.
        complete: False when time ran out before the search did.
    """

    smarts: str
    atoms: int
    matches: tuple[tuple[int, ...], ...]
    complete: bool


def largest_shared(smiles: Sequence[str], *, seconds: int = SECONDS) -> Shared | None:
    """The largest connected substructure of all the molecules, whole rings only; None when it is next to nothing.

    Args:
        smiles: two molecules or more.
        seconds: after which the best so far is taken.

    Example:
        >>> largest_shared(["OCc1ccccc1", "Cc1ccccc1N"]).atoms
        7
    """
    mols = [parse_smiles(text) for text in smiles]
    if len(mols) < 2:
        return None
    with rdBase.BlockLogs():
        found = rdFMCS.FindMCS(mols, timeout=seconds, ringMatchesRingOnly=True, completeRingsOnly=True)
        if found.numAtoms < LEAST_ATOMS or not found.smartsString:
            return None
        pattern = Chem.MolFromSmarts(found.smartsString)
        matches = tuple(tuple(mol.GetSubstructMatch(pattern)) for mol in mols)
    if not all(matches):
        return None
    return Shared(found.smartsString, found.numAtoms, matches, not found.canceled)
