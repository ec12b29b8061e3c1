"""Development tables: small tables like users' own, on whose validation parts a training recipe is chosen.

They are made from the same publishers' files as the benchmarks, and featurised as by `mphil train FILE`. Rows that
benchmarks are tested on are left out: both OOD test parts of GOOD-HIV, that of the same file for EC50, and that of the
assay split for IC50-partial; ToxCast and MUV are drawn from whole files. Nothing but the file decides what is in a
table: rows are drawn by a hash of their SMILES.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from mphil.benchmarks.catalogue import Benchmark, register
from mphil.benchmarks.drugood import read_partial, read_published
from mphil.benchmarks.good_split import TEST
from mphil.benchmarks.label_table import molecule_benchmark, read_labels
from mphil.benchmarks.moleculenet import HIV, MUV, TOXCAST, pinned_index
from mphil.benchmarks.own_data import ENCODER
from mphil.benchmarks.sources import SOURCES, Located, locate
from mphil.tables.from_smiles import molecule_store
from mphil.tables.splitting import OOD_TEST, Assignment, at_random, by_domain, by_group, order_domains, shuffled
from mphil.tables.survey import Described, describe
from mphil.task import Task

FloatArray = NDArray[np.float64]

Split = Literal["scaffold", "size", "assay", "random"]


@dataclass(frozen=True)
class TableSpec:
    """A development table.

    Attributes:
        source: its file, as the data sources call it.
        rows: how many are drawn, at most; of those that can be read.
        split: how they are divided: groups (`scaffold`, `assay`) by `by_group`, sizes by `by_domain`, or at random.
        labels: columns that are its labels; without any, whether one of all columns is positive.
        positives: share of positive rows to draw; None takes them as they come.
    """

    source: str
    rows: int
    split: Split
    labels: tuple[str, ...] = ()
    positives: float | None = None


TABLES: Mapping[str, TableSpec] = {
    "dev-toxcast-er-scaffold": TableSpec("toxcast", 1_200, "scaffold", ("NVS_NR_hER",)),
    "dev-toxcast-t47d-scaffold": TableSpec("toxcast", 1_800, "scaffold", ("ACEA_T47D_80hr_Negative",)),
    "dev-toxcast-pxre-size": TableSpec("toxcast", 2_500, "size", ("ATG_PXRE_CIS_up",)),
    "dev-toxcast-hepg2-random": TableSpec("toxcast", 500, "random", ("APR_HepG2_CellLoss_72h_dn",)),
    "dev-toxcast-8-scaffold": TableSpec(
        "toxcast",
        2_500,
        "scaffold",
        (
            "ATG_ERE_CIS_up",
            "ATG_PPARg_TRANS_up",
            "BSK_SAg_Proliferation_down",
            "TOX21_ARE_BLA_agonist_ratio",
            "TOX21_AhR_LUC_Agonist",
            "TOX21_AR_LUC_MDAKB2_Antagonist2",
            "TOX21_ERa_LUC_BG1_Agonist",
            "TOX21_MMP_ratio_down",
        ),
    ),
    "dev-hiv-scaffold": TableSpec("hiv", 1_000, "scaffold", positives=0.2),
    "dev-hiv-size": TableSpec("hiv", 3_000, "size", positives=0.15),
    "dev-muv-scaffold": TableSpec("muv", 2_000, "scaffold", positives=0.2),
    "dev-ec50-scaffold": TableSpec("drugood-ec50-scaffold", 1_500, "scaffold"),
    "dev-ec50-assay": TableSpec("drugood-ec50-assay", 3_000, "assay"),
    "dev-ec50-size": TableSpec("drugood-ec50-size", 2_000, "size"),
    "dev-ic50-scaffold": TableSpec("ic50-partial", 4_000, "scaffold", positives=0.7),
    "dev-ic50-assay": TableSpec("ic50-partial", 2_000, "assay", positives=0.7),
    "dev-ic50-size": TableSpec("ic50-partial", 1_000, "size", positives=0.7),
}


@dataclass(frozen=True, eq=False)
class Candidates:
    """The rows of a file that a table may be drawn from.

    Attributes:
        row: (n,) row numbers in the file.
        smiles: (n,) as they stand in the file.
        y: (n, tasks) 0, 1 or NaN = missing.
        domain: (n,) the published domain, in text: the assay in the files that are split by assays.
    """

    row: NDArray[np.int64]
    smiles: list[str]
    y: FloatArray
    domain: list[str]

    def take(self, positions: NDArray[np.int64]) -> Candidates:
        """The rows at these positions."""
        smiles = [self.smiles[p] for p in positions]
        return Candidates(self.row[positions], smiles, self.y[positions], [self.domain[p] for p in positions])


def build(spec: TableSpec) -> Benchmark:
    """Read the file, draw the rows, featurise and split them.

    Raises:
        DataError: the file is missing or is another one.
    """
    located = locate(spec.source)
    drawn = draw(candidates(spec, located), spec)
    facts = describe(drawn.smiles, workers=0)
    usable = np.array([row for row, fact in enumerate(facts) if isinstance(fact, Described)])
    kept, found = drawn.take(usable), [fact for fact in facts if isinstance(fact, Described)]
    store, rows = molecule_store([fact.canonical for fact in found], kept.y)
    assignment, number = divide(spec.split, found, kept)
    n_tasks = kept.y.shape[1]
    return molecule_benchmark(
        replace(store, index=torch.from_numpy(kept.row)[store.index]),
        rows,
        assignment,
        number,
        task=Task("binary", 1, "roc_auc") if n_tasks == 1 else Task("multitask", n_tasks, "roc_auc"),
        encoder=ENCODER,
        provenance={
            "source": located.provenance(),
            "split": spec.split,
            "labels": list(spec.labels),
            "unusable_rows": np.setdiff1d(drawn.row, kept.row).tolist(),
        },
    )


def candidates(spec: TableSpec, located: Located) -> Candidates:
    """The labelled rows of the file that may be drawn."""
    table = next((table for table in (HIV, MUV, TOXCAST) if table.source == spec.source), None)
    if table is None:
        partial = spec.source == "ic50-partial"
        molecules, domain, published = (
            read_partial(located.path, "assay", seed=0) if partial else read_published(located.path)
        )
        y, smiles, domains = molecules.active[:, None].astype(np.float64), molecules.smiles, domain.tolist()
        free = published.part != OOD_TEST
    else:
        found = read_labels(located.path, table.n_tasks, table.ignored)
        y, smiles = _labels(found.labels.astype(np.float64), found.tasks, spec.labels), found.smiles
        domains, free = [""] * len(smiles), ~np.isnan(y).all(1)
        if table is HIV:
            for index in (pinned_index("scaffold"), pinned_index("size")):
                free &= index.blocks.block != TEST
    return Candidates(np.arange(len(y)), smiles, y, list(map(str, domains))).take(np.flatnonzero(free))


def _labels(y: FloatArray, tasks: tuple[str, ...], wanted: tuple[str, ...]) -> FloatArray:
    """The wanted columns; without any, whether one of all columns is positive."""
    if wanted:
        return y[:, [tasks.index(name) for name in wanted]]
    positive: FloatArray = np.nanmax(y, axis=1, keepdims=True)
    return positive


def draw(rows: Candidates, spec: TableSpec) -> Candidates:
    """Draw the rows of a table, in the order of the file."""
    _, order = shuffled(rows.smiles, 0, "development table")
    if spec.positives is None:
        chosen = order[: spec.rows]
    else:
        positive = round(spec.positives * spec.rows)
        active = rows.y[order, 0] == 1
        chosen = np.concatenate([order[active][:positive], order[~active][: spec.rows - positive]])
    return rows.take(np.sort(chosen))


def divide(split: Split, facts: list[Described], rows: Candidates) -> tuple[Assignment, NDArray[np.int64]]:
    """The part of each row, and the number of its domain."""
    keys = [fact.canonical for fact in facts]
    if split == "random":
        return at_random(keys), np.full(len(keys), -1)
    domain = {
        "scaffold": [fact.scaffold for fact in facts],
        "size": [str(fact.size) for fact in facts],
        "assay": rows.domain,
    }[split]
    number = {value: n for n, value in enumerate(order_domains(domain))}
    assignment = by_domain(domain, keys, descending=True) if split == "size" else by_group(domain, keys, rows.y)
    return assignment, np.array([number[value] for value in domain])


def _builder(spec: TableSpec) -> Callable[..., Benchmark]:
    def build_table() -> Benchmark:
        return build(spec)

    return build_table


_SUBJECTS = {
    "toxcast": "ToxCast",
    "hiv": "HIV, enriched with actives",
    "muv": "MUV, active in one of its 17 screens or in none",
    "ic50-partial": "IC50, partial labels, enriched with inactives",
    "drugood-ec50-assay": "EC50",
    "drugood-ec50-scaffold": "EC50",
    "drugood-ec50-size": "EC50",
}
_SPLITS: Mapping[Split, str] = {
    "scaffold": "tested on scaffolds never seen in training",
    "size": "tested on the smallest molecules",
    "assay": "tested on assays never seen in training",
    "random": "split at random",
}

for _name, _spec in TABLES.items():
    _source = SOURCES[_spec.source]
    register(
        _name,
        _builder(_spec),
        summary=f"Development table: {_SUBJECTS[_spec.source]}; at most {_spec.rows:,} rows, {_SPLITS[_spec.split]}.",
        source=f"rows drawn from {_source.file}: {_source.where}; {_source.licence}",
        differs="not in the paper: settings are chosen on its validation parts",
        needs=(_spec.source,),
    )
