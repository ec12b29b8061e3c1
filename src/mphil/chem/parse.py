"""From SMILES to molecules, strictly: what RDKit would silently read as another molecule is refused with a code."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from textwrap import shorten
from typing import Any, Literal, NoReturn

from rdkit import Chem, rdBase
from rdkit.Chem import BondStereo, BondType, Mol, MolToSmiles, SanitizeFlags, rdqueries
from rdkit.Chem.MolStandardize import rdMolStandardize

from mphil.errors import DataError
from mphil.limits import MAX_ATOMS, MAX_CHARGE, MAX_SMILES_LENGTH

Code = Literal[
    "not-text",
    "empty",
    "too-long",
    "not-ascii",
    "extension",
    "whitespace",
    "control",
    "query",
    "wildcard",
    "dative",
    "charge",
    "syntax",
    "too-many-atoms",
    "valence",
    "aromaticity",
    "chemistry",
]
"""Why a SMILES is refused; part of the interface, so that tables and tests can rely on it."""

MEANINGS: Mapping[Code, str] = {
    "not-text": "The cell is not text.",
    "empty": "The cell is empty.",
    "too-long": "The text is longer than any molecule that is read.",
    "not-ascii": "The text has letters that SMILES does not have, often from another alphabet.",
    "extension": "Something stands behind the SMILES, such as a CXSMILES extension.",
    "whitespace": "There is white space inside: perhaps two molecules, or a name.",
    "control": "There is a control character inside.",
    "query": "It is a pattern for searching, not a molecule.",
    "wildcard": "It has a placeholder for an atom.",
    "dative": "It has a dative bond.",
    "charge": "An atom has an impossible charge.",
    "syntax": "It is not SMILES.",
    "too-many-atoms": "It has more atoms than are read.",
    "valence": "An atom has too many bonds.",
    "aromaticity": "Its aromatic rings have no Kekule structure.",
    "chemistry": "RDKit refuses it for another reason.",
}
"""What each code means, for people."""

_TEXT = re.compile(r"[!-~]+")
_EXTENSION = re.compile(r"\S+\s+\|.*\|\s*\S*", re.DOTALL)
_QUERY = re.compile(r"~|\[\d*#")
_PLACEHOLDER = re.compile(r"\[\d*(?:R\d*|Xx|Du|Q|A|X|M|Lp|Pol)(?![a-z])[^\]]*\]")
_LARGE_CHARGE = re.compile(r"[+-](\d{2,})")
_PROBLEMS: dict[str, Code] = {
    "AtomValenceException": "valence",
    "AtomKekulizeException": "aromaticity",
    "KekulizeException": "aromaticity",
}


class SmilesError(DataError):
    """A SMILES that is refused; `code` says why in a word, the message in a sentence."""

    def __init__(self, code: Code, smiles: object, reason: str) -> None:
        shown = f"{smiles[:57]!r}..." if isinstance(smiles, str) and len(smiles) > 60 else repr(smiles)
        super().__init__(reason if code == "empty" else f"{shown} is not a molecule we can read: {reason}")
        self.code: Code = code


def _parameters(*, sanitize: bool) -> Any:
    parameters: Any = Chem.SmilesParserParams()
    parameters.allowCXSMILES = False
    parameters.parseName = False
    parameters.sanitize = sanitize
    parameters.removeHs = sanitize
    return parameters


_STRICT = _parameters(sanitize=True)
_RAW = _parameters(sanitize=False)
_WILDCARD = rdqueries.AtomNumEqualsQueryAtom(0)


def parse_smiles(smiles: str) -> Mol:
    """Read a SMILES; atoms keep the order in which the string names them, hydrogens become part of their atoms.

    Raises:
        SmilesError: it is not the whole of one molecule that RDKit accepts; `code` says why.

    Example:
        >>> parse_smiles("CCO").GetNumAtoms()
        3
        >>> parse_smiles("C C")
        Traceback (most recent call last):
        mphil.chem.parse.SmilesError: 'C C' is not a molecule we can read: whitespace at character 2; remove it, ...
    """
    _check_text(smiles)
    with rdBase.BlockLogs():
        mol = Chem.MolFromSmiles(smiles, _STRICT)
        if mol is None:
            _refuse(smiles)
        _check_molecule(smiles, mol)
    return mol


def check_definite(smiles: str, mol: Mol) -> None:
    """Refuse a molecule about which a model cannot be asked: part of it is left open, or bound in a way of its own.

    It is refused in tables to train on as well; published benchmarks keep theirs, since their figures count them.

    Args:
        smiles: as it was given.
        mol: what was read from it.

    Raises:
        SmilesError: `wildcard`, an atom stands for no element; `dative`, a bond is written as an arrow.
    """
    open_atoms = mol.GetAtomsMatchingQuery(_WILDCARD)
    if len(open_atoms):  # to count them takes a tenth of the time of a loop over none
        reason = f"atom {open_atoms[0].GetIdx() + 1} is a wildcard, which stands for no element; name the element"
        raise SmilesError("wildcard", smiles, reason)
    if "->" in smiles or "<-" in smiles:
        raise SmilesError(
            "dative", smiles, "an arrow is a dative bond, which the features do not tell apart; write a plain bond"
        )


def parse_lenient(smiles: str) -> tuple[Mol, bool]:
    """As `parse_smiles`, but a molecule whose only fault is a valence that RDKit does not know is kept.

    Returns:
        the molecule, and whether it is only partially sanitised: the valence check was skipped.
    """
    try:
        return parse_smiles(smiles), False
    except SmilesError as error:
        if error.code != "valence":
            raise
    with rdBase.BlockLogs():
        mol = _sanitize_partially(smiles)
        _check_molecule(smiles, mol)
    return mol, True


def _sanitize_partially(smiles: str) -> Mol:
    mol = Chem.MolFromSmiles(smiles, _RAW)
    try:
        mol.UpdatePropertyCache(strict=False)
        Chem.SanitizeMol(mol, SanitizeFlags.SANITIZE_ALL ^ SanitizeFlags.SANITIZE_PROPERTIES)
        mol = Chem.RemoveHs(mol, sanitize=False)
        Chem.AssignStereochemistry(mol, cleanIt=True, force=True)
    except (Chem.MolSanitizeException, RuntimeError) as error:
        raise SmilesError(_PROBLEMS.get(type(error).__name__, "chemistry"), smiles, _advice(error)) from error
    return mol


def _check_text(smiles: str) -> None:
    """Refuse what is no SMILES by its characters alone."""
    if not isinstance(smiles, str):
        raise SmilesError("not-text", smiles, f"it is a {type(smiles).__name__}; give a string")
    if not smiles:
        raise SmilesError("empty", smiles, "an empty text is not a molecule; give a SMILES")
    if len(smiles) > MAX_SMILES_LENGTH:
        reason = f"it has {len(smiles):,} characters, at most {MAX_SMILES_LENGTH:,} are read"
        raise SmilesError("too-long", smiles, reason)
    if not _TEXT.fullmatch(smiles):
        _refuse_characters(smiles)
    if _QUERY.search(smiles):
        raise SmilesError("query", smiles, "'~' and '[#' belong to search patterns, not to molecules")
    for charge in _LARGE_CHARGE.findall(smiles):
        if int(charge) > MAX_CHARGE:
            raise SmilesError("charge", smiles, f"an atom has charge {charge}, at most {MAX_CHARGE} is read")


def _refuse_characters(smiles: str) -> NoReturn:
    if not smiles.strip():
        raise SmilesError("empty", smiles, "a text of blanks is not a molecule; give a SMILES")
    if smiles.isascii() and _EXTENSION.fullmatch(smiles):
        raise SmilesError(
            "extension", smiles, "it carries a CXSMILES extension '|...|', which we do not read; remove it"
        )
    place, character = next((i, c) for i, c in enumerate(smiles) if not _TEXT.fullmatch(c))
    if not character.isascii():
        name = unicodedata.name(character, f"U+{ord(character):04X}")
        raise SmilesError("not-ascii", smiles, f"character {place + 1} is {name}; type it in plain ASCII")
    if character.isspace():
        reason = f"whitespace at character {place + 1}; remove it, or give one molecule and nothing else"
        raise SmilesError("whitespace", smiles, reason)
    raise SmilesError("control", smiles, f"character {place + 1} is the control character {character!r}; remove it")


def _refuse(smiles: str) -> NoReturn:
    """Say why RDKit did not give a molecule."""
    raw: Mol | None = Chem.MolFromSmiles(smiles, _RAW)
    if raw is None:
        if found := _PLACEHOLDER.search(smiles):
            raise SmilesError("wildcard", smiles, f"{found[0]} stands for no element; name the element")
        raise SmilesError("syntax", smiles, "RDKit cannot follow its syntax; check brackets, rings and symbols")
    for problem in Chem.DetectChemistryProblems(raw):
        code = _PROBLEMS.get(problem.GetType(), "chemistry")
        raise SmilesError(code, smiles, _advice(problem.Message()))
    raise SmilesError("chemistry", smiles, "RDKit cannot make sense of its atoms and bonds; check the structure")


def _advice(fault: object) -> str:
    """What RDKit says, which may name each of many atoms, and what to do."""
    return f"{shorten(str(fault), 120, placeholder=' ...')}; check the structure"


def _check_molecule(smiles: str, mol: Mol) -> None:
    if mol.GetNumAtoms() > MAX_ATOMS:
        raise SmilesError(
            "too-many-atoms", smiles, f"it has {mol.GetNumAtoms():,} atoms, at most {MAX_ATOMS:,} are read"
        )
    if ":" in smiles and any(
        bond.GetBondType() == BondType.AROMATIC and not bond.GetIsAromatic() for bond in mol.GetBonds()
    ):
        raise SmilesError("aromaticity", smiles, "an aromatic bond ':' joins atoms that are not aromatic")


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


PARENT: Literal["parent/1"] = "parent/1"
"""What a bundle calls this way of reading; a change of its results is another name."""

CARBON = 6
UNCHANGED, FRAGMENTS, CHARGES = 0, 1, 2
"""What was changed, as bits."""

_CHARGED = rdqueries.FormalChargeEqualsQueryAtom(0, negate=True)
_TAGGED = rdqueries.HasChiralTagQueryAtom()
_DOUBLE = Chem.MolFromSmarts("*=*")
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
    several = len(Chem.GetMolFrags(mol)) > 1
    if not several and not len(mol.GetAtomsMatchingQuery(_CHARGED)):
        return mol, UNCHANGED
    if not any(atom.GetAtomicNum() == CARBON for atom in mol.GetAtoms()):
        return mol, UNCHANGED
    changed = FRAGMENTS if several else UNCHANGED
    with rdBase.BlockLogs():
        parent = _CHOOSER.choose(mol) if several else mol
        neutral = _UNCHARGER.uncharge(parent)
        fewer = _charges(neutral) != _charges(parent)
        if not fewer and not _has_stereo(parent):
            return parent, changed
        Chem.AssignStereochemistry(neutral, cleanIt=True, force=True)
    if fewer or Chem.MolToSmiles(neutral) != Chem.MolToSmiles(parent):
        return neutral, changed | CHARGES
    return parent, changed


def _charges(mol: Mol) -> list[tuple[int, int]]:
    """Atoms with a charge, and the charge."""
    return [(atom.GetIdx(), atom.GetFormalCharge()) for atom in mol.GetAtomsMatchingQuery(_CHARGED)]


def _has_stereo(mol: Mol) -> bool:
    """Whether an atom or a double bond has it, so that finding it anew might say something else."""
    if len(mol.GetAtomsMatchingQuery(_TAGGED)):
        return True
    pairs = mol.GetSubstructMatches(_DOUBLE, maxMatches=2 * mol.GetNumBonds())
    return any(mol.GetBondBetweenAtoms(*pair).GetStereo() != BondStereo.STEREONONE for pair in pairs)
