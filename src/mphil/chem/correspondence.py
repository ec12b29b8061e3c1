"""Which atom of one spelling is which atom of another."""

from __future__ import annotations

from rdkit import Chem, rdBase
from rdkit.Chem import Mol

from mphil.chem.parse import parse_lenient

REMOVED = -1
"""An atom of the written molecule that the other one does not have."""


def corresponding_atoms(written: str, seen: str) -> list[int]:
    """For each atom of a molecule as it was written, its number in the spelling that a model saw.

    What was seen is the canonical spelling of the molecule, or of a part of it when counter-ions and solvents were
    taken away. Charges and hydrogens may have been changed on the way; atoms and bonds between them may not.

    Args:
        written: SMILES as somebody wrote it.
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
