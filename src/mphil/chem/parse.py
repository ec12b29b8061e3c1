"""From SMILES to molecules."""

from __future__ import annotations

from rdkit import Chem, rdBase

from mphil.errors import DataError


def parse_smiles(smiles: str) -> Chem.Mol:
    """Read a SMILES; atoms keep the order in which the string names them.

    Raises:
        DataError: RDKit cannot read it as a molecule with at least one atom.

    Example:
        >>> parse_smiles("CCO").GetNumAtoms()
        3
    """
    with rdBase.BlockLogs():
        mol = Chem.MolFromSmiles(smiles)
    if mol is None or not mol.GetNumAtoms():
        shown = smiles if len(smiles) <= 60 else f"{smiles[:57]}..."
        raise DataError(f"{shown!r} is not a molecule that RDKit can read; check the SMILES")
    return mol
