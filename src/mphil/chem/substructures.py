"""The parts of a molecule that a chemist would name: rings, functional groups, and what retrosynthesis cuts it into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rdkit import Chem, rdBase
from rdkit.Chem import Atom, BondType, Mol

from mphil.chem.fragments import brics_bonds
from mphil.chem.parse import parse_lenient

Kind = Literal["ring", "group", "fragment"]


@dataclass(frozen=True)
class Substructure:
    """A connected part of a molecule.

    Attributes:
        kind: `ring` (a ring, or rings that share a bond), `group` (a functional group) or `fragment` (a BRICS piece).
        smiles: the part without stereo, `*` where it hangs on the rest; parts of a fused ring system have no `*`.
        atoms: their numbers in the order of the molecule's SMILES, ascending.
    """

    kind: Kind
    smiles: str
    atoms: tuple[int, ...]


def find_substructures(smiles: str) -> list[Substructure]:
    """All substructures of a molecule, each set of atoms once; the molecule as a whole is not a part of itself.

    Functional groups follow the idea of Ertl (2017): hetero atoms outside aromatic rings, carbons with a multiple bond
    or between several such atoms, and whatever of these hangs together.

    Example:
        >>> [(found.kind, found.smiles) for found in find_substructures("CC(=O)Oc1ccccc1")]
        [('ring', '*c1ccccc1'), ('group', '*OC(*)=O'), ('fragment', '*C(C)=O'), ('fragment', '*O*')]
    """
    mol, _ = parse_lenient(smiles)
    found: dict[tuple[int, ...], Substructure] = {}
    with rdBase.BlockLogs():
        for kind, atoms in _parts(mol, smiles):
            members = tuple(sorted(atoms))
            if members not in found and len(members) < mol.GetNumAtoms():
                found[members] = Substructure(kind, _name(mol, members), members)
    return list(found.values())


def _parts(mol: Mol, smiles: str) -> Iterator[tuple[Kind, Iterable[int]]]:
    rings = [set(ring) for ring in mol.GetRingInfo().AtomRings()]
    for ring in fused_rings(rings):
        yield "ring", ring
    for ring in rings:
        yield "ring", ring
    marked = {atom.GetIdx() for atom in mol.GetAtoms() if _is_functional(atom)}
    bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in mol.GetBonds()]
    for group in _connected(sorted(marked), [pair for pair in bonds if marked.issuperset(pair)]):
        yield "group", group
    cut = {frozenset(pair) for pair in brics_bonds(smiles)[1].tolist()}
    for piece in _connected(range(mol.GetNumAtoms()), [pair for pair in bonds if frozenset(pair) not in cut]):
        yield "fragment", piece


def fused_rings(rings: Sequence[set[int]]) -> list[set[int]]:
    """Rings that share a bond, together."""
    systems: list[set[int]] = []
    for ring in rings:
        apart = [system for system in systems if len(system & ring) < 2]
        joined = [system for system in systems if len(system & ring) >= 2]
        systems = [*apart, ring.union(*joined)]
    return systems


def _is_functional(atom: Atom) -> bool:
    if atom.GetIsAromatic() or atom.GetAtomicNum() == 1:
        return False
    if atom.GetAtomicNum() != 6 or any(
        bond.GetBondType() in (BondType.DOUBLE, BondType.TRIPLE) for bond in atom.GetBonds()
    ):
        return True
    hetero = [n for n in atom.GetNeighbors() if n.GetAtomicNum() not in (1, 6) and not n.GetIsAromatic()]
    return len(hetero) >= 2


def _connected(members: Iterable[int], bonds: Iterable[tuple[int, int]]) -> list[set[int]]:
    """Sets of members that bonds tie together, in the order of their first members."""
    part = {member: {member} for member in members}
    for one, other in bonds:
        if part[one] is not part[other]:
            part[one] |= part[other]
            for member in part[other]:
                part[member] = part[one]
    return list({id(group): group for group in part.values()}.values())


def _name(mol: Mol, atoms: Sequence[int]) -> str:
    """SMILES of a part, with a `*` for every bond that was cut, unless a ring was."""
    inside = set(atoms)
    touched = ((number, bond) for number in atoms for bond in mol.GetAtomWithIdx(number).GetBonds())
    cut = [bond for number, bond in touched if bond.GetOtherAtomIdx(number) not in inside]
    if not cut or any(bond.IsInRing() for bond in cut):
        plain: str = Chem.MolFragmentToSmiles(mol, list(atoms), isomericSmiles=False)
        return plain
    open_ends = Chem.FragmentOnBonds(mol, [bond.GetIdx() for bond in cut], dummyLabels=[(0, 0)] * len(cut))
    piece = next(members for members in Chem.GetMolFrags(open_ends) if inside.issuperset(members[:1]))
    named: str = Chem.MolFragmentToSmiles(open_ends, list(piece), isomericSmiles=False)
    return named
