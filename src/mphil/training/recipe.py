"""How weights come about: what they start from, the learning rate of a step, and the average that is scored."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from mphil.config import EncoderConfig, TrainConfig
from mphil.errors import UsageError
from mphil.graphs.store import Batch
from mphil.methods.base import Method, Progress, evaluating
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


def warmup_steps(total_steps: int, config: TrainConfig) -> int:
    """Steps of the linear warm-up of a stage."""
    return round(config.warmup * total_steps)


def learning_rate_factor(progress: Progress, config: TrainConfig) -> float:
    r"""Factor of `train.lr` for the step that comes next.

    With :math:`w` warm-up steps of :math:`T`, step :math:`t` (from 0) has

    .. math:: \frac{t + 1}{w} \text{ if } t < w, \text{ else } f\Big(\frac{t - w}{T - w}\Big), \qquad
              f(s) = 1, \quad \tfrac12 (1 + \cos \pi s) \quad \text{or} \quad 1 - s

    for a constant, a cosine or a linear schedule.

    Example:
        >>> config = TrainConfig(schedule="linear", warmup=0.2)
        >>> [learning_rate_factor(Progress(step=step, total_steps=10), config) for step in (0, 1, 2, 6)]
        [0.5, 1.0, 1.0, 0.5]
    """
    warm = warmup_steps(progress.total_steps, config)
    if progress.step < warm:
        return (progress.step + 1) / warm
    if config.schedule == "constant":
        return 1.0
    done = (progress.step - warm) / max(1, progress.total_steps - warm)
    return 1 - done if config.schedule == "linear" else 0.5 * (1 + math.cos(math.pi * done))


BATCHES = 64
"""Batches from which BatchNorm statistics are estimated."""


class Average:
    r"""Exponential moving average of the parameters of a method, without its buffers.

    After optimiser step :math:`t`, counted from 1, :math:`\bar\theta \leftarrow d_t \bar\theta + (1 - d_t) \theta` with
    :math:`d_t = \min(d, (1 + t) / (10 + t))`: early steps, taken far from the end, are forgotten sooner.

    Args:
        method: whose parameters; the average begins with their present values.
        decay: :math:`d`.
    """

    def __init__(self, method: nn.Module, decay: float) -> None:
        self.decay = decay
        self.values = {name: parameter.detach().clone() for name, parameter in method.named_parameters()}

    @torch.no_grad()
    def update(self, method: nn.Module, step: int) -> None:
        """Take in the parameters after optimiser step number `step`."""
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, parameter in method.named_parameters():
            self.values[name].lerp_(parameter, 1 - decay)

    @torch.no_grad()
    def write_to(self, method: nn.Module) -> None:
        """Replace the parameters by their averages."""
        for name, parameter in method.named_parameters():
            parameter.copy_(self.values[name])

    @torch.no_grad()
    def load(self, values: Mapping[str, Tensor]) -> None:
        """Go on from saved averages."""
        for name, value in self.values.items():
            value.copy_(values[name])


def renormalise(method: Method, batches: Iterable[Batch]) -> None:
    """Estimate the running statistics of every BatchNorm anew: means over batches, without dropout.

    Those of a module that predictions do not use stay as they are.

    Args:
        method: in which they are replaced.
        batches: training graphs; several processes give each their share of every batch.
    """
    norms = [module for module in method.modules() if isinstance(module, _BatchNorm) and module.track_running_stats]
    momenta = [norm.momentum for norm in norms]
    before = [_batches_seen(norm) for norm in norms]
    with evaluating(method):
        for norm in norms:
            norm.train()
        for batch in batches:
            for norm, seen in zip(norms, before, strict=True):
                norm.momentum = 1 / (1 + _batches_seen(norm) - seen)
            method.predict(batch)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum


@contextmanager
def put_back(method: nn.Module) -> Iterator[None]:
    """Whatever happens to the weights and buffers in the block, afterwards they are what they were."""
    kept = [(tensor, tensor.clone()) for tensor in method.state_dict().values()]
    try:
        yield
    finally:
        for tensor, value in kept:
            tensor.copy_(value)


def _batches_seen(norm: _BatchNorm) -> int:
    return 0 if norm.num_batches_tracked is None else int(norm.num_batches_tracked)
