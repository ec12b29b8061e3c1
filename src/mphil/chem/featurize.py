"""Molecules as flat arrays of features."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from rdkit.Chem import Bond, Mol

from mphil.chem.schema import DRUGOOD, GOOD, SCHEMAS, Array, Column, Schema

__all__ = ["DRUGOOD", "GOOD", "SCHEMAS", "Column", "MoleculeArrays", "Schema", "featurize"]


@dataclass(frozen=True, eq=False)
class MoleculeArrays:
    """Featurised molecules laid end to end.

    Attributes:
        x: (n_atoms, n_atom_features) codes (uint8) or floats (float32), as the schema says.
        edge_index: (2, 2 * n_bonds) source and target, counted inside each molecule; bond `b` is columns `2b`
            (begin to end) and `2b + 1` (back).
        edge_attr: (2 * n_bonds, n_bond_features) codes or floats.
        n_nodes: (n_molecules,) atoms of each molecule.
        n_edges: (n_molecules,) directed edges of each molecule.
        schema: what the columns mean.
    """

    x: Array
    edge_index: npt.NDArray[np.int32]
    edge_attr: Array
    n_nodes: npt.NDArray[np.int64]
    n_edges: npt.NDArray[np.int64]
    schema: Schema


def featurize(mols: Iterable[Mol], schema: Schema = GOOD) -> MoleculeArrays:
    """Turn sanitised molecules into arrays; atoms keep their RDKit order.

    Example:
        >>> from mphil.chem.parse import parse_smiles
        >>> arrays = featurize([parse_smiles("CCO"), parse_smiles("O")])
        >>> arrays.x[:, 0].tolist(), arrays.n_nodes.tolist()
        ([6, 6, 8, 8], [3, 1])
    """
    atom_raw: list[list[Any]] = [[] for _ in schema.atom]
    bond_raw: list[list[Any]] = [[] for _ in schema.bond]
    begin: list[int] = []
    end: list[int] = []
    counts: list[tuple[int, int]] = []
    for mol in mols:
        n_atoms, n_bonds = mol.GetNumAtoms(), mol.GetNumBonds()
        counts.append((n_atoms, n_bonds))
        # Fetching by index and mapping a getter over the column takes about half the time of a loop over
        # GetAtoms(): RDKit's iterators and a Python frame per atom cost more than the values.
        atoms = list(map(mol.GetAtomWithIdx, range(n_atoms)))
        bonds = list(map(mol.GetBondWithIdx, range(n_bonds)))
        for raw, column in zip(atom_raw, schema.atom, strict=True):
            raw.extend(column.read(mol, atoms))
        for raw, column in zip(bond_raw, schema.bond, strict=True):
            raw.extend(column.read(mol, bonds))
        begin.extend(map(Bond.GetBeginAtomIdx, bonds))
        end.extend(map(Bond.GetEndAtomIdx, bonds))
    forward = np.array([begin, end], np.int32).reshape(2, -1)
    sizes = np.array(counts, np.int64).reshape(-1, 2)
    return MoleculeArrays(
        x=schema.encode(schema.atom, atom_raw),
        edge_index=np.stack([forward, forward[::-1]], axis=2).reshape(2, -1),
        edge_attr=schema.encode(schema.bond, bond_raw).repeat(2, axis=0),
        n_nodes=sizes[:, 0],
        n_edges=2 * sizes[:, 1],
        schema=schema,
    )
