"""What atoms add to hydrophobicity and refractivity (Wildman and Crippen, 1999), found once for all that is made of it.

RDKit's own functions match a hundred patterns for the sums, and again for the surfaces; the bits are the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from rdkit.Chem import AddHs, Mol
from rdkit.Chem.rdMolDescriptors import _CalcCrippenContribs, _CalcLabuteASAContribs

Floats = npt.NDArray[np.float64]

EDGES = (
    (-0.4, -0.2, 0.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6),
    (1.29, 1.82, 2.24, 2.45, 2.75, 3.05, 3.63, 3.8, 4.0),
)
"""Where RDKit divides the surface by the hydrophobicity and by the refractivity of its atoms."""


def crippen(mols: Sequence[Mol]) -> tuple[Floats, Floats, Floats]:
    """RDKit's CrippenClogP and CrippenMR (n, 2), SlogP_VSA (n, 12) and SMR_VSA (n, 10) of n molecules.

    Example:
        >>> from rdkit.Chem import MolFromSmiles
        >>> sums, *surfaces = crippen([MolFromSmiles("CCO")])
        >>> sums.round(4).tolist(), [len(surface[0]) for surface in surfaces]
        ([[-0.0014, 12.7598]], [12, 10])
    """
    whole: list[tuple[float, float]] = []
    own: list[tuple[float, float]] = []
    areas: list[float] = []
    sizes = []
    for mol in mols:
        added = _CalcCrippenContribs(AddHs(mol))
        atoms = mol.GetNumAtoms()
        # Patterns of other elements pass over hydrogens; those of hydrogens do not.
        own += added[:atoms] if atoms == mol.GetNumHeavyAtoms() else _CalcCrippenContribs(mol)
        areas.extend(map(_CalcLabuteASAContribs(mol)[0].__getitem__, range(atoms)))
        whole += added
        sizes.append((len(added), atoms))
    n, (with_hydrogens, without) = len(mols), np.array(sizes, np.int64).reshape(-1, 2).T
    owner = np.repeat(np.arange(n), with_hydrogens)
    sums = [_sums(owner, column, n) for column in _columns(whole)]
    owner = np.repeat(np.arange(n), without)
    surfaces = []
    for column, edges in zip(_columns(own), EDGES, strict=True):
        places = len(edges) + 1
        place = owner * places + np.searchsorted(edges, column, side="right")
        surfaces.append(_sums(place, areas, n * places).reshape(n, places))
    return np.stack(sums, axis=1), surfaces[0], surfaces[1]


def _sums(place: npt.NDArray[np.int64], values: npt.ArrayLike, places: int) -> Floats:
    """(places,) sums of the values there, added in the order of the atoms, as RDKit does."""
    return np.bincount(place, values, places).astype(np.float64, copy=False)


def _columns(pairs: list[tuple[float, float]]) -> Floats:
    """(2, n) of n pairs."""
    return np.array(pairs, np.float64).reshape(-1, 2).T
