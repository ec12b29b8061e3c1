"""From rows and labels in memory to the data of a training, as if they had been read from a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from mphil.benchmarks.label_table import molecule_benchmark
from mphil.benchmarks.own_data import ENCODER, OwnData
from mphil.chem.row_issue import RowIssue
from mphil.graphs.store import GraphStore
from mphil.model.estimator.holdout import hold_out
from mphil.model.estimator.inputs import InputError, Rows
from mphil.model.estimator.labels import Labels
from mphil.tables.from_smiles import molecule_store
from mphil.tables.labels import Coded
from mphil.tables.splitting import order_domains
from mphil.tables.survey import Described, Survey, describe

SOURCE = "data in Python"
"""What stands where a bundle names the file it was trained on."""


@dataclass(frozen=True)
class Known:
    """What is known of the n rows that can be used.

    Attributes:
        row: (n,) their numbers, from 0.
        keys: (n,) what each is: for molecules the canonical SMILES.
        size: (n,) atoms or nodes.
        scaffold: (n,) of molecules, else None.
        issues: the other rows.
    """

    row: list[int]
    keys: list[str]
    size: list[int]
    scaffold: list[str] | None
    issues: tuple[RowIssue, ...] = ()


def know_rows(rows: Rows) -> Known:
    """Read the rows, without their graphs."""
    if rows.kind == "graphs":
        everything = range(len(rows))
        sizes = [int(graph.num_nodes or 0) for graph in rows.values]
        return Known(list(everything), [str(row) for row in everything], sizes, None)
    found = list(enumerate(describe(rows.values, definite=True)))
    good = [(row, one) for row, one in found if isinstance(one, Described)]
    bad = [replace(one, line=one.number) for _, one in found if isinstance(one, RowIssue)]
    return Known(
        row=[row for row, _ in good],
        keys=[one.canonical for _, one in good],
        size=[one.size for _, one in good],
        scaffold=[one.scaffold for _, one in good],
        issues=tuple(bad),
    )


def gather(
    rows: Rows, known: Known, labels: Labels, groups: Sequence[str] | None, *, share: float, seed: int
) -> OwnData:
    """Graphs, labels, and the parts that are held out.

    Whole domains are held out to choose the epoch: the groups, or else scaffolds of molecules and sizes of graphs.

    Args:
        rows: everything that was given.
        known: the rows that can be used.
        labels: of everything that was given.
        groups: domain of each of the rows that were given, or None.
        share: of the rows that is held out.
        seed: of what is held out at random.

    Raises:
        InputError: too few rows are left.
    """
    row = np.array(known.row, np.int64)
    y = labels.y[row]
    if len(row) < 4:
        raise InputError(f"{len(row)} row(s) can be used, and no training can be checked with fewer than 4")
    store = _store(rows, known, y)
    if groups is not None:
        split, domains = "groups", [groups[one] for one in known.row]
    elif known.scaffold is not None:
        split, domains = "scaffold", known.scaffold
    else:
        split, domains = "size", [str(size) for size in known.size]
    rank = {value: number for number, value in enumerate(order_domains(domains))}
    made = molecule_benchmark(
        replace(store, index=torch.from_numpy(row)),
        (),
        hold_out(domains, known.keys, labels.strata(row), share, seed),
        np.array([rank[value] for value in domains], np.int64),
        task=labels.task,
        encoder=ENCODER,
        provenance={"file": SOURCE, "split": split},
    )
    if labels.task.kind == "regression":
        made = replace(made, task=labels.task.standardised(made.store.y[made.split.train]))
    survey = Survey(
        rows=len(rows),
        row=row,
        line=row + 1,
        keys=_coded(known.keys),
        size=np.array(known.size, np.int64),
        scaffold=None if known.scaffold is None else _coded(known.scaffold),
        targets=labels.targets(row),
        bad=known.issues,
    )
    benchmark = replace(made, name="own-data", classes=labels.names if labels.task.kind != "multitask" else ())
    return OwnData(benchmark, survey, "smiles" if rows.kind == "molecules" else "", known.issues)


def _store(rows: Rows, known: Known, y: np.ndarray) -> GraphStore:
    """The graphs of the usable rows; molecules in their canonical spelling."""
    if rows.kind == "graphs":
        return replace(rows.store(), y=torch.from_numpy(y).float(), smiles=None)
    store, lost = molecule_store(known.keys, y)
    if lost:
        raise InputError(f"row {known.row[lost[0].row]}: {lost[0].message}; leave this molecule out")
    return store


def _coded(texts: Sequence[str]) -> Coded:
    column = Coded()
    column.extend(texts)
    return column
