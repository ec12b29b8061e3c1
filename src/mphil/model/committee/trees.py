"""An ensemble of decision trees as plain arrays: nothing to unpickle, and answered by a compiled loop or NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mphil.errors import IntegrityError
from mphil.nn.fast.library import status
from mphil.trust.values import softmax

Link = Literal["identity", "logistic", "softmax"]
LINKS: tuple[Link, ...] = get_args(Link)

ROWS = 256
"""Rows that go through all trees at a time."""

LEAF = -1
NODES = ("feature", "threshold", "left", "right", "root")
"""Arrays that say which way a row goes."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Trees:
    r"""Trees over features of float32; the answer is :math:`g(b + \sum_t v_t(x))`.

    The nodes of all trees stand end to end, each behind its parent. A row goes left where its feature is at most the
    threshold. A leaf of tree t adds its w values to the columns from `column[t]` on.

    Attributes:
        feature: (nodes,) int32, -1 at a leaf.
        threshold: (nodes,) float32.
        left: (nodes,) int32, a node; at a leaf the number of its values.
        right: (nodes,) int32.
        value: (leaves, w) float64.
        root: (trees,) int32, first node of each tree.
        column: (trees,) int32.
        base: (k,) float64, what the sum begins with.
        link: the function g: none, the logistic function of one column, or the softmax of k.
        classes: (c,) int64, the classes that the columns of `predict` stand for; empty for numbers.
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: Floats
    root: NDArray[np.int32]
    column: NDArray[np.int32]
    base: Floats
    link: Link
    classes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.root)

    def predict(self, x: NDArray[np.float32]) -> Floats:
        """(n, features) -> (n, k) probabilities of the classes, or numbers; a logistic column stands for the second."""
        found = np.empty((len(x), len(self.base)))
        for first in range(0, len(x), ROWS):
            found[first : first + ROWS] = self._sums(x[first : first + ROWS])
        if self.link == "logistic":
            chance: Floats = 1 / (1 + np.exp(-found.clip(-500, 500)))
            return chance
        return softmax(found) if self.link == "softmax" and len(x) else found

    def _sums(self, x: NDArray[np.float32]) -> Floats:
        """(n, k) before the link; rows and trees go down together, and leave when they reach a leaf."""
        leaf = self._leaves(x).T
        found = np.tile(self.base, (len(x), 1))
        for start in np.unique(self.column).tolist():
            added = self.value.take(leaf[self.column == start], axis=0)  # (trees, n, w), added tree by tree
            found[:, start : start + self.value.shape[1]] += added.sum(0)
        return found

    def _leaves(self, x: NDArray[np.float32]) -> NDArray[np.int32]:
        """(n, trees) number of the values of the leaf that each row comes to in each tree."""
        library = status().library
        if library is None or not len(self.root):
            return self.plain_leaves(x)
        if x.shape[1] <= max(0, int(self.feature.max())):
            raise IndexError(f"rows have {x.shape[1]} features; the trees ask for more")
        leaf = np.empty((len(x), len(self.root)), np.int32)
        nodes = {name: np.ascontiguousarray(getattr(self, name)) for name in NODES}
        x = np.ascontiguousarray(x)
        library.leaves(leaf=leaf, x=x, **nodes, rows=len(x), trees=len(self.root), features=x.shape[1])
        return leaf

    def plain_leaves(self, x: NDArray[np.float32]) -> NDArray[np.int32]:
        """The same in NumPy."""
        place = np.tile(self.root, (len(x), 1)).ravel()
        row = np.repeat(np.arange(len(x)), len(self.root))
        going = np.flatnonzero(self.feature[place] != LEAF)
        while len(going):
            node = place[going]
            goes_left = x[row[going], self.feature[node]] <= self.threshold[node]
            node = np.where(goes_left, self.left[node], self.right[node])
            place[going] = node
            going = going[self.feature[node] != LEAF]
        return self.left[place].reshape(len(x), len(self.root))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name to array, for a file."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return named | {"link": np.array([LINKS.index(self.link)], np.uint8)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], features: int) -> Trees:
        """What `arrays` gave, checked: a row that goes down always comes to a leaf.

        Args:
            arrays: as read from a file.
            features: columns that rows will have.

        Raises:
            IntegrityError: they are no such trees.
        """
        if arrays.keys() != {field.name for field in fields(cls)}:
            raise IntegrityError("the arrays of the trees are not those that are expected")
        link = arrays["link"]
        if link.dtype != np.uint8 or link.shape != (1,) or link[0] >= len(LINKS):
            raise IntegrityError("the trees have no link that is known")
        values: dict[str, Any] = {**arrays, "link": LINKS[int(link[0])]}
        trees = cls(**values)
        if reason := trees._fault(features):
            raise IntegrityError(f"the trees cannot be used: {reason}")
        return trees

    def _fault(self, features: int) -> str:
        """What is wrong with the arrays; empty when nothing is."""
        kinds = {"feature": "int32", "threshold": "float32", "left": "int32", "right": "int32", "value": "float64"}
        kinds |= {"root": "int32", "column": "int32", "base": "float64", "classes": "int64"}
        for name, kind in kinds.items():
            array = getattr(self, name)
            if array.dtype != kind or array.ndim != (2 if name == "value" else 1):
                return f"{name} has another type or shape"
        nodes, leaves, width = len(self.feature), *self.value.shape
        if {len(self.threshold), len(self.left), len(self.right)} != {nodes} or len(self.column) != len(self.root):
            return "the arrays differ in length"
        if not all(np.isfinite(getattr(self, name)).all() for name in ("threshold", "value", "base")):
            return "a number is not finite"
        inner = np.flatnonzero(self.feature != LEAF)
        for name in ("left", "right"):
            child = getattr(self, name)[inner]
            if (child <= inner).any() or (child >= nodes).any():
                return "a node stands before its parent"
        if _outside(self.feature[inner], features) or _outside(self.root, nodes):
            return "a feature or a root is out of range"
        if _outside(self.left[self.feature == LEAF], leaves) or _outside(self.column, len(self.base) - width + 1):
            return "the values of a leaf are out of range"
        given = 2 if self.link == "logistic" else len(self.base)
        one_sided = self.link == "logistic" and len(self.base) != 1
        if one_sided or len(self.classes) not in (0, given) or (self.classes < 0).any():
            return "the columns and the classes do not fit"
        return ""


def _outside(numbers: NDArray[np.int32], limit: int) -> bool:
    return bool(len(numbers)) and not 0 <= int(numbers.min()) <= int(numbers.max()) < limit
