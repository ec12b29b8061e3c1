"""A PyG dataset of one's own as a benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mphil.benchmarks.base import Benchmark
from mphil.benchmarks.own_data import class_names, task_of
from mphil.errors import DataError, UnknownName
from mphil.graphs.split import PARTS, Split
from mphil.graphs.store import GraphStore
from mphil.tables.assign import assign, find_domain, in_one_part
from mphil.tables.graph_folders import survey_graphs

if TYPE_CHECKING:
    from torch_geometric.data import Data


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
    """The split that somebody has made."""
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
