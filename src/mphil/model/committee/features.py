"""The features of molecules that trees split on, kept small until a batch is asked about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class MoleculeFeatures:
    """Of n molecules, as `mphil.chem.descriptors` makes them.

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
