"""Weights that an encoder starts from instead of random ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.methods.base import Method
from mphil.nn.encoders import Encoder

MOLECULES = "molecules"
"""The weights of this package: `benchmarks/pretrain.py` made them, without any label."""

SHAPE = ("kind", "layers", "width", "node", "edge")
"""Settings of an encoder that decide which weights it has."""


def start_bytes(start: str) -> bytes:
    """The file behind `train.start`: that of this package, or one of the user.

    Raises:
        UsageError: there is no such file.
    """
    if start == MOLECULES:
        return (files("mphil.training") / "molecules.safetensors").read_bytes()
    try:
        return Path(start).read_bytes()
    except (OSError, ValueError) as error:  # a name with a null character is a ValueError
        raise UsageError(
            f"train.start={start}: {getattr(error, 'strerror', None) or error}; "
            f"give {MOLECULES} or a file of benchmarks/pretrain.py"
        ) from error


def start_digest(start: str) -> str:
    """SHA-256 of the weights, which is part of the identity of a run."""
    return hashlib.sha256(start_bytes(start)).hexdigest()


class Misfit(UsageError):
    """Weights are those of another encoder."""


def start_from(method: Method, encoder: EncoderConfig, start: str) -> None:
    """Give the encoders of a method the weights that `train.start` names.

    All its encoders of that shape get them; one that goes on from features of another, or has fewer layers, does not.

    Raises:
        UsageError: the file is missing or damaged.
        Misfit: no encoder of the method can have its weights.
    """
    weights = read_start(encoder, start)
    for module in matching(method, weights, start):
        module.load_state_dict(weights)


def check_start(method: Method, encoder: EncoderConfig, start: str) -> None:
    """Refuse what `start_from` refuses; the method is left as it is, and may be on the device `meta`."""
    matching(method, read_start(encoder, start), start)


def matching(method: Method, weights: Mapping[str, Tensor], start: str) -> list[Encoder]:
    """The encoders of a method whose weights have these names and shapes.

    Raises:
        Misfit: there is none.
    """
    shapes = {name: value.shape for name, value in weights.items()}
    encoders = [module for module in method.modules() if isinstance(module, Encoder)]
    found = [one for one in encoders if shapes == {name: value.shape for name, value in one.state_dict().items()}]
    if not found:
        raise Misfit(
            f"train.start={start}: no encoder of {method.name} has the shape of these weights; leave out train.start, "
            "or use another method"
        )
    return found


def read_start(encoder: EncoderConfig, start: str) -> dict[str, Tensor]:
    """The weights that `train.start` names, for an encoder of these settings.

    Raises:
        UsageError: the file is missing or damaged.
        Misfit: its weights are those of another encoder.
    """
    content = start_bytes(start)
    try:
        weights = load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        described = dict(json.loads(header["__metadata__"]["encoder"]))
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"train.start={start}: not a file of pretrained weights ({error}); "
            f"give {MOLECULES} or a file of benchmarks/pretrain.py"
        ) from error
    check_shape(encoder, described, start)
    return {name: value.float() if value.is_floating_point() else value for name, value in weights.items()}


def check_shape(encoder: EncoderConfig, described: Mapping[str, Any], start: str) -> None:
    """Refuse weights of an encoder of another shape, naming the settings that differ."""
    mine = encoder.model_dump(mode="json", include=set(SHAPE))
    differ = [name for name in SHAPE if mine[name] != described.get(name)]
    if features := [name for name in differ if name in ("node", "edge")]:
        raise Misfit(
            f"train.start={start}: these weights read molecules as this package featurises them, and {features[0]}s of "
            "this data carry something else; leave out train.start"
        )
    if differ:
        wanted = " ".join(f"encoder.{name}={described.get(name)}" for name in differ)
        raise Misfit(f"train.start={start}: its weights need {wanted}; set that, or leave out train.start")
