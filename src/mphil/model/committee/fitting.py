"""Forests and boosted models on features of molecules, one for each task, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mphil.chem.descriptors import COUNTS
from mphil.model.committee.convert import constant, from_boosting, from_forest
from mphil.model.committee.features import MoleculeFeatures
from mphil.model.committee.kinds import TreeKind
from mphil.model.committee.trees import Trees
from mphil.nn.threads import usable_cores
from mphil.task import Task

MOST_ROWS = 50_000
"""Training rows; of more, so many are drawn: a forest wants all of them in memory."""

MOST_TREES, LEAST_TREES = 300, 50
TREE_ROWS = 2_000_000
"""Trees of all tasks times training rows, as far as the least number of trees allows: this bounds a bundle."""

ROUNDS, LEAST_ROUNDS = 150, 40
ROUNDS_IN_ALL = 600
"""Rounds of boosting: in a task, the least, and in all tasks and classes together."""

SHARE = 0.1
"""Features that a split of a regression tree looks at: few enough that a forest takes seconds."""

LEAST_OCCURRENCES = 3
"""Training molecules that must have a neighbourhood for trees to split on it."""

Floats = NDArray[np.float64]
Advance = Callable[[int], object]


def fit_trees(
    kind: TreeKind,
    features: MoleculeFeatures,
    y: Floats,
    task: Task,
    *,
    seed: int,
    advance: Advance = lambda done: None,
) -> tuple[Trees, ...]:
    """One model for each task; rows without a label of a task are left out of its model.

    Args:
        kind: `forest`, `extra-trees` or `boosting`.
        features: of the n training molecules.
        y: (n, tasks) labels, NaN = missing; those of a regression are standardised.
        task: what is asked.
        seed: of everything random.
        advance: told of every task that is done.
    """
    found = []
    for column in task.from_units(y).T if task.kind == "regression" else y.T:
        labelled = np.flatnonzero(~np.isnan(column))
        if len(labelled) > MOST_ROWS:
            drawn = np.random.default_rng(seed).choice(len(labelled), MOST_ROWS, replace=False)
            labelled = labelled[np.sort(drawn)]
        found.append(_fit_task(kind, features, labelled, column[labelled], task, seed))
        advance(1)
    return tuple(found)


def probabilities(trees: Sequence[Trees], x: NDArray[np.float32], task: Task) -> Floats:
    """(n, outputs) of the classes, or of the positive label of each task; of a regression its standardised numbers.

    Args:
        trees: one ensemble for each task.
        x: (n, features) what `MoleculeFeatures.matrix` says of n molecules.
        task: what is asked.
    """
    if task.kind == "regression":
        return np.concatenate([one.predict(x) for one in trees], axis=1)
    answers = [_by_class(one, x, task.n_classes) for one in trees]
    return answers[0] if task.kind == "multiclass" else np.stack([answer[:, 1] for answer in answers], axis=1)


def _by_class(trees: Trees, x: NDArray[np.float32], classes: int) -> Floats:
    """(n, classes) probabilities; of a class that was not in training, 0."""
    said = trees.predict(x)
    if trees.link == "logistic":
        said = np.concatenate([1 - said, said], axis=1)
    found = np.zeros((len(x), classes))
    found[:, trees.classes] = said
    return found


def _fit_task(
    kind: TreeKind, features: MoleculeFeatures, rows: NDArray[np.int64], y: Floats, task: Task, seed: int
) -> Trees:
    if task.kind == "regression":
        return _fit_numbers(kind, features, rows, y, task, seed)
    labels = y.astype(np.int64)
    classes = np.unique(labels)
    if len(classes) < 2:  # nothing to tell apart
        classes = classes if len(classes) else np.arange(task.n_classes)
        return constant(np.full(len(classes), 1 / len(classes)), classes)
    columns = _useful(features, rows)
    x = features.matrix(rows)[:, columns]
    if kind != "boosting":
        return from_forest(_forest(kind, task, len(rows), seed).fit(x, labels), columns)
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1):  # sums in parallel would depend on the number of threads
        return from_boosting(_boosting(task, len(classes), seed).fit(x, labels), columns)


def _fit_numbers(
    kind: TreeKind, features: MoleculeFeatures, rows: NDArray[np.int64], y: Floats, task: Task, seed: int
) -> Trees:
    if len(np.unique(y)) < 2:  # nothing to tell apart
        return constant(np.array([y.mean() if len(y) else 0.0]), np.empty(0))
    columns = _useful(features, rows)
    x = features.matrix(rows)[:, columns]
    if kind != "boosting":
        return from_forest(_forest(kind, task, len(rows), seed).fit(x, y), columns)
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # sums in parallel would depend on the number of threads
        return from_boosting(_boosting(task, 2, seed).fit(x, y), columns)


def _forest(kind: TreeKind, task: Task, rows: int, seed: int) -> Any:
    """Trees on bootstrap samples that split where it is best, or trees on all rows that split at random places."""
    from sklearn import ensemble

    trees = max(LEAST_TREES, min(MOST_TREES, TREE_ROWS // (rows * task.n_tasks)))
    settings: dict[str, Any] = {"min_samples_leaf": 2, "random_state": seed, "n_jobs": usable_cores()}
    if task.kind == "regression":
        grower = ensemble.RandomForestRegressor if kind == "forest" else ensemble.ExtraTreesRegressor
        return grower(trees, max_features=SHARE, **settings)
    grower = ensemble.RandomForestClassifier if kind == "forest" else ensemble.ExtraTreesClassifier
    return grower(trees, **settings)


def _boosting(task: Task, classes: int, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    ensembles = task.n_tasks * (1 if classes == 2 else classes)
    rounds = max(LEAST_ROUNDS, min(ROUNDS, ROUNDS_IN_ALL // ensembles))
    grower = HistGradientBoostingRegressor if task.kind == "regression" else HistGradientBoostingClassifier
    return grower(
        max_iter=rounds,
        learning_rate=0.08,
        max_leaf_nodes=15,
        min_samples_leaf=10,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=seed,
    )


def _useful(features: MoleculeFeatures, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Neighbourhoods that are not too rare, and all descriptors."""
    often = (features.counts[rows] > 0).sum(0) >= LEAST_OCCURRENCES
    return np.concatenate([np.flatnonzero(often), COUNTS + np.arange(features.descriptors.shape[1])])
