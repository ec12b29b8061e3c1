"""What the benchmarks made of molecules share: from rows and a split rule to a `Benchmark`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from rdkit import rdBase

from mphil.benchmarks.base import Benchmark
from mphil.graphs.store import GraphStore
from mphil.tables.from_smiles import RowStatus
from mphil.tables.splitting import Assignment, IntArray
from mphil.task import Task

BINARY_CLASSES = ("inactive", "active")


def molecule_benchmark(
    store: GraphStore,
    rows: Sequence[RowStatus],
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
        rows: what became of each row of the source; those excluded are named in the provenance.
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
        "refused_rows": [row.row for row in rows if not row.kept],
        "partially_sanitised_rows": [row.row for row in rows if row.status == "partial"],
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
