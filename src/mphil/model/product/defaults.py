"""The recipe for tables of one's own, when nobody says otherwise; provisional until the suite `recipe` is complete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from mphil.config import RunConfig
from mphil.methods.base import build_method
from mphil.task import Task
from mphil.training.recipe import MOLECULES, Misfit, check_start

SIZES = ((2_000, 32, 30), (20_000, 64, 30), (200_000, 128, 20))
"""Up to so many training graphs: batch size, epochs."""

LARGE = (256, 10)
LEAST_BATCHES = 8
"""Batches in an epoch, for tables so small that a batch would be most of them."""
WINDOW = 5
"""Epochs whose mean validation score chooses one of them: a single score of a small part is mostly chance."""

METHOD = "mphil+"
"""The network, when nobody names another one."""

ARGUMENTS: Mapping[str, Mapping[str, Any]] = {"mphil+": {"pooled": True}}
"""Hyperparameters by method: on molecules, MPHIL+ looks at the readout of all atoms beside its parts."""

MEMBERS = 3
"""Networks of a committee: two of the method and one ERM, which a thousand rows train in about a minute. All but the
first take descriptors, see `network_configs`."""

ENCODER = {"dropout": 0.1, "readout": "max"}
"""Of all networks, with pretrained weights or without."""


def default_start(config: RunConfig, task: Task) -> str:
    """What `train.start` is when nobody says otherwise: pretrained weights, where an encoder of the method takes them.

    Args:
        config: all other settings; those of the encoder are final.
        task: what will be learned.
    """
    with torch.device("meta"):
        method = build_method(config.method.name, task, config.encoder, config.method.args)
    try:
        check_start(method, config.encoder, MOLECULES)
    except Misfit:
        return ""
    return MOLECULES


def train_defaults(graphs: int, given: Mapping[str, Any] | None = None, start: str = "") -> dict[str, Any]:
    """The section `train` for so many training graphs: the given settings, and the recipe for the others.

    Small tables get small batches and many epochs, so that a thousand rows are trained in about a minute. The learning
    rate falls to 0, so that the last epochs are calm, and an epoch of the second half is chosen.

    Args:
        graphs: of the training part.
        given: the settings that a user gave.
        start: weights that the encoders start from, unless the given settings name others. With any, the recipe has
            half the epochs and half the learning rate.

    Example:
        >>> train_defaults(600)["batch_size"], train_defaults(40)["batch_size"]
        (32, 5)
        >>> train_defaults(600, {"epochs": 3})["window"]
        3
    """
    given = {"start": start, **(given or {})}
    batch, epochs = next((rest for most, *rest in SIZES if graphs <= most), LARGE)
    epochs = given.get("epochs", epochs // 2 if given["start"] else epochs)
    usual = {
        "batch_size": max(1, min(batch, graphs // LEAST_BATCHES)),
        "epochs": epochs,
        "schedule": "cosine",
        "warmup": 0.05,
        "lr": 5e-4 if given["start"] else 1e-3,
    }
    if isinstance(epochs, int) and not given.get("max_steps"):
        usual |= {"window": min(WINDOW, max(1, epochs)), "min_epochs": epochs // 2}
    return usual | given
