"""Weights that an encoder starts from instead of random ones."""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files
from pathlib import Path

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
    except OSError as error:
        raise UsageError(
            f"train.start={start}: {error.strerror or error}; give {MOLECULES} or a file of benchmarks/pretrain.py"
        ) from error


def start_digest(start: str) -> str:
    """SHA-256 of the weights, which is part of the identity of a run."""
    return hashlib.sha256(start_bytes(start)).hexdigest()


def start_from(method: Method, encoder: EncoderConfig, start: str) -> None:
    """Give the encoders of a method the weights that `train.start` names.

    All its encoders of that shape get them; one that goes on from features of another, or has fewer layers, does not.
    """
    weights = read_start(encoder, start)
    shapes = {name: value.shape for name, value in weights.items()}
    for module in method.modules():
        if isinstance(module, Encoder) and shapes == {name: v.shape for name, v in module.state_dict().items()}:
            module.load_state_dict(weights)


def read_start(encoder: EncoderConfig, start: str) -> dict[str, Tensor]:
    """The weights that `train.start` names, for an encoder of these settings.

    Raises:
        UsageError: the file is missing or damaged, or its weights are those of another encoder.
    """
    content = start_bytes(start)
    try:
        weights = load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        described = json.loads(header["__metadata__"]["encoder"])
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"train.start={start}: not a file of pretrained weights ({error})") from error
    check_shape(encoder, described, start)
    return {name: value.float() if value.is_floating_point() else value for name, value in weights.items()}


def check_shape(encoder: EncoderConfig, described: dict[str, object], start: str) -> None:
    """Refuse weights of an encoder of another shape, naming the settings that differ."""
    mine = encoder.model_dump(mode="json", include=set(SHAPE))
    differ = [name for name in SHAPE if mine[name] != described.get(name)]
    if features := [name for name in differ if name in ("node", "edge")]:
        raise UsageError(
            f"train.start={start}: these weights read molecules as this package featurises them, and {features[0]}s of "
            "this data carry something else; leave out train.start"
        )
    if differ:
        wanted = " ".join(f"encoder.{name}={described.get(name)}" for name in differ)
        raise UsageError(f"train.start={start}: its weights need {wanted}; set that, or leave out train.start")
