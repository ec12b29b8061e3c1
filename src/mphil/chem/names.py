"""What a chemist would call a part of a molecule."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache, lru_cache

from rdkit import Chem, rdBase
from rdkit.Chem import Mol

from mphil.chem.catalogue import GROUPS, RINGS
from mphil.chem.parse import parse_lenient

MOST_WORDS = 3
"""Named pieces of which a part is put together, at most; what is larger is better drawn."""

REMEMBERED = 512
"""Molecules whose named pieces are kept: every part of a molecule asks for them."""

Piece = tuple[str, frozenset[int]]


def name_part(smiles: str, atoms: Collection[int]) -> str:
    """The name of a part of a molecule, or an empty text when there is none.

    A part that is no group or ring of the catalogue by itself is named by the pieces that make it up, with whatever
    saturated carbon is left.

    Args:
        smiles: the molecule.
        atoms: numbers of the atoms of the part, in the order in which the SMILES names them.

    Example:
        >>> name_part("CC(=O)Oc1ccccc1", [1, 2, 3]), name_part("CC(=O)Oc1ccccc1", [0, 1, 2])
        ('ester', 'carbonyl group + methyl')
    """
    wanted = frozenset(atoms)
    pieces = _pieces(smiles)
    exact = next((name for name, members in pieces if members == wanted), "")
    if exact or not pieces or not wanted:
        return exact
    inside = sorted((piece for piece in pieces if piece[1] <= wanted), key=lambda piece: -len(piece[1]))
    found: dict[str, int] = {}
    left = wanted
    for name, members in inside:
        if members <= left:
            found[name] = found.get(name, 0) + 1
            left -= members
    if left - _saturated(smiles):
        return ""
    words = [name if count == 1 else f"{count} {name}" for name, count in found.items()]
    words += ["alkyl carbon"] if left else []
    return " + ".join(words) if len(words) <= MOST_WORDS else ""


@lru_cache(maxsize=REMEMBERED)
def _pieces(smiles: str) -> tuple[Piece, ...]:
    """Everything in a molecule that the catalogue has a name for; none where RDKit does not know its valences."""
    mol, partial = parse_lenient(smiles)
    if partial:
        return ()
    found: dict[frozenset[int], str] = {}
    with rdBase.BlockLogs():
        for name, pattern in patterns().items():
            for match in mol.GetSubstructMatches(pattern):
                found.setdefault(frozenset(match), name)
    return tuple((name, atoms) for atoms, name in found.items())


@lru_cache(maxsize=REMEMBERED)
def _saturated(smiles: str) -> frozenset[int]:
    """Carbons with single bonds only, outside rings."""
    mol, _ = parse_lenient(smiles)
    chain = Chem.MolFromSmarts("[CX4;!R]")
    return frozenset(atom for (atom,) in mol.GetSubstructMatches(chain))


@cache
def patterns() -> dict[str, Mol]:
    """Name to the compiled pattern, rings first."""
    return {name: Chem.MolFromSmarts(smarts) for name, smarts in {**RINGS, **GROUPS}.items()}
