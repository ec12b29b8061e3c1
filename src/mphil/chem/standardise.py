"""Molecules as chemists mean them: the parent of a salt, neutral where that is safe."""

from __future__ import annotations

from typing import Literal

from rdkit import Chem, rdBase
from rdkit.Chem import Mol, rdqueries
from rdkit.Chem.MolStandardize import rdMolStandardize

NAME: Literal["parent/1"] = "parent/1"
"""What a bundle calls this way of reading; a change of its results is another name."""

CARBON = 6
UNCHANGED, FRAGMENTS, CHARGES = 0, 1, 2
"""What was changed, as bits."""

_CHARGED = rdqueries.FormalChargeEqualsQueryAtom(0, negate=True)
_CHOOSER = rdMolStandardize.LargestFragmentChooser(preferOrganic=True)
_UNCHARGER = rdMolStandardize.Uncharger(canonicalOrder=True)


def standardise(mol: Mol) -> tuple[Mol, int]:
    """The largest organic fragment, with charges removed that a proton more or less removes.

    Zwitterions become neutral too; quaternary nitrogen, nitro groups and metals in a covalent frame stay as they are.
    Isotopes and stereo are kept, and no tautomer is preferred to another. What has no carbon is left as it is: of
    cisplatin no fragment is the molecule.

    Args:
        mol: a sanitised molecule.

    Returns:
        the molecule, and the bits of what was changed.

    Example:
        >>> made, changed = standardise(Chem.MolFromSmiles("[Na+].CC(=O)[O-]"))
        >>> Chem.MolToSmiles(made), changed
        ('CC(=O)O', 3)
    """
    if not any(atom.GetAtomicNum() == CARBON for atom in mol.GetAtoms()):
        return mol, UNCHANGED
    several = len(Chem.GetMolFrags(mol)) > 1
    if not several and not len(mol.GetAtomsMatchingQuery(_CHARGED)):
        return mol, UNCHANGED
    with rdBase.BlockLogs():
        parent = _CHOOSER.choose(mol) if several else mol
        neutral = _UNCHARGER.uncharge(parent)
        Chem.AssignStereochemistry(neutral, cleanIt=True, force=True)
    changed = FRAGMENTS if several else UNCHANGED
    if Chem.MolToSmiles(neutral) != Chem.MolToSmiles(parent):
        changed |= CHARGES
    return (neutral if changed & CHARGES else parent), changed
