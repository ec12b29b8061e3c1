"""The kinds of trees, and what is said of them; they are methods that take molecules and have no network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeGuard, get_args

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
