"""The ring skeleton of a molecule, and its size: the two things by which molecules are divided into domains."""

from __future__ import annotations

from rdkit import Chem
from rdkit.Chem import Mol


def murcko_smiles(mol: Mol) -> str:
    """Canonical SMILES of the Bemis-Murcko scaffold, without stereo; empty for a molecule without rings.

    Partially sanitised molecules have one too: valences are not checked.

    Example:
        >>> murcko_smiles(Chem.MolFromSmiles("CC(=O)Oc1ccccc1C(=O)O"))
        'c1ccccc1'
    """
    # Cutting a chain back atom by atom takes time that grows with the cube of its length.
    if not mol.GetRingInfo().NumRings():
        return ""
    scaffold = Chem.MurckoDecompose(mol)
    scaffold.ClearComputedProps()
    scaffold.UpdatePropertyCache(strict=False)
    Chem.GetSymmSSSR(scaffold)
    smiles: str = Chem.MolToSmiles(scaffold, isomericSmiles=False)
    return smiles


def n_heavy_atoms(mol: Mol) -> int:
    """Atoms that are not hydrogen: the size of a molecule.

    Example:
        >>> n_heavy_atoms(Chem.MolFromSmiles("[2H]C([2H])O"))
        2
    """
    count: int = mol.GetNumHeavyAtoms()
    return count
