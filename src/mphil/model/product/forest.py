"""The baseline that every chemist knows: a random forest on Morgan fingerprints, one a task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mphil.graphs.split import Part, Split
from mphil.system import cores
from mphil.task import Task
from mphil.training.metrics import score

TREES = 200
TREES_IN_ALL = 4_000
LEAST_TREES = 25
"""With very many tasks each forest is smaller, down to this."""

MOST_ROWS = 50_000
"""Training rows; of more, so many are drawn: a forest wants all of them in memory, bit by bit."""

TESTED: tuple[Part, ...] = ("id_test", "ood_test")


def forest_scores(
    fingerprints: NDArray[np.uint8],
    y: Tensor,
    split: Split,
    task: Task,
    *,
    parts: Sequence[Part] = TESTED,
    seed: int = 0,
    advance: Callable[[int], object] = lambda done: None,
) -> dict[str, float | None]:
    """Train on the training part, rows without a label left out, and score other parts.

    Args:
        fingerprints: (n, bytes) packed bits of all molecules.
        y: (n, tasks) labels, NaN = missing.
        split: which molecule is in which part.
        task: what is asked.
        parts: the parts to score.
        seed: of the trees.
        advance: told of every task that is done.

    Returns:
        The task's metric of each part, None where it is not defined.
    """
    scored = {part: split[part] for part in parts}
    rows = torch.cat(list(scored.values()))
    logits = np.zeros((len(rows), task.n_outputs))
    for number in range(task.n_tasks):
        answers = _task_logits(fingerprints, y[:, number], split.train, rows, task, seed)
        logits[:, slice(None) if task.kind == "multiclass" else slice(number, number + 1)] = answers
        advance(1)
    plain = replace(task, means=(), scales=())  # trees answer in the unit of the labels
    pieces = np.split(logits, np.cumsum([len(graphs) for graphs in scored.values()])[:-1])
    return {
        part: score(torch.from_numpy(piece), y[graphs], plain) if len(graphs) else None
        for (part, graphs), piece in zip(scored.items(), pieces, strict=True)
    }


def n_trees(task: Task) -> int:
    """Trees of the forest of each task."""
    return max(LEAST_TREES, min(TREES, TREES_IN_ALL // task.n_tasks))


def _task_logits(
    fingerprints: NDArray[np.uint8], y: Tensor, train: Tensor, rows: Tensor, task: Task, seed: int
) -> NDArray[np.float64]:
    """(rows, classes) shares of one task, or (rows, 1) the positive share less one half or the predicted number."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    labelled = train[~y[train].isnan()]
    if len(labelled) > MOST_ROWS:
        order = torch.randperm(len(labelled), generator=torch.Generator().manual_seed(seed))
        labelled = labelled[order[:MOST_ROWS].sort().values]
    if task.kind == "regression":
        if not len(labelled) or not len(rows):
            return np.zeros((len(rows), 1))
        trees = RandomForestRegressor(n_trees(task), random_state=seed, n_jobs=cores())
        trees.fit(_bits(fingerprints, labelled), y[labelled].numpy())
        return np.asarray(trees.predict(_bits(fingerprints, rows)), np.float64)[:, None]
    shares = np.zeros((len(rows), task.n_classes))
    if len(labelled) and len(rows):
        forest = RandomForestClassifier(n_trees(task), random_state=seed, n_jobs=cores())
        forest.fit(_bits(fingerprints, labelled), y[labelled].numpy().astype(np.int64))
        shares[:, forest.classes_] = forest.predict_proba(_bits(fingerprints, rows))
    return shares if task.kind == "multiclass" else shares[:, 1:] - 0.5


def _bits(fingerprints: NDArray[np.uint8], rows: Tensor) -> NDArray[np.uint8]:
    return np.unpackbits(fingerprints[rows.numpy()], axis=1, bitorder="little")
