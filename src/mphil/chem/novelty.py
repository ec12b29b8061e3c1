"""What a molecule has that none of many others has: elements and ring systems."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rdkit import Chem, rdBase
from rdkit.Chem import Atom

from mphil.chem.names import name_part
from mphil.chem.parse import SmilesError, parse_lenient
from mphil.chem.substructures import fused_rings

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
                found = contents(one)
            except SmilesError:
                continue
            elements |= found[0]
            rings |= found[1].keys()
        return cls(frozenset(elements), frozenset(rings))

    def missing(self, smiles: str) -> list[str]:
        """What a molecule has that was not seen, in words.

        Example:
            >>> Seen.of(["CCO", "c1ccccc1N"]).missing("C[Si](C)(C)c1ccncc1")
            ['no training molecule has the element Si', 'no training molecule has the ring system pyridine']
        """
        elements, rings = contents(smiles)
        new = [f"no training molecule has the element {symbol}" for symbol in sorted(elements - self.elements)]
        new += [
            f"no training molecule has the ring system {name_part(smiles, atoms) or ring}"
            for ring, atoms in sorted(rings.items())
            if ring not in self.rings
        ]
        return new[:MOST]


def contents(smiles: str) -> tuple[set[str], dict[str, tuple[int, ...]]]:
    """The elements of a molecule, and its ring systems with the atoms of one of each."""
    mol, _ = parse_lenient(smiles)
    elements = set(map(Atom.GetSymbol, map(mol.GetAtomWithIdx, range(mol.GetNumAtoms()))))
    rings = {}
    with rdBase.BlockLogs():
        for atoms in fused_rings([set(ring) for ring in mol.GetRingInfo().AtomRings()]):
            members = tuple(sorted(atoms))
            rings[Chem.MolFragmentToSmiles(mol, list(members), isomericSmiles=False)] = members
    return elements, rings
