"""Small drawn images for tests that must not need a publisher's file."""

import numpy as np

PIXELS = np.stack(np.meshgrid(np.arange(28), np.arange(28)), axis=-1).reshape(-1, 2)
"""(784, 2) column and row of every pixel."""


def blobs(n, seed=0):
    """(n, 28, 28) two soft discs an image; whole numbers only, so that every machine draws the same."""
    rng = np.random.default_rng(seed)
    middle, steepness = rng.integers(6, 22, size=(n, 2, 1, 2)), rng.integers(3, 15, size=(n, 2, 1))
    distance = np.square(PIXELS - middle).sum(-1)
    return np.clip(255 - steepness * distance, 0, 255).max(1).astype(np.uint8).reshape(n, 28, 28)
