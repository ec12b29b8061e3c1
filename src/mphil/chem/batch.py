"""Many SMILES at a time: every row gets an answer, a molecule or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from rdkit.Chem import Mol, MolToSmiles

from mphil.chem.descriptors import descriptors, morgan_counts
from mphil.chem.featurize import featurize
from mphil.chem.fingerprint import morgan_fingerprints
from mphil.chem.parse import SmilesError, check_definite, parse_lenient, parse_smiles
from mphil.chem.row_issue import PARTIAL, RowIssue
from mphil.chem.scaffold import murcko_smiles, n_heavy_atoms
from mphil.chem.schema import SCHEMAS
from mphil.chem.standardise import standardise

Arrays = dict[str, npt.NDArray[Any]]

GRAPH = ("x", "edge_index", "edge_attr", "n_nodes", "n_edges")
"""The arrays of a graph."""


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


def graph_batch(smiles: Sequence[str], *, schema: str, lenient: bool) -> ReadBatch:
    """Features and bonds of each molecule; `schema` is the short name of one of `SCHEMAS`."""
    mols, issues = read_rows(smiles, lenient)
    made = featurize(mols, SCHEMAS[schema])
    arrays: Arrays = {name: getattr(made, name) for name in GRAPH}
    return ReadBatch(arrays, issues)


def scaffold_batch(smiles: Sequence[str], *, lenient: bool) -> ReadBatch:
    """The Bemis-Murcko scaffold of each molecule: `text`, their ASCII codes end to end, and `length`."""
    mols, issues = read_rows(smiles, lenient)
    text, length = _end_to_end([murcko_smiles(mol) for mol in mols])
    return ReadBatch({"text": text, "length": length}, issues)


def fact_batch(
    smiles: Sequence[str], *, lenient: bool, standardised: bool = False, definite: bool = False
) -> ReadBatch:
    """What tells molecules apart: `size` in heavy atoms, and as texts end to end canonical SMILES and scaffold.

    `changed` says what standardisation did to each, as bits. `definite` refuses what a prediction refuses.
    """
    mols, issues = read_rows(smiles, lenient, definite=definite)
    mols, changed = _standardised(mols, standardised)
    canonical, canonical_length = _end_to_end([MolToSmiles(mol) for mol in mols])
    scaffold, scaffold_length = _end_to_end([murcko_smiles(mol) for mol in mols])
    arrays: Arrays = {"canonical": canonical, "canonical_length": canonical_length}
    arrays |= {"scaffold": scaffold, "scaffold_length": scaffold_length}
    arrays["size"] = np.array([n_heavy_atoms(mol) for mol in mols], np.int64)
    arrays["changed"] = changed
    return ReadBatch(arrays, issues)


def fingerprint_batch(smiles: Sequence[str], *, lenient: bool) -> ReadBatch:
    """The packed Morgan fingerprint of each molecule: `fingerprint`, a row of bytes for each."""
    mols, issues = read_rows(smiles, lenient)
    return ReadBatch({"fingerprint": morgan_fingerprints(mols)}, issues)


def descriptor_batch(smiles: Sequence[str], *, lenient: bool) -> ReadBatch:
    """The features that trees split on: `counts` of neighbourhoods and `descriptors`, a row of each."""
    mols, issues = read_rows(smiles, lenient)
    return ReadBatch({"counts": morgan_counts(mols), "descriptors": descriptors(mols)}, issues)


def molecule_batch(
    smiles: Sequence[str], *, schema: str, standardised: bool = False, features: bool = False
) -> ReadBatch:
    """All that a prediction needs: the canonical spelling as texts end to end, the graph and the fingerprint.

    Graph and fingerprint are those of the canonical spelling, so that every spelling of a molecule gives the same
    arrays; it is read again unless the row had it. `changed` says what standardisation did to each, as bits. If they
    are wanted, the `features` that trees split on are there too.
    """
    mols, issues = read_rows(smiles, lenient=False, definite=True)
    mols, changed = _standardised(mols, standardised)
    refused = {issue.row for issue in issues}
    rows = [row for row in range(len(smiles)) if row not in refused]
    spellings = [MolToSmiles(mol) for mol in mols]
    same = [not touched and smiles[row] == text for row, text, touched in zip(rows, spellings, changed, strict=True)]
    mols, lost = _read_again(mols, spellings, same)
    unread = {issue.row for issue in lost}
    kept = [row for row in range(len(spellings)) if row not in unread]
    canonical, length = _end_to_end([spellings[row] for row in kept])
    made = featurize(mols, SCHEMAS[schema])
    arrays: Arrays = {name: getattr(made, name) for name in GRAPH}
    arrays |= {"canonical": canonical, "canonical_length": length, "fingerprint": morgan_fingerprints(mols)}
    arrays["changed"] = changed[kept]
    if features:
        arrays |= {"counts": morgan_counts(mols), "descriptors": descriptors(mols)}
    lost = [replace(issue, row=rows[issue.row]) for issue in lost]
    return ReadBatch(arrays, sorted([*issues, *lost], key=lambda issue: issue.row))


def _read_again(mols: list[Mol], spellings: Sequence[str], same: Sequence[bool]) -> tuple[list[Mol], list[RowIssue]]:
    """The molecules as read from these spellings; `same` tells which of them were."""
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


JOBS: dict[str, Callable[..., ReadBatch]] = {
    "graphs": graph_batch,
    "scaffolds": scaffold_batch,
    "facts": fact_batch,
    "fingerprints": fingerprint_batch,
    "descriptors": descriptor_batch,
    "molecules": molecule_batch,
}
"""What can be asked of a batch of rows."""


def join(batches: Sequence[ReadBatch], rows: Sequence[int]) -> ReadBatch:
    """Batches end to end, as if all their rows had been read at once.

    Args:
        batches: answers in the order of their rows; at least one.
        rows: how many rows each of them answers.
    """
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
