"""The ring skeleton of a molecule."""

from __future__ import annotations

from rdkit import Chem
from rdkit.Chem.Scaffolds import MurckoScaffold


def murcko_smiles(mol: Chem.Mol) -> str:
    """Canonical SMILES of the Bemis-Murcko scaffold, without chirality; empty for a molecule without rings.

    Example:
        >>> murcko_smiles(Chem.MolFromSmiles("CC(=O)Oc1ccccc1C(=O)O"))
        'c1ccccc1'
    """
    scaffold: str = MurckoScaffold.MurckoScaffoldSmiles(mol=mol)  # type: ignore[no-untyped-call]
    return scaffold
