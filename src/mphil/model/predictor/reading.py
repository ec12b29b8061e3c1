"""Rows of SMILES as graphs that a model can be asked about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mphil.chem.batch import ReadBatch
from mphil.chem.row_issue import RowIssue
from mphil.graphs.store import GraphStore
from mphil.model.committee.features import MoleculeFeatures
from mphil.tables.from_smiles import spelled_graphs


@dataclass(frozen=True, eq=False)
class Molecules:
    """Rows that were read, of which k hold a molecule.

    Attributes:
        rows: how many there are.
        kept: (k,) numbers of the rows with a molecule, ascending.
        store: the k graphs in that order; their `smiles` are canonical.
        fingerprints: (k, bytes) packed bits.
        issues: the other rows, each with a code and a sentence.
        changed: (k,) what standardisation did to each, as bits.
        features: what trees split on; None when the model has no trees.
    """

    rows: int
    kept: NDArray[np.int64]
    store: GraphStore
    fingerprints: NDArray[np.uint8]
    issues: Sequence[RowIssue]
    changed: NDArray[np.uint8]
    features: MoleculeFeatures | None = None


def cleaned(smiles: Sequence[object]) -> list[str]:
    """Rows as text without blanks around them; whatever is no text (None, NaN, a number) is an empty row."""
    return [text.strip() if isinstance(text, str) else "" for text in smiles]


def as_molecules(batch: ReadBatch, rows: int, features: str) -> Molecules:
    """Rows of which spelling, graph and fingerprint were wanted.

    Args:
        batch: the answer.
        rows: how many rows were asked about.
        features: short name of the feature set.
    """
    refused = {issue.row for issue in batch.issues}
    kept = np.array([row for row in range(rows) if row not in refused], np.int64)
    store = spelled_graphs(batch.arrays, features, kept)
    trees = MoleculeFeatures.of(batch.arrays) if "counts" in batch.arrays else None
    return Molecules(rows, kept, store, batch.arrays["fingerprint"], batch.issues, batch.arrays["changed"], trees)
