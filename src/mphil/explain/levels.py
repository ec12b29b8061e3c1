"""Measured numbers as low, middle and high, where a page sorts molecules into groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mphil.model.bundle import BundleConfig

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Levels:
    """Thirds of the training labels.

    Attributes:
        low: up to here a number is low.
        high: from here on a number is high.
    """

    low: float
    high: float

    @classmethod
    def of(cls, labels: Floats) -> Levels:
        """The thirds of (n,) labels, NaN = missing.

        Example:
            >>> Levels.of(np.array([1.0, 2.0, 3.0, 4.0, np.nan])).number(np.array([0.0, 2.5, 9.0])).tolist()
            [0.0, 1.0, 2.0]
        """
        known = labels[~np.isnan(labels)]
        low, high = np.quantile(known, (1 / 3, 2 / 3)) if len(known) else (0.0, 0.0)
        return cls(float(low), float(high))

    @property
    def names(self) -> tuple[str, ...]:
        return f"low (up to {self.low:.3g})", "middle", f"high (from {self.high:.3g})"

    def number(self, values: Floats) -> Floats:
        """(n,) 0, 1 or 2; NaN stays NaN."""
        found: Floats = np.where(np.isnan(values), np.nan, 1.0 * (values > self.low) + (values >= self.high))
        return np.minimum(found, 2.0)


def page_classes(config: BundleConfig, labels: Floats) -> tuple[tuple[str, ...], Floats, Levels | None]:
    """Names of the groups of one task, the group of each training molecule, and the levels of a regression.

    Args:
        config: of the model.
        labels: (n,) labels of the training molecules in the task, NaN = missing.
    """
    if config.task.kind != "regression":
        return config.classes, labels, None
    levels = Levels.of(labels)
    return levels.names, levels.number(labels), levels
