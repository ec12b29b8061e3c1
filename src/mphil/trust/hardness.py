"""How hard a split is, before any training: how similar its test molecules are to the training molecules."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mphil.trust.neighbours import Bytes, most_similar

ASKED = 300
"""Test molecules whose nearest training molecule is looked for, evenly spaced when there are more."""

HARDLY = 0.05
"""A smaller difference of the medians makes a split hardly harder than a random one."""


def similarity_to_training(fingerprints: Bytes, train: NDArray[np.int64], test: NDArray[np.int64]) -> float | None:
    """Median Tanimoto similarity of test molecules to their nearest training molecule; None when a part is empty.

    Args:
        fingerprints: (n, bytes) packed bits of all molecules.
        train: positions of the training molecules.
        test: positions of the test molecules.

    Example:
        >>> bits = np.array([[0b1100], [0b1111], [0b0011]], np.uint8)
        >>> similarity_to_training(bits, np.array([0]), np.array([1, 2]))
        0.25
    """
    if not len(train) or not len(test):
        return None
    asked = test[np.linspace(0, len(test) - 1, min(len(test), ASKED)).astype(np.int64)]
    return float(np.median(most_similar(fingerprints[asked], fingerprints[train])[1]))


def hardness(similarity: Mapping[str, float | None]) -> str:
    """What the similarities of the test parts say about a split, in a sentence; empty when they are not known.

    Args:
        similarity: `id_test` and `ood_test` to the median similarity of their molecules to training.

    Example:
        >>> hardness({"id_test": 0.62, "ood_test": 0.60})
        'nearly random here: OOD test is as similar to training (0.60) as ID test (0.62)'
    """
    inside, outside = similarity.get("id_test"), similarity.get("ood_test")
    if inside is None or outside is None:
        return ""
    if outside > inside - HARDLY:
        return f"nearly random here: OOD test is as similar to training ({outside:.2f}) as ID test ({inside:.2f})"
    return f"OOD test is less similar to training ({outside:.2f}) than ID test ({inside:.2f})"
