"""The parts of a molecule that a chemist would name: rings, functional groups, what retrosynthesis cuts it into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
from rdkit import Chem, rdBase
from rdkit.Chem import Atom, BondType, Mol

from mphil.chem.names import name_part
from mphil.chem.parse import SmilesError, parse_lenient

REMEMBERED = 500_000
"""Molecules whose bonds are kept: finding them takes a millisecond, and every epoch asks again."""


@lru_cache(maxsize=REMEMBERED)
def brics_bonds(smiles: str) -> tuple[int, npt.NDArray[np.int16]]:
    """The BRICS bonds of a molecule (Degen et al., 2008).

    Args:
        smiles: the molecule.

    Returns:
        its number of atoms, and (n, 2) the atoms of each bond, numbered in the order of the string and sorted; no
        bonds for a molecule whose valences RDKit does not know, and no atoms either for a string it cannot read.

    Example:
        >>> brics_bonds("CCOC(C)=O")[1].tolist()
        [[1, 2], [2, 3]]
    """
    from rdkit.Chem.BRICS import FindBRICSBonds  # compiles its patterns when it is imported

    none = np.zeros((0, 2), np.int16)
    try:
        mol, partial = parse_lenient(smiles)
    except SmilesError:
        return 0, none
    # The patterns of BRICS ask for valences, which a partially sanitised molecule does not have.
    if partial:
        return mol.GetNumAtoms(), none
    with rdBase.BlockLogs():
        pairs = sorted(sorted(pair) for pair, _ in FindBRICSBonds(mol))  # type: ignore[no-untyped-call]
    return mol.GetNumAtoms(), np.array(pairs, np.int16).reshape(-1, 2)


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


MOST = 3
"""New things that a sentence names."""


@dataclass(frozen=True)
class Seen:
    """What occurs in many molecules.

    Attributes:
        elements: symbols.
        rings: ring systems, as SMILES of their atoms alone, without stereo.
    """

    elements: frozenset[str]
    rings: frozenset[str]

    @classmethod
    def of(cls, smiles: Iterable[str]) -> Seen:
        """What occurs in these molecules; those that cannot be read are passed over."""
        elements, rings = set[str](), set[str]()
        for one in smiles:
            try:
                found = contents(parse_lenient(one)[0])
            except SmilesError:
                continue
            elements |= found[0]
            rings |= found[1].keys()
        return cls(frozenset(elements), frozenset(rings))

    @classmethod
    def told(cls, elements: Iterable[str], rings: Iterable[str]) -> Seen:
        """What occurs in molecules, from a text for each with blanks between what it has.

        Example:
            >>> Seen.told(["C O", "C"], ["c1ccccc1", ""]) == Seen.of(["c1ccccc1O", "C"])
            True
        """
        return cls(*(frozenset(one for text in texts for one in text.split()) for texts in (elements, rings)))

    def missing(self, smiles: str) -> list[str]:
        """What a molecule has that was not seen, in words.

        Example:
            >>> Seen.of(["CCO", "c1ccccc1N"]).missing("C[Si](C)(C)c1ccncc1")
            ['no training molecule has the element Si', 'no training molecule has the ring system pyridine']
        """
        elements, rings = contents(parse_lenient(smiles)[0])
        new = [f"no training molecule has the element {symbol}" for symbol in sorted(elements - self.elements)]
        new += [
            f"no training molecule has the ring system {name_part(smiles, atoms) or ring}"
            for ring, atoms in sorted(rings.items())
            if ring not in self.rings
        ]
        return new[:MOST]


def contents(mol: Mol) -> tuple[set[str], dict[str, tuple[int, ...]]]:
    """The elements of a molecule, and its ring systems with the atoms of one of each."""
    elements = set(map(Atom.GetSymbol, map(mol.GetAtomWithIdx, range(mol.GetNumAtoms()))))
    rings = {}
    with rdBase.BlockLogs():
        for atoms in fused_rings([set(ring) for ring in mol.GetRingInfo().AtomRings()]):
            members = tuple(sorted(atoms))
            rings[Chem.MolFragmentToSmiles(mol, list(members), isomericSmiles=False)] = members
    return elements, rings
