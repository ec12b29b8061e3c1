"""Kinds of trees, the features that they split on, and ensembles as plain arrays: nothing to unpickle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeGuard, get_args

import numpy as np
from numpy.typing import NDArray

from mphil.errors import IntegrityError
from mphil.nn.fast.library import status
from mphil.tables.from_smiles import molecule_features
from mphil.trust.values import softmax

TreeKind = Literal["forest", "extra-trees", "boosting"]
TREE_KINDS: tuple[TreeKind, ...] = get_args(TreeKind)
TREE_NAMES: Mapping[TreeKind, str] = {
    "forest": "random forest",
    "extra-trees": "extra trees",
    "boosting": "gradient boosting",
}
"""What people call them."""

TREES_FORMAT = 1
"""Version of how trees are fitted; a change of any of their settings is a new one."""


@dataclass(frozen=True)
class TreeFacts:
    """What a list of methods says of a kind: a summary, the paper, and how the trees are grown."""

    summary: str
    paper: str
    about: str


_ON = "on counts of neighbourhoods and descriptors"
TREE_FACTS: Mapping[TreeKind, TreeFacts] = {
    "forest": TreeFacts(
        f"random forest {_ON}",
        "doi:10.1023/A:1010933404324",
        "Trees on bootstrap samples of the molecules, each split the best of a random choice of features.",
    ),
    "extra-trees": TreeFacts(
        f"extremely randomised trees {_ON}",
        "doi:10.1007/s10994-006-6226-1",
        "Trees on all molecules, each split the best of a random choice of features and thresholds.",
    ),
    "boosting": TreeFacts(
        f"gradient-boosted trees {_ON}",
        "doi:10.1214/aos/1013203451",
        "Small trees one after the other, each fitted to what those before it left over.",
    ),
}


def is_tree_kind(method: object) -> TypeGuard[TreeKind]:
    """Whether a method is trees.

    Example:
        >>> is_tree_kind("forest"), is_tree_kind("erm")
        (True, False)
    """
    return method in TREE_KINDS


@dataclass(frozen=True, eq=False)
class MoleculeFeatures:
    """Of n molecules, as `mphil.chem.describe` makes them.

    Attributes:
        counts: (n, COUNTS) uint8.
        descriptors: (n, DESCRIPTORS) float32.
    """

    counts: NDArray[np.uint8]
    descriptors: NDArray[np.float32]

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> MoleculeFeatures:
        """From the answer of a job that was asked for them."""
        return cls(arrays["counts"], arrays["descriptors"])

    def __len__(self) -> int:
        return len(self.counts)

    def take(self, rows: NDArray[np.int64]) -> MoleculeFeatures:
        """Those of some molecules."""
        return MoleculeFeatures(self.counts[rows], self.descriptors[rows])

    def placed(self, rows: Sequence[int], n: int) -> MoleculeFeatures:
        """These as the given rows, in increasing order, of n; the other rows hold zeros."""
        if len(rows) == n:
            return self
        counts = np.zeros((n, self.counts.shape[1]), self.counts.dtype)
        descriptors = np.zeros((n, self.descriptors.shape[1]), self.descriptors.dtype)
        counts[rows], descriptors[rows] = self.counts, self.descriptors
        return MoleculeFeatures(counts, descriptors)

    def matrix(self, rows: slice | NDArray[np.int64] = slice(None)) -> NDArray[np.float32]:
        """(rows, FEATURES) the counts, then the descriptors."""
        return np.concatenate([self.counts[rows].astype(np.float32), self.descriptors[rows]], axis=1)


def read_features(smiles: Sequence[str]) -> MoleculeFeatures:
    """Features of molecules that were read before.

    Raises:
        DataError: one of them cannot be read.
    """
    return MoleculeFeatures.of(molecule_features(smiles))


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
