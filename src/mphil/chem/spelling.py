"""Molecules that are already objects, as text: so that there is one way by which molecules are read."""

from __future__ import annotations

from typing import Any

from rdkit import rdBase
from rdkit.Chem import Mol, MolToSmiles


def is_molecule(value: Any) -> bool:
    """Whether something is a molecule of RDKit."""
    return isinstance(value, Mol)


def spelling(mol: Mol) -> str:
    """The canonical SMILES of a molecule; empty when RDKit cannot write one.

    Example:
        >>> from rdkit.Chem import MolFromSmiles
        >>> spelling(MolFromSmiles("OCC"))
        'CCO'
    """
    with rdBase.BlockLogs():
        try:
            return str(MolToSmiles(mol))
        except (RuntimeError, ValueError):
            return ""
