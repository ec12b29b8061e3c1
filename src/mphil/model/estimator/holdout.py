"""From rows and labels in memory to the data of a training, as if they had been read from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mphil.benchmarks.label_table import molecule_benchmark
from mphil.benchmarks.own_data import ENCODER, OwnData
from mphil.chem.read_rows import texts
from mphil.chem.row_issue import RowIssue
from mphil.graphs.store import GraphStore
from mphil.model.estimator.inputs import InputError, Labels, Rows
from mphil.tables.cell_values import Coded
from mphil.tables.from_smiles import spelled_graphs
from mphil.tables.pool import run
from mphil.tables.splitting import (
    ENVIRONMENTS,
    ID_VAL,
    OOD_VAL,
    TRAIN,
    Assignment,
    IntArray,
    cut_between_domains,
    order_domains,
)
from mphil.tables.survey import DESCRIBED, FACTS, Survey


def hold_out(
    domains: Sequence[str], keys: Sequence[str], y: NDArray[np.float64], share: float, seed: int
) -> Assignment:
    """Two validation parts of about equal size; everything else is for training.

    `ood_val` has the last domains, which training then never sees; it is empty when the last domain is too large, or
    when a class would be missing from training. `id_val` is drawn at random, a share of every class. Rows of equal key
    stay together. The training domains are cut into environments along their order.

    Args:
        domains: (n,) domain of each row.
        keys: (n,) what each row is.
        y: (n, tasks) labels, NaN = missing.
        share: of the rows that is held out.
        seed: of the random part.

    Example:
        >>> y = np.array([[0.0], [1.0]] * 10)
        >>> made = hold_out(list("aaaaaaaaaaaaaaaaaazz"), [str(row) for row in range(20)], y, 0.2, 0)
        >>> np.bincount(made.part).tolist()
        [16, 2, 0, 2]
    """
    rank = {value: number for number, value in enumerate(order_domains(domains))}
    number = np.array([rank[value] for value in domains], np.int64)
    walk = np.argsort(number, kind="stable")
    size = max(1, round(share / 2 * len(keys)))
    part = np.full(len(keys), TRAIN)
    part[walk[cut_between_domains(number[walk], [len(keys) - size]) == 1]] = OOD_VAL
    if _classes(y[part == TRAIN]) != _classes(y):
        part[:] = TRAIN
    pool = walk[part[walk] == TRAIN]
    env = np.full(len(keys), -1)
    step = max(1, len(pool) // ENVIRONMENTS)
    env[pool] = cut_between_domains(number[pool], [step * count for count in range(1, ENVIRONMENTS)])
    part[_drawn(pool, keys, y, size / max(1, len(pool)), seed)] = ID_VAL
    return Assignment(part, env, {"rule": "held out in fit", "share": share, "seed": seed, "rows": len(keys)})


def _drawn(pool: IntArray, keys: Sequence[str], y: NDArray[np.float64], share: float, seed: int) -> list[int]:
    """Rows drawn from the pool, at least one of every class that has two; several tasks count as one class."""
    owners: dict[str, list[int]] = {}
    for row in sorted(pool.tolist(), key=lambda row: keys[row]):
        owners.setdefault(keys[row], []).append(row)
    strata: dict[float, list[str]] = {}
    for key, rows in owners.items():
        strata.setdefault(float(y[rows[0], 0]) if y.shape[1] == 1 else 0.0, []).append(key)
    random = np.random.default_rng(seed)
    drawn: list[int] = []
    for label in sorted(strata):
        members = strata[label]
        count = min(len(members) - 1, max(1, round(share * len(members))))
        drawn += [row for place in random.permutation(len(members))[:count] for row in owners[members[place]]]
    return drawn


def _classes(y: NDArray[np.float64]) -> set[tuple[int, float]]:
    """The classes that occur in each task."""
    return {(task, float(label)) for task, column in enumerate(y.T) for label in np.unique(column[~np.isnan(column)])}


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
        graphs: the n graphs, without labels.
        facts: what else is known of molecules, as in `Survey`.
        issues: the other rows.
    """

    row: NDArray[np.int64]
    keys: list[str]
    size: NDArray[np.int64]
    scaffold: list[str] | None
    graphs: GraphStore
    facts: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    issues: tuple[RowIssue, ...] = ()


def know_rows(rows: Rows, *, features: bool = False) -> Known:
    """Read the rows; `features` are wanted where there will be trees."""
    if rows.kind == "graphs":
        store = replace(rows.store(), smiles=None)
        number = np.arange(len(rows))
        return Known(number, list(map(str, number)), store.n_nodes.numpy(), None, store)
    wanted = [*DESCRIBED, "graph", "fingerprint", *(["features"] if features else [])]
    batch = run([text.strip() for text in rows.values], {"wanted": wanted, "definite": True})
    number, arrays = np.setdiff1d(np.arange(len(rows)), [issue.row for issue in batch.issues]), batch.arrays
    return Known(
        row=number,
        keys=texts(arrays, "canonical"),
        size=arrays["size"],
        scaffold=texts(arrays, "scaffold"),
        graphs=spelled_graphs(arrays, "good", number),
        facts={name: arrays[name] for name in FACTS if name in arrays},
        issues=tuple(replace(issue, line=issue.number) for issue in batch.issues),
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
    row = known.row
    if len(row) < 4:
        raise InputError(f"{len(row)} row(s) can be used, and no training can be checked with fewer than 4")
    if groups is not None:
        split, domains = "groups", [groups[one] for one in row.tolist()]
    elif known.scaffold is not None:
        split, domains = "scaffold", known.scaffold
    else:
        split, domains = "size", [str(size) for size in known.size.tolist()]
    rank = {value: number for number, value in enumerate(order_domains(domains))}
    made = molecule_benchmark(
        replace(known.graphs, y=torch.from_numpy(labels.y[row]).float(), index=torch.from_numpy(row)),
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
        size=known.size,
        scaffold=None if known.scaffold is None else _coded(known.scaffold),
        targets=labels.targets(row),
        bad=known.issues,
        facts=known.facts,
    )
    benchmark = replace(made, name="own-data", classes=labels.names if labels.task.kind != "multitask" else ())
    return OwnData(benchmark, survey, "smiles" if rows.kind == "molecules" else "")


def _coded(texts: Sequence[str]) -> Coded:
    column = Coded()
    column.extend(texts)
    return column
