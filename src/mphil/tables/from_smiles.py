"""SMILES in, graph store out: rows that fail are reported, never dropped in silence."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from rdkit import rdBase
from torch import Tensor

from mphil import limits
from mphil.chem.describe import FEATURES_NAME
from mphil.chem.read_rows import texts
from mphil.chem.row_issue import RowIssue
from mphil.chem.schema import SCHEMAS
from mphil.errors import DataError, UnknownName, UsageError
from mphil.graphs.cache import Entry, remember
from mphil.graphs.features import Features
from mphil.graphs.store import DERIVED, GraphStore, pointer
from mphil.progress import row_bar
from mphil.tables.pool import LOST, SMALL, Rows, run

FORMAT = 2
"""Version of what is cached; a change of the arrays or of their meaning is a new one."""


def molecule_store(
    smiles: Sequence[str],
    y: ArrayLike | Tensor | None,
    *,
    env: ArrayLike | Tensor | None = None,
    schema: Literal["good", "drugood"] = "good",
    lenient: bool = False,
    workers: int | None = None,
    extras: Mapping[str, ArrayLike | Tensor] | None = None,
    progress: bool = True,
) -> tuple[GraphStore, list[RowIssue]]:
    """Read and featurise molecules, in several processes when there are many.

    The graphs are kept in the cache under the hash of the SMILES and of everything else they depend on, so that the
    second time costs the reading of a file. Labels are not part of that.

    Args:
        smiles: one molecule a row.
        y: (n_rows,) or (n_rows, n_tasks) labels, NaN = missing; None when there are none.
        env: (n_rows,) environment numbers, -1 = unknown.
        schema: which features.
        lenient: keep molecules with a valence that RDKit does not know.
        workers: processes; 0 works in this one, None chooses by the number of rows and cores.
        extras: further values, a row each.
        progress: show a bar when there is a terminal.

    Returns:
        the store of the rows that could be read, whose `index` is the row number, and the issues of the rows that could
        not, or only in part.

    Example:
        >>> store, issues = molecule_store(["CCO", "C C"], [1, 0])
        >>> store.index.tolist(), [(issue.row, issue.status) for issue in issues]
        ([0], [(1, 'whitespace')])
    """
    if schema not in SCHEMAS:
        raise UnknownName("feature schema", schema, SCHEMAS)
    rows = _texts(smiles)
    values = {
        "y": torch.full((len(rows), 1), float("nan")) if y is None else _labels(y),
        "env": torch.full((len(rows),), -1) if env is None else torch.as_tensor(np.asarray(env)).long(),
        **{_row_name(name): torch.as_tensor(np.asarray(value)) for name, value in (extras or {}).items()},
    }
    for name, value in values.items():
        if len(value) != len(rows):
            raise DataError(f"{name} has {len(value)} rows, the SMILES are {len(rows)}; give one for each")
    found = _ask("graphs", rows, {"wanted": ["graph"], "schema": schema, "lenient": lenient}, workers, progress)
    issues = [RowIssue(*issue) for issue in found.report]
    refused = {issue.row for issue in issues if not issue.kept}
    kept = torch.tensor([row for row in range(len(rows)) if row not in refused], dtype=torch.long)
    if len(kept) < len(rows):
        values = {name: value[kept] for name, value in values.items()}
    store = graph_store(
        found.arrays,
        schema,
        y=values.pop("y"),
        env=values.pop("env"),
        index=kept,
        extras=values,
        smiles=[smiles[row] for row in kept.tolist()],
    )
    return store, issues


def graph_store(arrays: Mapping[str, NDArray[Any]], schema: str, **facts: Any) -> GraphStore:
    """Graphs that were read as a store.

    Args:
        arrays: `x`, `edge_index`, `edge_attr`, `n_nodes` and `n_edges` of all molecules, one behind the other.
        schema: short name of the feature set.
        facts: what else the store holds of each molecule: `y`, `env`, `index`, `smiles`, `extras`.
    """
    x, edge_index, edge_attr, n_nodes, n_edges = (
        torch.from_numpy(arrays[name]) for name in ("x", "edge_index", "edge_attr", "n_nodes", "n_edges")
    )
    chosen = SCHEMAS[schema]
    return GraphStore(
        x=x,
        edge_index=edge_index,
        edge_attr=edge_attr,
        node_ptr=pointer(n_nodes),
        edge_ptr=pointer(n_edges),
        node_features=Features(chosen.kind, chosen.atom_sizes, chosen.name),
        edge_features=Features(chosen.kind, chosen.bond_sizes, chosen.name),
        **facts,
    )


def spelled_graphs(arrays: dict[str, NDArray[Any]], schema: str, index: NDArray[np.int64]) -> GraphStore:
    """Graphs of molecules in their canonical spelling, without labels.

    Args:
        arrays: of rows of which the spelling and the graph were wanted.
        schema: short name of the feature set.
        index: (n,) number of each.
    """
    return graph_store(
        arrays,
        schema,
        y=torch.full((len(index), 1), float("nan")),
        env=torch.full((len(index),), -1),
        index=torch.from_numpy(index),
        smiles=texts(arrays, "canonical"),
    )


def molecule_features(
    smiles: Sequence[str], *, workers: int | None = None, progress: bool = True
) -> dict[str, NDArray[Any]]:
    """Counts of neighbourhoods and descriptors of molecules that were read before, as `mphil.chem.describe` has them.

    Processes and cache are used as by `molecule_store`.

    Raises:
        DataError: one of them cannot be read.
    """
    found = _ask("features", list(smiles), {"wanted": ["features"], "lenient": True}, workers, progress)
    refused = [issue for issue in (RowIssue(*one) for one in found.report) if not issue.kept]
    if refused:
        raise DataError(f"molecule {refused[0].row + 1} of {len(smiles)} has no descriptors: {refused[0].message}")
    return found.arrays


def with_descriptors(store: GraphStore, arrays: Mapping[str, NDArray[Any]] | None = None) -> GraphStore:
    """The same molecules in a store whose batches also hold what describes each of them as a whole.

    Args:
        store: of molecules; one that has descriptors is returned as it is.
        arrays: `counts` and `descriptors` of all of them, if they were read with the molecules.

    Raises:
        UsageError: the graphs are no molecules.
        DataError: a molecule cannot be read.
    """
    if all(name in store.extras for name in DERIVED):
        return store
    if arrays is None:
        if store.smiles is None:
            raise UsageError("descriptors are of molecules, and these graphs are none; use method.descriptors=false")
        arrays = molecule_features(store.smiles)
    return replace(store, extras={**store.extras, **{name: torch.from_numpy(arrays[name]) for name in DERIVED}})


def molecule_scaffolds(
    smiles: Sequence[str], *, lenient: bool = False, workers: int | None = None, progress: bool = True
) -> list[str | None]:
    """The Bemis-Murcko scaffold of each row, empty for a molecule without rings and None for a row that is refused.

    Processes and cache are used as by `molecule_store`.

    Example:
        >>> molecule_scaffolds(["Cc1ccccc1", "CCO", "C C"])
        ['c1ccccc1', '', None]
    """
    rows = _texts(smiles)
    found = _ask("scaffolds", rows, {"wanted": ["scaffold"], "lenient": lenient}, workers, progress)
    parts = iter(texts(found.arrays, "scaffold"))
    issues = (RowIssue(*issue) for issue in found.report)
    refused = {issue.row for issue in issues if not issue.kept}
    return [None if row in refused else next(parts) for row in range(len(rows))]


def _ask(kind: str, rows: Rows, options: Mapping[str, Any], workers: int | None, progress: bool) -> Entry:
    """What is wanted of rows, from the cache when it is there."""
    if workers is not None and workers < 0:
        raise UsageError(f"workers must be 0 or more, not {workers}")

    def build() -> Entry:
        with row_bar(f"reading {kind}", len(rows), progress and len(rows) > SMALL) as advance:
            batch = run(rows, options, workers=workers, advance=advance)
        lasting = not any(issue.status in LOST for issue in batch.issues)
        return Entry(batch.arrays, list(map(astuple, batch.issues)), lasting)

    return build() if len(rows) <= SMALL else remember(kind, _key(rows, options), build)


def _key(rows: Rows, options: Mapping[str, Any]) -> str:
    """Hash of all that an answer depends on."""
    bounds = [limits.MAX_SMILES_LENGTH, limits.MAX_ATOMS, limits.MAX_CHARGE]
    facts = {"format": FORMAT, "rdkit": rdBase.rdkitVersion, "options": dict(options), "limits": bounds}
    if "features" in options["wanted"]:
        facts["features"] = FEATURES_NAME
    if "schema" in options:
        facts["schema"] = SCHEMAS[options["schema"]].name
    encoded = [text.encode("utf-8", "surrogatepass") for text in rows]
    sha = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    sha.update(np.array([len(data) for data in encoded], "<i8").tobytes())
    sha.update(b"".join(encoded))
    return sha.hexdigest()


def _texts(smiles: Sequence[str]) -> list[str]:
    """Rows as text; whatever else a table may hold (None, NaN, a number) is a row with nothing in it."""
    if isinstance(smiles, str):
        raise UsageError("molecules come as a sequence of SMILES; for a single one, put it into a list")
    return [text if isinstance(text, str) else "" for text in smiles]


def _labels(y: ArrayLike | Tensor) -> Tensor:
    labels = torch.as_tensor(np.asarray(y), dtype=torch.float32)
    return labels.unsqueeze(1) if labels.dim() == 1 else labels


def _row_name(name: str) -> str:
    if name.startswith(("node_", "edge_")) or name in ("y", "env"):
        raise UsageError(f"{name!r} cannot be the name of a value per row; choose another")
    return name
