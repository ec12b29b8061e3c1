"""Molecules beside each other: what they share, which atom is which, and groups of similar ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rdkit import Chem, rdBase
from rdkit.Chem import Mol, rdFMCS
from rdkit.DataStructs import BulkTanimotoSimilarity, CreateFromBinaryText, ExplicitBitVect

from mphil.chem.parse import parse_lenient, parse_smiles

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


REMOVED = -1
"""An atom of the written molecule that the other one does not have."""


def corresponding_atoms(written: str, seen: str) -> list[int]:
    """For each atom of a molecule as it was written, its number in the spelling that a model saw.

    What was seen is the canonical spelling of the molecule, or of a part of it when counter-ions and solvents were
    taken away. Charges and hydrogens may have been changed on the way; atoms and bonds between them may not.

    Args:
        written: SMILES as a user wrote it.
        seen: SMILES of the same molecule or of one of its components.

    Returns:
        a number for each atom of `written`, `REMOVED` for those that were taken away. All are removed when the two have
        nothing to do with each other.

    Example:
        >>> corresponding_atoms("OCC.Cl", "CCO")
        [2, 1, 0, -1]
    """
    mol, target = parse_lenient(written)[0], parse_lenient(seen)[0]
    with rdBase.BlockLogs():
        found = _by_spelling(mol, seen) or _by_shape(mol, target)
    numbers = [REMOVED] * mol.GetNumAtoms()
    for atom, node in found:
        numbers[atom] = node
    return numbers


def _by_spelling(mol: Mol, seen: str) -> list[tuple[int, int]]:
    """Pairs (written, seen) when the whole, or one component, is spelled like the other."""
    smiles, order = _spelled(mol)
    if smiles == seen:
        return [(atom, node) for node, atom in enumerate(order)]
    members: list[tuple[int, ...]] = []
    parts = Chem.GetMolFrags(mol, asMols=True, sanitizeFrags=False, fragsMolAtomMapping=members)
    for part, atoms in zip(parts, members, strict=True):
        smiles, order = _spelled(part)
        if smiles == seen:
            return [(atoms[atom], node) for node, atom in enumerate(order)]
    return []


def _spelled(mol: Mol) -> tuple[str, list[int]]:
    """Canonical SMILES, and the atoms in the order in which it names them."""
    smiles: str = Chem.MolToSmiles(mol)
    written = mol.GetPropsAsDict(includePrivate=True, includeComputed=True)["_smilesAtomOutputOrder"]
    return smiles, list(written)


def _by_shape(mol: Mol, target: Mol) -> list[tuple[int, int]]:
    """The same by elements and bonds alone: charges and hydrogens may differ, and if need be orders of bonds."""
    for ordered in (True, False):
        match = mol.GetSubstructMatch(_pattern(target, ordered))
        if match:
            return [(atom, node) for node, atom in enumerate(match)]
    return []


def _pattern(mol: Mol, ordered: bool) -> Mol:
    """A query for the elements of a molecule and its bonds, of their orders or of any."""
    pattern = Chem.RWMol()
    for atom in mol.GetAtoms():
        pattern.AddAtom(Chem.AtomFromSmarts(f"[#{atom.GetAtomicNum()}]"))
    for bond in mol.GetBonds():
        pattern.AddBond(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), bond.GetBondType())
        if not ordered:
            pattern.ReplaceBond(bond.GetIdx(), Chem.BondFromSmarts("~"))
    return pattern


SIMILAR = 0.4
"""Tanimoto similarity from which on two molecules are neighbours."""

MOST = 5_000
"""Molecules that are compared with each other; of more, so many are clustered and the others join them."""


Nearest = Callable[
    [npt.NDArray[np.uint8], npt.NDArray[np.uint8]], tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]
]
"""Of packed bits (n, bytes) and references (m, bytes): the nearest reference of each row, and its similarity."""


def similar_groups(
    fingerprints: npt.NDArray[np.uint8], nearest: Nearest, *, similar: float = SIMILAR, most: int = MOST
) -> npt.NDArray[np.int64]:
    """Cluster molecules (Butina, 1999): the one with most neighbours and all of them are a cluster, and so on.

    Of equally many neighbours the molecule that comes first wins. Beyond `most` molecules, the first ones are clustered
    and each of the others joins the most similar centre, or is a cluster of its own when none is similar.

    Args:
        fingerprints: (n, bytes) packed bits.
        nearest: finds the most similar centre by Tanimoto similarity, the first of equals.
        similar: Tanimoto similarity of neighbours.
        most: molecules that are compared with each other.

    Returns:
        (n,) number of the centre of each molecule's cluster: the place of a molecule among the n.
    """
    centre = np.arange(len(fingerprints))
    first, others = fingerprints[:most], fingerprints[most:]
    centre[: len(first)] = _butina([CreateFromBinaryText(row.tobytes()) for row in first], similar)
    if len(others):
        places = np.unique(centre[:most])
        best, similarity = nearest(others, fingerprints[places])
        centre[most:] = np.where(similarity >= similar, places[best], centre[most:])
    return centre


def _butina(vectors: Sequence[ExplicitBitVect], similar: float) -> npt.NDArray[np.int64]:
    neighbours: list[list[npt.NDArray[np.int64]]] = [[] for _ in vectors]
    for place, vector in enumerate(vectors):
        later = place + 1 + np.flatnonzero(np.array(BulkTanimotoSimilarity(vector, vectors[place + 1 :])) >= similar)
        neighbours[place].append(later)
        for other in later.tolist():
            neighbours[other].append(np.array([place]))
    lists = [np.concatenate(found) if found else np.empty(0, np.int64) for found in neighbours]
    centre = np.full(len(vectors), -1)
    for place in sorted(range(len(vectors)), key=lambda place: -len(lists[place])):
        if centre[place] < 0:
            members = lists[place][centre[lists[place]] < 0]
            centre[members] = place
            centre[place] = place
    return centre
