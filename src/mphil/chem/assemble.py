"""Building molecules from fragments."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from rdkit import Chem
from rdkit.Chem import BondType


class Assembly:
    """A molecule that grows by single bonds between fragments.

    Fragments are ordinary molecules: a bond replaces a hydrogen on either side, and a fragment is always attached by
    its first atom.

    Example:
        >>> benzene, acid = Chem.MolFromSmiles("c1ccccc1"), Chem.MolFromSmiles("C(=O)O")
        >>> assembly = Assembly(benzene)
        >>> assembly.attach(0, acid)
        8
        >>> smiles, origin = assembly.finish()
        >>> smiles, origin.tolist()
        ('O=C(O)c1ccccc1', [1, 1, 1, 0, 0, 0, 0, 0, 0])
    """

    def __init__(self, core: Chem.Mol) -> None:
        self._mol = Chem.RWMol(core)
        self._sizes = [core.GetNumAtoms()]

    def attach(self, site: int, fragment: Chem.Mol) -> int:
        """Bond the first atom of `fragment` to atom `site`; return the number of the fragment's last atom."""
        first = self._mol.GetNumAtoms()
        self._mol.InsertMol(fragment)
        self._mol.AddBond(site, first, BondType.SINGLE)
        self._sizes.append(fragment.GetNumAtoms())
        return first + fragment.GetNumAtoms() - 1

    def finish(self) -> tuple[str, npt.NDArray[np.int64]]:
        """Canonical SMILES, and for each of its atoms in written order which fragment it came from (0 = the core)."""
        Chem.SanitizeMol(self._mol)
        smiles: str = Chem.MolToSmiles(self._mol)
        written = self._mol.GetPropsAsDict(includePrivate=True, includeComputed=True)["_smilesAtomOutputOrder"]
        return smiles, np.repeat(np.arange(len(self._sizes)), self._sizes)[list(written)]


def open_sites(mol: Chem.Mol) -> list[int]:
    """Ring carbons that carry a hydrogen and are aromatic or have only carbon neighbours.

    The latter keeps acetals, aminals and their like, which no chemist would make, out of assembled molecules.
    """
    return [atom.GetIdx() for atom in mol.GetAtoms() if _is_open(atom)]


def _is_open(atom: Chem.Atom) -> bool:
    if atom.GetAtomicNum() != 6 or not atom.IsInRing() or not atom.GetTotalNumHs():
        return False
    return bool(atom.GetIsAromatic()) or all(neighbour.GetAtomicNum() == 6 for neighbour in atom.GetNeighbors())
