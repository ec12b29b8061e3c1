"""Rows of SMILES as graphs that a model can be asked about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mphil.chem.batch import Batch, Issue
from mphil.chem.schema import SCHEMAS
from mphil.data.features import Features
from mphil.data.store import GraphStore, pointer

JOB = "molecules"
"""What the processes that read rows are asked for."""


@dataclass(frozen=True, eq=False)
class Molecules:
    """Rows that were read, of which k hold a molecule.

    Attributes:
        rows: how many there are.
        kept: (k,) numbers of the rows with a molecule, ascending.
        store: the k graphs in that order; their `smiles` are canonical.
        fingerprints: (k, bytes) packed bits.
        issues: the other rows, each with a code and a sentence.
    """

    rows: int
    kept: NDArray[np.int64]
    store: GraphStore
    fingerprints: NDArray[np.uint8]
    issues: Sequence[Issue]


def cleaned(smiles: Sequence[object]) -> list[str]:
    """Rows as text without blanks around them; whatever is no text (None, NaN, a number) is an empty row."""
    return [text.strip() if isinstance(text, str) else "" for text in smiles]


def as_molecules(batch: Batch, rows: int, features: str) -> Molecules:
    """The answer to the job `molecules` as a graph store.

    Args:
        batch: the answer.
        rows: how many rows were asked about.
        features: short name of the feature set.
    """
    refused = {issue.row for issue in batch.issues}
    kept = np.array([row for row in range(rows) if row not in refused], np.int64)
    arrays = {name: torch.from_numpy(array) for name, array in batch.arrays.items() if name not in ("canonical",)}
    text, ends = batch.arrays["canonical"].tobytes().decode("ascii"), np.cumsum(batch.arrays["canonical_length"])
    schema = SCHEMAS[features]
    store = GraphStore(
        x=arrays["x"],
        edge_index=arrays["edge_index"],
        edge_attr=arrays["edge_attr"],
        node_ptr=pointer(arrays["n_nodes"]),
        edge_ptr=pointer(arrays["n_edges"]),
        y=torch.full((len(kept), 1), float("nan")),
        env=torch.full((len(kept),), -1),
        index=torch.from_numpy(kept),
        node_features=Features(schema.kind, schema.atom_sizes, schema.name),
        edge_features=Features(schema.kind, schema.bond_sizes, schema.name),
        smiles=[text[start:end] for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=False)],
    )
    return Molecules(rows, kept, store, batch.arrays["fingerprint"], batch.issues)
