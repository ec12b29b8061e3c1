"""Tables of publishers as benchmarks of molecules: SMILES and labels read, joined and split."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as arrow_csv
import torch
from rdkit import rdBase

from mphil.benchmarks.catalogue import Benchmark
from mphil.chem.row_issue import RowIssue
from mphil.errors import DataError
from mphil.graphs.store import GraphStore
from mphil.tables.splitting import Assignment, IntArray
from mphil.task import Task

SMILES = "smiles"
_GZIP = b"\x1f\x8b"
_BLOCK = 1 << 22
"""Bytes of text that are held as a table at a time."""


@dataclass(frozen=True, eq=False)
class LabelTable:
    """A multi-task table in memory.

    Attributes:
        smiles: (n_rows,) as they stand in the file; a missing one is empty.
        labels: (n_rows, n_tasks) 0, 1 or NaN = missing, as 32-bit floats.
        tasks: (n_tasks,) names of the label columns.
    """

    smiles: list[str]
    labels: npt.NDArray[np.float32]
    tasks: tuple[str, ...]


def read_labels(path: Path, n_tasks: int, ignored: Collection[str] = ()) -> LabelTable:
    """Read a table, plain or compressed with gzip, block by block.

    Args:
        path: the file; its first bytes tell whether it is compressed, whatever its name.
        n_tasks: label columns it must have: all columns but `smiles` and the ignored ones.
        ignored: columns that are not labels.

    Raises:
        DataError: it is not such a table, or a label is neither 0 nor 1 nor missing.
    """
    tasks = tuple(name for name in _header(path) if name != SMILES and name not in ignored)
    if len(tasks) != n_tasks:
        raise DataError(
            f"{path}: {len(tasks)} label columns where {n_tasks} are expected; is it another table, or cut short?"
        )
    smiles: list[str] = []
    labels: list[npt.NDArray[np.float32]] = []
    try:
        for block in _blocks(path, tasks):
            smiles += block.column(SMILES).to_pylist()
            labels.append(np.stack([block.column(t).to_numpy(zero_copy_only=False) for t in tasks], axis=1))
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path}, after row {len(smiles)}: {error}; download it again") from error
    if not smiles:
        raise DataError(f"{path}: no rows")
    table = LabelTable(smiles, np.concatenate(labels), tasks)
    _check(path, table)
    return table


def is_gzip(path: Path) -> bool:
    """Whether the file begins like a gzip file."""
    with path.open("rb") as file:
        return file.read(len(_GZIP)) == _GZIP


def _header(path: Path) -> list[str]:
    try:
        with gzip.open(path) if is_gzip(path) else path.open("rb") as file:
            header = next(csv.reader(io.StringIO(file.readline().decode())), [])
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: unreadable ({error}); download it again") from error
    if SMILES not in header or len(set(header)) != len(header):
        shown = ", ".join(header[:5])
        raise DataError(f"{path}: the first line must name one '{SMILES}' column and no column twice, it is {shown!r}")
    return header


def _blocks(path: Path, tasks: Collection[str]) -> Iterator[pa.RecordBatch]:
    options = arrow_csv.ConvertOptions(
        column_types={SMILES: pa.string()} | dict.fromkeys(tasks, pa.float32()),
        include_columns=[SMILES, *tasks],
        null_values=[""],
    )
    with (
        pa.input_stream(path, compression="gzip" if is_gzip(path) else None) as stream,
        arrow_csv.open_csv(stream, arrow_csv.ReadOptions(block_size=_BLOCK), convert_options=options) as reader,
    ):
        yield from reader


def _check(path: Path, table: LabelTable) -> None:
    for column, name in enumerate(table.tasks):
        label = table.labels[:, column]
        wrong = np.flatnonzero(~((label == 0) | (label == 1) | np.isnan(label)))
        if len(wrong):
            value = label[wrong[0]]
            raise DataError(f"{path}, row {wrong[0] + 1}, column {name}: a label is 0, 1 or empty, not {value:g}")


BINARY_CLASSES = ("inactive", "active")


def molecule_benchmark(
    store: GraphStore,
    issues: Sequence[RowIssue],
    assignment: Assignment,
    domain: IntArray,
    *,
    task: Task,
    encoder: Mapping[str, Any],
    provenance: Mapping[str, Any],
) -> Benchmark:
    """Put the pieces together; the environment and the extra `domain_id` come from the split.

    Args:
        store: the molecules that could be read.
        issues: what is to be said of rows of the source; those excluded are named in the provenance.
        assignment: part and environment of each molecule of the store, with rule and seed.
        domain: (n_graphs,) domain number of each molecule, in all parts.
        task: what is asked.
        encoder: recommended settings.
        provenance: what else is to be known of the split: source, kind of domain.
    """
    origin = {
        **assignment.provenance,
        **provenance,
        "rdkit": rdBase.rdkitVersion,
        "refused_rows": [issue.row for issue in issues if not issue.kept],
        "partially_sanitised_rows": [issue.row for issue in issues if issue.kept],
    }
    return Benchmark(
        task=task,
        store=replace(
            store,
            env=torch.from_numpy(assignment.env),
            extras={**store.extras, "domain_id": torch.from_numpy(domain)},
        ),
        split=replace(assignment, provenance=origin).to_split(),
        encoder=encoder,
        classes=BINARY_CLASSES if task.kind == "binary" else (),
    )
