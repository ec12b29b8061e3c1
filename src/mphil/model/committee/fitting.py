"""Forests and boosted models on features of molecules, one for each task, grown by scikit-learn and kept as arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mphil.chem.describe import COUNTS
from mphil.model.committee.trees import LEAF, Link, MoleculeFeatures, TreeKind, Trees
from mphil.nn.threads import usable_cores
from mphil.task import Task

Numbers = NDArray[np.int64]


def from_forest(model: Any, columns: Numbers | None = None) -> Trees:
    """A fitted forest of scikit-learn, of random or extremely random trees, with one output.

    Args:
        model: what scikit-learn fitted.
        columns: (features it was fitted on,) where each of them stands among all features; None when it saw all.
    """
    parts = [_forest_tree(one.tree_) for one in model.estimators_]
    classes = getattr(model, "classes_", np.empty(0))
    values = np.concatenate([part.pop("value") for part in parts])
    if len(classes):
        values /= values.sum(1, keepdims=True)
    base = np.zeros(values.shape[1])
    return _joined(parts, values / len(parts), [0] * len(parts), base, "identity", classes, columns)


def from_boosting(model: Any, columns: Numbers | None = None) -> Trees:
    """A fitted HistGradientBoostingClassifier or HistGradientBoostingRegressor without categorical features.

    Args:
        model: what scikit-learn fitted.
        columns: as for `from_forest`.
    """
    grown = [(place, one) for round_ in model._predictors for place, one in enumerate(round_)]
    parts = [_boosted_tree(one.nodes) for _, one in grown]
    classes = getattr(model, "classes_", np.empty(0))
    values = np.concatenate([part.pop("value") for part in parts])[:, None]
    base = np.asarray(model._baseline_prediction, np.float64).reshape(-1)
    link: Link = "identity" if not len(classes) else "logistic" if len(base) == 1 else "softmax"
    return _joined(parts, values, [place for place, _ in grown], base, link, classes, columns)


def constant(answer: NDArray[np.float64], classes: NDArray[Any]) -> Trees:
    """An ensemble without trees: the same answer for every row, as probabilities of some classes or as a number."""
    whole, none = np.empty(0, np.int32), np.empty(0, np.float32)
    value = np.empty((0, len(answer)))
    return Trees(whole, none, whole, whole, value, whole, whole, answer, "identity", classes.astype(np.int64))


def _forest_tree(tree: Any) -> dict[str, NDArray[Any]]:
    leaf = tree.children_left < 0
    return {
        "leaf": leaf,
        "feature": tree.feature,
        "threshold": tree.threshold,
        "left": tree.children_left,
        "right": tree.children_right,
        "value": tree.value[leaf, 0].astype(np.float64),
    }


def _boosted_tree(nodes: Any) -> dict[str, NDArray[Any]]:
    leaf = nodes["is_leaf"].astype(bool)
    return {
        "leaf": leaf,
        "feature": nodes["feature_idx"],
        "threshold": nodes["num_threshold"],
        "left": nodes["left"].astype(np.int64),
        "right": nodes["right"].astype(np.int64),
        "value": nodes["value"][leaf].astype(np.float64),
    }


def _joined(
    parts: list[dict[str, NDArray[Any]]],
    values: NDArray[np.float64],
    column: list[int],
    base: NDArray[np.float64],
    link: Link,
    classes: NDArray[Any],
    columns: Numbers | None,
) -> Trees:
    """The trees end to end."""
    leaf = np.concatenate([part["leaf"] for part in parts])
    sizes = [len(part["leaf"]) for part in parts]
    root = np.cumsum([0, *sizes[:-1]])
    shift = np.repeat(root, sizes)
    feature = np.concatenate([part["feature"] for part in parts]).astype(np.int64)
    if columns is not None:
        feature = columns[np.where(leaf, 0, feature)]
    left, right = (np.concatenate([part[name] for part in parts]) + shift for name in ("left", "right"))
    left[leaf] = np.arange(leaf.sum())
    threshold = np.where(leaf, 0.0, np.concatenate([part["threshold"] for part in parts]))
    return Trees(
        feature=np.where(leaf, LEAF, feature).astype(np.int32),
        threshold=_rounded_down(threshold),
        left=left.astype(np.int32),
        right=np.where(leaf, 0, right).astype(np.int32),
        value=np.ascontiguousarray(values),
        root=root.astype(np.int32),
        column=np.array(column, np.int32),
        base=base,
        link=link,
        classes=classes.astype(np.int64),
    )


def _rounded_down(threshold: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest float32 that is not above each: a float32 is at most one exactly when it is at most the other."""
    near = threshold.astype(np.float32)
    return np.where(near > threshold, np.nextafter(near, np.float32(-np.inf)), near).astype(np.float32)


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
