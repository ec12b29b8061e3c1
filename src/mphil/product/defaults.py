"""Training settings for a table of a given size, when nobody says otherwise."""

from __future__ import annotations

from typing import Any

SIZES = ((2_000, 32, 30, 10), (20_000, 64, 30, 8), (200_000, 128, 20, 5))
"""Up to so many training graphs: batch size, epochs, patience."""

LARGE = (256, 10, 3)
LEAST_BATCHES = 8
"""Batches in an epoch, for tables so small that a batch would be most of them."""


def train_defaults(graphs: int) -> dict[str, Any]:
    """The section `train` for so many training graphs.

    Small tables get small batches and many epochs, so that a thousand rows are trained in about a minute; training
    stops early when the validation score no longer rises.

    Example:
        >>> train_defaults(600)["batch_size"], train_defaults(40)["batch_size"]
        (32, 5)
    """
    batch, epochs, patience = next((rest for most, *rest in SIZES if graphs <= most), LARGE)
    return {
        "batch_size": max(1, min(batch, graphs // LEAST_BATCHES)),
        "epochs": epochs,
        "patience": patience,
        "lr": 1e-3,
    }
