"""Many SMILES at a time: every row gets an answer, a molecule or the reason why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from rdkit.Chem import Mol, MolToSmiles

from mphil.chem.describe import descriptors, morgan_counts, morgan_fingerprints, murcko_smiles, n_heavy_atoms, packed
from mphil.chem.parse import SmilesError, check_definite, parse_lenient, parse_smiles, standardise
from mphil.chem.row_issue import PARTIAL, RowIssue
from mphil.chem.schema import SCHEMAS, featurize
from mphil.chem.substructures import contents

Arrays = dict[str, npt.NDArray[Any]]

Fact = Literal["size", "scaffold", "spelling", "graph", "fingerprint", "features", "contents"]
ARRAYS: dict[Fact, tuple[str, ...]] = {
    "size": ("size",),
    "scaffold": ("scaffold", "scaffold_length"),
    "spelling": ("canonical", "canonical_length", "changed"),
    "graph": ("x", "edge_index", "edge_attr", "n_nodes", "n_edges"),
    "fingerprint": ("fingerprint",),
    "features": ("counts", "descriptors"),
    "contents": ("elements", "elements_length", "rings", "rings_length"),
}
"""What can be asked of molecules, and the arrays that tell it: heavy atoms, Bemis-Murcko scaffold, canonical SMILES and
what standardisation did, features and bonds, packed Morgan fingerprint, what trees split on, and elements and ring
systems, which blanks separate."""

SLICE = 64
"""Molecules that are held at a time."""

NUMBERS = {"size": np.int64, "changed": np.uint8}
TEXTS = {"canonical", "scaffold", "elements", "rings"}


@dataclass(frozen=True, eq=False)
class ReadBatch:
    """The answer to a batch of rows.

    Attributes:
        arrays: what was asked of the molecules that could be read, end to end.
        issues: rows that could not be read, or only in part, in order.
    """

    arrays: Arrays
    issues: list[RowIssue]


def read_rows(smiles: Sequence[str], lenient: bool, *, definite: bool = False) -> tuple[list[Mol], list[RowIssue]]:
    """The molecules that can be read, in order, and what is to be said of the other rows.

    Args:
        smiles: one molecule a row.
        lenient: keep molecules with valences that RDKit does not know.
        definite: refuse wildcards and dative bonds.
    """
    mols, issues = [], []
    for row, text in enumerate(smiles):
        try:
            mol, partial = parse_lenient(text) if lenient else (parse_smiles(text), False)
            if definite:
                check_definite(text, mol)
        except SmilesError as error:
            issues.append(RowIssue(error.code, str(error), row))
            continue
        mols.append(mol)
        if partial:
            told = "kept without a check of its valences: RDKit does not know one of them"
            issues.append(RowIssue(PARTIAL, told, row))
    return mols, issues


def read_batch(
    smiles: Sequence[str],
    *,
    wanted: Sequence[Fact],
    schema: str = "good",
    lenient: bool = False,
    definite: bool = False,
    standardised: bool = False,
) -> ReadBatch:
    """Read rows once, and tell all that is wanted of their molecules.

    With the `spelling`, everything but size and scaffold is that of the canonical spelling, so that every spelling of a
    molecule gives the same arrays; it is read again unless the row had it. Without, it is that of the row as it is
    written.

    Args:
        smiles: one molecule a row.
        wanted: names of `ARRAYS`, which says what arrays each gives; those of texts hold their ASCII codes end to end.
        schema: short name of one of `SCHEMAS`, for graphs.
        lenient: keep molecules with valences that RDKit does not know.
        definite: refuse wildcards and dative bonds.
        standardised: take the molecule as a chemist means it; `changed` says what that did to each, as bits.
    """
    # While a molecule is new, it is in the cache of the processor; of hundreds, most are not.
    slices = [smiles[first : first + SLICE] for first in range(0, len(smiles), SLICE)] or [smiles]
    read = [_read_slice(some, wanted, schema, lenient, definite, standardised) for some in slices]
    return join(read, [len(some) for some in slices])


def _read_slice(
    smiles: Sequence[str], wanted: Sequence[Fact], schema: str, lenient: bool, definite: bool, standardised: bool
) -> ReadBatch:
    """The same, all rows at once."""
    mols, issues = read_rows(smiles, lenient, definite=definite)
    mols, changed = _standardised(mols, standardised)
    facts: dict[str, list[Any]] = {}
    if "size" in wanted:
        facts["size"] = [n_heavy_atoms(mol) for mol in mols]
    if "scaffold" in wanted:
        facts["scaffold"] = [murcko_smiles(mol) for mol in mols]
    if "spelling" in wanted:
        spellings = facts["canonical"] = [MolToSmiles(mol) for mol in mols]
        facts["changed"] = changed.tolist()
        refused = {issue.row for issue in issues if not issue.kept}
        rows = [row for row in range(len(smiles)) if row not in refused]
        if set(wanted) & {"graph", "fingerprint", "features", "contents"}:
            pairs = zip(rows, spellings, changed, strict=True)
            same = [not touched and smiles[row] == spelling for row, spelling, touched in pairs]
            mols, lost = _read_again(mols, spellings, same)
            gone = {issue.row for issue in lost}
            facts = {name: [one for at, one in enumerate(told) if at not in gone] for name, told in facts.items()}
            lost = [replace(issue, row=rows[issue.row]) for issue in lost]
            issues = sorted([*issues, *lost], key=lambda issue: issue.row)
    if "contents" in wanted:
        found = [contents(mol) for mol in mols]
        facts["elements"] = [" ".join(sorted(elements)) for elements, _ in found]
        facts["rings"] = [" ".join(sorted(rings)) for _, rings in found]
    arrays: Arrays = {name: np.array(facts[name], kind) for name, kind in NUMBERS.items() if name in facts}
    for name in TEXTS & facts.keys():
        arrays[name], arrays[f"{name}_length"] = _end_to_end(facts[name])
    made = featurize(mols, SCHEMAS[schema]) if "graph" in wanted else None
    if made is not None:
        arrays |= {name: getattr(made, name) for name in ARRAYS["graph"]}
    if "features" in wanted:
        arrays |= {"counts": morgan_counts(mols), "descriptors": descriptors(mols, made)}
    if "fingerprint" in wanted:
        arrays["fingerprint"] = packed(arrays["counts"]) if "features" in wanted else morgan_fingerprints(mols)
    return ReadBatch(arrays, issues)


def texts(arrays: Arrays, name: str) -> list[str]:
    """The texts that an array holds end to end."""
    text, ends = arrays[name].tobytes().decode("ascii"), np.cumsum(arrays[f"{name}_length"]).tolist()
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _read_again(mols: list[Mol], spellings: Sequence[str], same: Sequence[bool]) -> tuple[list[Mol], list[RowIssue]]:
    """The molecules as read from these spellings; `same` tells which of them were.

    Atoms put in the order of the spelling would not do: rings, aromaticity, hybridisation at metals and chiral tags are
    found while a text is read, and two texts of a molecule may differ in them.
    """
    others = [row for row, known in enumerate(same) if not known]
    read, lost = read_rows([spellings[row] for row in others], lenient=False)
    lost = [replace(issue, row=others[issue.row]) for issue in lost]
    refused, fresh = {issue.row for issue in lost}, iter(read)
    return [mols[row] if same[row] else next(fresh) for row in range(len(mols)) if row not in refused], lost


def _standardised(mols: list[Mol], wanted: bool) -> tuple[list[Mol], npt.NDArray[np.uint8]]:
    """The molecules, standardised if that is wanted, and what was changed about each."""
    if not wanted:
        return mols, np.zeros(len(mols), np.uint8)
    made = [standardise(mol) for mol in mols]
    return [mol for mol, _ in made], np.array([changed for _, changed in made], np.uint8)


def _end_to_end(texts: Sequence[str]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """ASCII codes of all texts, and the length of each."""
    encoded = [text.encode("ascii") for text in texts]
    return np.frombuffer(b"".join(encoded), np.uint8), np.array([len(one) for one in encoded], np.int64)


def join(batches: Sequence[ReadBatch], rows: Sequence[int]) -> ReadBatch:
    """Batches end to end, as if all their rows had been read at once.

    Args:
        batches: answers in the order of their rows; at least one.
        rows: how many rows each of them answers.
    """
    if len(batches) == 1:
        return batches[0]
    first = np.cumsum([0, *rows]).tolist()
    issues = [
        replace(issue, row=issue.row + start)
        for batch, start in zip(batches, first, strict=False)
        for issue in batch.issues
    ]
    arrays = {
        name: np.concatenate([batch.arrays[name] for batch in batches], axis=1 if name == "edge_index" else 0)
        for name in batches[0].arrays
    }
    return ReadBatch(arrays, issues)
