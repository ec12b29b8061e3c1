"""Benchmarks of one's own: a table or a folder of graphs, and PyG graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from mphil.benchmarks.catalogue import Benchmark, register
from mphil.benchmarks.label_table import molecule_benchmark
from mphil.chem.read_rows import Fact
from mphil.errors import DataError, UnknownName, UsageError
from mphil.graphs.split import PARTS, Split
from mphil.graphs.store import GraphStore
from mphil.progress import row_counter
from mphil.tables.assign import assign, find_domain, in_one_part, is_file
from mphil.tables.cell_values import Target
from mphil.tables.duplicates import settle_duplicates
from mphil.tables.graph_folders import open_graphs, survey_graphs
from mphil.tables.intake import TableOptions, read_table, wanted_task
from mphil.tables.roles import LEAST_ROWS, all_alike, too_few
from mphil.tables.splitting import order_domains
from mphil.tables.survey import Survey
from mphil.task import Task

if TYPE_CHECKING:
    from torch_geometric.data import Data

ENCODER = {"kind": "gin", "layers": 3, "width": 128}
EVERYTHING_FOUND = TableOptions()


@dataclass(frozen=True, eq=False)
class OwnData:
    """A user's file, read and split.

    Attributes:
        benchmark: the graphs and their split.
        survey: what each row of the file is.
        column: of the molecules; empty when the rows are graphs.
        notes: what was done to read the file, such as which sheet of a workbook was taken.
    """

    benchmark: Benchmark
    survey: Survey
    column: str
    notes: tuple[str, ...] = ()


def own_data(
    *,
    path: str = "",
    smiles: str = "",
    targets: tuple[str, ...] = (),
    split: str = "",
    test: str = "",
    date_format: str = "",
    threshold: float | None = None,
    active_below: bool = False,
    standardise: bool = True,
    duplicates: str = "majority",
    id: str = "",
    sheet: str = "",
    task: str = "",
) -> Benchmark:
    """A benchmark from a file.

    Molecules are taken in their canonical spelling, so that the way a row is written changes nothing. Rows that cannot
    be used are named in the provenance of the split.

    Args:
        path: a table (CSV, TSV, parquet, SDF, .smi; also gzip), or a folder of graphs.
        smiles: column of the molecules, found when absent.
        targets: columns of labels, found when absent.
        split: `scaffold`, `cluster`, `size`, `time`, `random`, `predefined`, the name of a column, or a table of parts;
            scaffold for molecules and size for graphs when absent.
        test: an external test set, with the same columns of molecules and labels.
        date_format: of a column of dates to split by, such as `%d/%m/%Y`; found when absent.
        threshold: from which on a measured target is active; not given when the targets are classes.
        active_below: active is at or below the threshold, not at or above.
        standardise: take the largest organic fragment of a molecule, neutral where that is safe.
        duplicates: what becomes of rows of one molecule that contradict each other: `keep`, `drop` or `majority`; of
            measurements, `majority` takes the median.
        id: column that names the rows, found when absent.
        sheet: of a workbook; the first that has molecules when absent.
        task: `classification` or `regression`; by what the targets look like when absent.
    """
    return read_own_data(**table_arguments(locals())).benchmark


def table_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `own_data` as those of `read_own_data`."""
    told = {name: value for name, value in arguments.items() if name in TableOptions.__dataclass_fields__}
    rest = {name: value for name, value in arguments.items() if name not in told}
    return {**rest, "options": TableOptions(**told)}


def read_own_data(
    path: str,
    split: str = "",
    options: TableOptions = EVERYTHING_FOUND,
    date_format: str = "",
    duplicates: str = "majority",
    *,
    features: bool = False,
) -> OwnData:
    """As `own_data`, with all that is known of the rows; the benchmark has no name and no arguments.

    With `features`, the survey has what trees split on.
    """
    if not path:
        raise UsageError("no file given; use `mphil train FILE`, or benchmark.path=FILE")
    split = split or ("size" if Path(path).is_dir() else "scaffold")
    survey, column, notes = read_survey(path, split, options, features=features)
    # The domain of a molecule is found before its rows are merged: it does not depend on which of them stays.
    domain = find_domain(split, survey, date_format)
    if column:
        settled = settle_duplicates(survey, duplicates)
        survey, domain = settled.survey, domain.take(settled.positions) if domain else None
        if not len(survey):
            raise DataError(f"{path}: all rows contradict each other; use --duplicates keep or majority")
    task = check_learnable(path, survey)
    assert survey.graphs is not None
    assignment = in_one_part(assign(split, survey, domain), survey.keys.array())
    values = domain.values if domain else []
    number = {value: n for n, value in enumerate(order_domains(values))}
    domains = torch.tensor([number[value] for value in values] or [-1] * len(survey))
    name = Path(split).name if is_file(split) else split
    made = molecule_benchmark(
        replace(survey.graphs, y=torch.from_numpy(survey.y).float(), index=torch.from_numpy(survey.row)),
        (),
        assignment,
        domains.numpy(),
        task=task,
        encoder=ENCODER,
        provenance={"file": Path(path).name, "split": name, "unusable_rows": [row.row for row in survey.bad]},
    )
    if task.kind == "regression":
        made = replace(made, task=task.standardised(made.store.y[made.split.train]))
    made = replace(made, classes=class_names(survey.targets))
    return OwnData(made, survey, column, notes)


def read_survey(
    path: str, split: str, options: TableOptions, *, features: bool = False
) -> tuple[Survey, str, tuple[str, ...]]:
    """What each row of a file is, duplicates included, with its graph; the column of the molecules; and notes.

    Args:
        path: a table or a folder of graphs.
        split: that will be asked for.
        options: what the owner of a table says about it.
        features: also read what trees split on.
    """
    if Path(path).is_dir():
        if replace(options, task="") != EVERYTHING_FOUND:
            raise UsageError(f"{path}: graphs have no columns; leave out smiles, targets and test")
        graphs = open_graphs(Path(path))
        return replace(survey_graphs(graphs, wanted_task(options.task)), graphs=graphs), "", ()
    also: list[Fact] = ["graph", "fingerprint", "contents"]
    if features:
        also.append("features")
    with row_counter() as counted:
        read = read_table(Path(path), options, [split], also=also, progress=counted)
    return read.survey, read.roles.smiles, read.table.notes


def check_learnable(path: str, survey: Survey) -> Task:
    """What is asked of the rows, refused when nothing could be learned from them.

    Raises:
        DataError: there are too few rows, no labels, or labels that are all alike.
    """
    for target in survey.targets if len(survey.targets) == 1 else ():
        if len(target.classes) == 1:
            raise _alike(path, target)
    task = task_of(path, survey.targets)
    if len(survey) < LEAST_ROWS:
        raise too_few(path, f"{len(survey):,} of {survey.rows:,} rows can be used")
    if task.kind == "regression":
        if not any(len(np.unique(column[~np.isnan(column)])) > 1 for column in survey.y.T):
            raise DataError(f"{path}: all measurements of {survey.targets[0].name!r} are alike: nothing can be learned")
        return task
    if not any(sum(count > 0 for count in target.counts().values()) > 1 for target in survey.targets):
        raise _alike(path, survey.targets[0])
    return task


def _alike(path: str, target: Target) -> DataError:
    label, count = max(target.counts().items(), key=lambda item: item[1])
    return all_alike(path, target.name, label, count)


def class_names(targets: Sequence[Target]) -> tuple[str, ...]:
    """What the classes of every task are called; nothing when several tasks call them differently."""
    names = {target.classes for target in targets}
    return names.pop() if len(names) == 1 else ()


def task_of(path: str, targets: Sequence[Target]) -> Task:
    """What is asked: one binary or multi-class column, several binary ones, or one or more measured ones.

    Raises:
        DataError: there is no label, one that cannot be learned, or classes and measurements together.
    """
    if not targets:
        raise DataError(f"{path}: no column looks like a label; name it with --target")
    for target in targets:
        if target.kind == "text":
            raise DataError(f"{path}: {target.name!r} has too many different words to be classes; name another column")
        if target.kind == "empty":
            raise DataError(f"{path}: {target.name!r} has no label at all; name another column with --target")
    measured = [target.name for target in targets if target.kind == "continuous"]
    if measured and len(measured) < len(targets):
        other = next(target.name for target in targets if target.kind != "continuous")
        raise DataError(
            f"{path}: {measured[0]!r} is measured and {other!r} has classes, and they cannot be learned together; name "
            "columns of one kind with --target, make classes with --threshold, or take all as numbers with --task "
            "regression"
        )
    if measured:
        return Task("regression", len(targets), "rmse" if len(targets) == 1 else "r2")
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


def from_pyg(
    dataset: Iterable[Data],
    *,
    split: str | Mapping[str, Sequence[int] | Tensor] = "size",
    encoder: Mapping[str, Any] | None = None,
) -> Benchmark:
    """A benchmark from any iterable of PyG graphs; the task is found from the labels.

    Args:
        dataset: graphs with `edge_index` and `y` (NaN = missing), and optionally `x`, `edge_attr` and `env`.
        split: `size` (tested on the smallest graphs), `random`, `env` (tested on the last environments), or the
            positions of the graphs of each part; parts that are left out are empty.
        encoder: recommended encoder settings, such as `{"layers": 3, "width": 64}`.

    Raises:
        DataError: the labels are no classes, or the graphs cannot be split that way.

    Example:
        >>> import mphil
        >>> graphs = mphil.benchmark("good-motif-basis", graphs=100).store.to_pyg()
        >>> from_pyg(graphs, split={"train": range(60), "ood_val": range(60, 80), "ood_test": range(80, 100)}).task.kind
        'multiclass'
    """
    store = replace(GraphStore.from_pyg(dataset), smiles=None)
    survey = survey_graphs(store)
    task = task_of("the dataset", survey.targets)
    store = replace(store, y=torch.from_numpy(survey.y).float())
    if isinstance(split, str):
        found = assign(split, survey, find_domain(split, survey))
        found = in_one_part(found, survey.keys.array())
        store = replace(store, env=torch.from_numpy(found.env))
        parts = replace(found, provenance={**found.provenance, "split": split}).to_split()
    else:
        parts = _given(split, len(store))
    return Benchmark(task, store, parts, dict(encoder or {}), class_names(survey.targets))


def _given(parts: Mapping[str, Sequence[int] | Tensor], graphs: int) -> Split:
    """The split that a user has made."""
    for part in parts:
        if part not in PARTS:
            raise UnknownName("part", part, PARTS)
    made = {part: torch.as_tensor(list(parts.get(part, ())), dtype=torch.long) for part in PARTS}
    outside = [part for part, positions in made.items() if len(positions) and int(positions.max()) >= graphs]
    if outside:
        raise DataError(
            f"{outside[0]} has the position {int(made[outside[0]].max())}, the dataset {graphs} graphs counted from 0"
        )
    return Split(**made, provenance={"split": "given"})
