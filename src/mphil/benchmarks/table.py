"""Anybody's own data, through the same door as the benchmarks: a table of molecules or a folder of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from mphil.benchmarks.base import Benchmark, register
from mphil.benchmarks.molecules import molecule_benchmark
from mphil.data.assign import RULES, assign, find_domain
from mphil.data.graphs import open_graphs, survey_graphs
from mphil.data.labels import Target
from mphil.data.molecules import RowStatus, molecule_store
from mphil.data.progress import row_counter
from mphil.data.roles import find_roles
from mphil.data.splitting import Assignment, order_domains
from mphil.data.store import GraphStore
from mphil.data.survey import BadRow, Survey, survey_table
from mphil.data.table import open_table
from mphil.errors import DataError, UsageError
from mphil.task import Task

ENCODER = {"kind": "gin", "layers": 3, "width": 128}


@dataclass(frozen=True, eq=False)
class OwnData:
    """Somebody's file, read and split.

    Attributes:
        benchmark: the graphs and their split.
        survey: what each row of the file is.
        column: of the molecules; empty when the rows are graphs.
        issues: the rows that were set aside, in order.
    """

    benchmark: Benchmark
    survey: Survey
    column: str
    issues: tuple[BadRow, ...]


def own_data(*, path: str = "", smiles: str = "", targets: tuple[str, ...] = (), split: str = "") -> Benchmark:
    """A benchmark from a file.

    Molecules are taken in their canonical spelling, so that the way a row is written changes nothing. Rows that cannot
    be used are named in the provenance of the split.

    Args:
        path: a table (CSV, TSV, parquet, SDF, .smi; also gzip), or a folder of graphs.
        smiles: column of the molecules, found when absent.
        targets: columns of labels, found when absent.
        split: `scaffold`, `size`, `random`, `predefined` or the name of a column; scaffold for molecules and size for
            graphs when absent.
    """
    return read_own_data(path, smiles, targets, split).benchmark


def read_own_data(path: str, smiles: str = "", targets: Sequence[str] = (), split: str = "") -> OwnData:
    """As `own_data`, with all that is known of the rows; the benchmark has no name and no arguments."""
    if not path:
        raise UsageError("no file given; use `mphil train FILE`, or benchmark.path=FILE")
    column = ""
    if Path(path).is_dir():
        if smiles or targets:
            raise UsageError(f"{path}: graphs have no columns; leave out smiles and targets")
        graphs = open_graphs(Path(path))
        survey, split = survey_graphs(graphs), split or "size"
        store = replace(graphs, y=torch.from_numpy(survey.y).float(), index=torch.arange(len(graphs)))
        rows = [RowStatus(row, "ok") for row in range(len(store))]
    else:
        split = split or "scaffold"
        survey, column = _survey(Path(path), smiles, targets, [] if split in RULES else [split])
        store, rows = molecule_store(survey.keys.values(), survey.y)
    domain = find_domain(split, survey)
    assignment = _kept(assign(split, survey, domain), store)
    number = {value: n for n, value in enumerate(order_domains(domain or []))}
    domains = torch.tensor([number[value] for value in domain] if domain else [-1] * len(survey))[store.index]
    made = molecule_benchmark(
        replace(store, index=torch.from_numpy(survey.row)[store.index]),
        rows,
        assignment,
        domains.numpy(),
        task=task_of(path, survey.targets),
        encoder=ENCODER,
        provenance={"file": Path(path).name, "split": split, "unusable_rows": [row.row for row in survey.bad]},
    )
    made = replace(made, classes=survey.targets[0].classes if len(survey.targets) == 1 else ())
    return OwnData(made, survey, column, _issues(survey, rows))


def _issues(survey: Survey, rows: Sequence[RowStatus]) -> tuple[BadRow, ...]:
    """What was set aside when the table was read, and when its molecules became graphs."""
    lost = [
        BadRow(int(survey.row[one.row]), int(survey.line[one.row]), one.status, one.message)
        for one in rows
        if not one.kept
    ]
    return tuple(sorted([*survey.bad, *lost], key=lambda bad: bad.row))


def _survey(path: Path, smiles: str, targets: Sequence[str], columns: Sequence[str]) -> tuple[Survey, str]:
    """What each row is, and the column of the molecules."""
    table = open_table(path)
    roles = find_roles(table, smiles=smiles or None, targets=targets, domains=columns)
    with row_counter() as counted:
        survey = survey_table(table, roles, progress=counted)
    if not len(survey):
        first = f"; the first: {survey.bad[0].message}" if survey.bad else ""
        raise DataError(f"{path}: none of the {survey.rows:,} rows can be used{first}")
    return survey, roles.smiles


def _kept(assignment: Assignment, store: GraphStore) -> Assignment:
    """The assignment of the rows that became graphs."""
    kept = store.index.numpy()
    return replace(assignment, part=assignment.part[kept], env=assignment.env[kept])


def task_of(path: str, targets: Sequence[Target]) -> Task:
    """What is asked: one binary or multi-class column, or several binary ones.

    Raises:
        DataError: there is no label, or one that cannot be learned as a class.
    """
    if not targets:
        raise DataError(f"{path}: no column looks like a label; name it with --target")
    for target in targets:
        if target.kind == "continuous":
            raise DataError(f"{path}: {target.name!r} is a measurement, not a class; give a column of classes")
        if target.kind == "empty":
            raise DataError(f"{path}: {target.name!r} has no label at all; name another column with --target")
    if len(targets) == 1 and targets[0].kind == "multiclass":
        return Task("multiclass", len(targets[0].classes), "accuracy")
    several = [target.name for target in targets if target.kind == "multiclass"]
    if several:
        raise DataError(
            f"{path}: {several[0]!r} has more than two classes, and several columns are learned together only when "
            "each is yes or no; name one column with --target"
        )
    return Task("binary", 1, "roc_auc") if len(targets) == 1 else Task("multitask", len(targets), "roc_auc")


register(
    "own-data",
    own_data,
    summary="your own table of molecules or folder of graphs: `mphil train FILE`",
    source="your file",
)
