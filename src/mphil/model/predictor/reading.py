"""What a predictor is asked about: rows of SMILES, DataFrames, and graphs of every form that people have them in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mphil.chem.read_rows import ReadBatch
from mphil.chem.row_issue import RowIssue
from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.features import Features
from mphil.graphs.store import GraphStore
from mphil.model.committee.trees import MoleculeFeatures
from mphil.tables.from_smiles import spelled_graphs, with_descriptors

if TYPE_CHECKING:
    import pandas as pd
    from torch_geometric.data import Data

    from mphil.model.predictor.core import Predictor


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
        features: what trees split on; None when no model needs it.
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
    trees = None
    if "counts" in batch.arrays:
        store, trees = with_descriptors(store, batch.arrays), MoleculeFeatures.of(batch.arrays)
    return Molecules(rows, kept, store, batch.arrays["fingerprint"], batch.issues, batch.arrays["changed"], trees)


def as_graphs(given: GraphStore | Sequence[Data] | Sequence[str], encoder: EncoderConfig) -> GraphStore | None:
    """A store of the graphs that were given: a store, or PyG graphs; None if they are none, but SMILES.

    Args:
        given: what a user wants to be answered about.
        encoder: what the model was trained on; plain graphs do not say by which scheme their features were made.
    """
    if isinstance(given, GraphStore):
        return given
    if isinstance(given, str) or not len(given) or isinstance(given[0], str) or not hasattr(given[0], "edge_index"):
        return None
    store = GraphStore.from_pyg(cast("Sequence[Data]", given))
    return replace(
        store,
        node_features=_understood(store.node_features, store.x, encoder.node),
        edge_features=_understood(store.edge_features, store.edge_attr, encoder.edge),
    )


def _understood(found: Features, values: Tensor | None, wanted: Features) -> Features:
    """What a tensor carries, in the words of the training where that is possible: a column of ones may say nothing."""
    if found.kind == wanted.kind:
        return replace(found, schema=wanted.schema)
    ones = values is not None and wanted.kind == "constant" and bool((values == 1).all())
    return wanted if ones and found.width == wanted.width else found


def is_frame(given: object) -> bool:
    """Whether this is a DataFrame; pandas need not be there to say no."""
    return type(given).__module__.partition(".")[0] == "pandas" and hasattr(given, "columns")


def predict_frame(
    predictor: Predictor, table: pd.DataFrame, smiles: str | None, id: str | None, workers: int | None
) -> pd.DataFrame:
    """A row of answers for every row, see `Predictions.columns`.

    Args:
        predictor: who answers.
        table: with a column of molecules.
        smiles: its name; None takes the name it had in training.
        id: a column whose values are the index of the answers; None keeps the index of the table.
        workers: as for `Predictor.predict`.

    Raises:
        UsageError: a column is not there, or is there twice.
    """
    import pandas as pd

    reading = predictor.bundle.config.molecules
    column = smiles or (reading.column if reading is not None else "smiles")
    for option, name in (("smiles", column), *([] if id is None else [("id", id)])):
        found = list(table.columns).count(name)
        if found != 1:
            have = ", ".join(map(str, table.columns))
            said = f"no column {name!r}" if not found else f"{found} columns {name!r}"
            raise UsageError(f'the table has {said} (columns: {have}); name one with {option}="..."')
    answers = predictor.predict(table[column].tolist(), workers=workers)
    index = table.index if id is None else pd.Index(table[id], name=id)
    return pd.DataFrame(answers.columns(), index=index)
