"""Trees that scikit-learn grew, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mphil.model.committee.trees import LEAF, Link, Trees

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
