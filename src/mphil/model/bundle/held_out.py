"""The held-out rows that a bundle keeps, to make its promises anew: for another coverage, or under a shift."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as parse_arrays
from safetensors.numpy import save as render_arrays

from mphil.chem.fingerprint import BITS
from mphil.task import Task


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The n rows that calibration, sets and bands were fitted on.

    Attributes:
        probability: (n, outputs) calibrated, of the classes, or of the positive label of each task.
        labels: (n, tasks) float32, NaN = missing.
        distance: (n,) how far from training they are, by the score of the bundle.
        fingerprints: (n, bytes) uint8 packed bits; of no bytes when the rows are graphs.
    """

    probability: NDArray[np.float64]
    labels: NDArray[np.float32]
    distance: NDArray[np.float64]
    fingerprints: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.distance)

    def render(self) -> bytes:
        """As the bytes of a safetensors file."""
        return render_arrays({name: np.ascontiguousarray(value) for name, value in vars(self).items()})

    @classmethod
    def parse(cls, data: bytes, task: Task, *, molecules: bool) -> HeldOut:
        """What `render` gave, checked.

        Raises:
            ValueError: the arrays are not those of held-out rows of such a task.
        """
        try:
            arrays = parse_arrays(data)
        except (SafetensorError, KeyError) as error:
            raise ValueError(str(error)) from None
        count = len(arrays["distance"]) if "distance" in arrays and arrays["distance"].ndim == 1 else -1
        expected = {
            "probability": ("float64", (count, task.n_outputs)),
            "labels": ("float32", (count, task.n_tasks)),
            "distance": ("float64", (count,)),
            "fingerprints": ("uint8", (count, BITS // 8 if molecules else 0)),
        }
        found = {name: (str(array.dtype), array.shape) for name, array in arrays.items()}
        if found != expected:
            raise ValueError("its arrays are not those of held-out rows")
        held = cls(**arrays)
        if not ((held.probability >= 0) & (held.probability <= 1)).all() or not np.isfinite(held.distance).all():
            raise ValueError("a probability or a distance is no such number")
        return held
