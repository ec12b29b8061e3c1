"""Settings: frozen, typed, and refused when a key is unknown."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from mphil.data.features import Features
from mphil.errors import UnknownName, UsageError


class Settings(BaseModel):
    """Base of all settings: immutable, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class EncoderConfig(Settings):
    """The network that turns a graph into node features.

    Attributes:
        kind: `gin`, or `vgin` with a virtual node (3 layers or more).
        layers: message-passing layers.
        width: size of the node features.
        dropout: share of features dropped after every layer.
        readout: how node features become one vector.
        node: what the nodes carry; filled in from the data.
        edge: what the edges carry; filled in from the data.
    """

    kind: Literal["gin", "vgin"] = "gin"
    layers: int = Field(3, ge=1, le=64)
    width: int = Field(300, ge=1, le=8192)
    dropout: float = Field(0.5, ge=0, lt=1)
    readout: Literal["mean", "sum", "max"] = "mean"
    node: Features = Features.constant()
    edge: Features = Features.none()

    @model_validator(mode="after")
    def _virtual_node_can_gather(self) -> EncoderConfig:
        if self.kind == "vgin" and self.layers < 3:
            raise ValueError(
                "a virtual node first speaks in the second layer and first listens after it: use 3 or more"
            )
        return self


class TrainConfig(Settings):
    """How training goes; nothing here is specific to a method.

    Attributes:
        epochs: passes over the training part.
        batch_size: graphs in a step.
        lr: learning rate of Adam.
        weight_decay: L2 penalty of Adam.
        clip: largest gradient norm, 0 = no clipping.
        max_steps: stop after so many steps, 0 = no limit.
        max_minutes: stop at the end of the epoch that passes this time, 0 = no limit.
        patience: stop after so many epochs without a better validation score, 0 = never.
        patience_on: the validation part that early stopping watches.
        eval_batch_size: graphs in an evaluation batch.
        checkpoint_minutes: save inside an epoch after this time; the end of an epoch always saves.
        threads: processor threads of the compiled loops, at present one at most; no number changes a result.
        device: where tensors live, such as `cpu` or `cuda:0`.
        tensorboard: also write TensorBoard events.
    """

    epochs: int = Field(100, ge=1)
    batch_size: int = Field(128, ge=1)
    lr: float = Field(1e-3, gt=0)
    weight_decay: float = Field(0.0, ge=0)
    clip: float = Field(5.0, ge=0)
    max_steps: int = Field(0, ge=0)
    max_minutes: float = Field(0.0, ge=0)
    patience: int = Field(0, ge=0)
    patience_on: Literal["ood_val", "id_val"] = "ood_val"
    eval_batch_size: int = Field(1024, ge=1)
    checkpoint_minutes: float = Field(5.0, ge=0)
    threads: int = Field(1, ge=1)
    device: str = "cpu"
    tensorboard: bool = False


class NamedArgs(Settings):
    """Something from a registry and the arguments it is built with."""

    name: str
    args: dict[str, Any] = Field(default_factory=dict)


class RunConfig(Settings):
    """Everything that decides the outcome of a run."""

    benchmark: NamedArgs
    method: NamedArgs
    seed: int = Field(0, ge=0)
    encoder: EncoderConfig = EncoderConfig()
    train: TrainConfig = TrainConfig()


def keyword_arguments(function: Callable[..., Any]) -> dict[str, Any]:
    """Names and defaults of the keyword-only arguments of a function: these are somebody's options."""
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def check_arguments(function: Callable[..., Any], given: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """All keyword-only arguments of `function`, the given ones checked against its type hints.

    Args:
        function: whose arguments they are.
        given: what the user wants.
        owner: how an error message calls the function, such as `method mphil`.
    """
    known, hints = keyword_arguments(function), get_type_hints(function)
    for key, value in given.items():
        if key not in known:
            raise UnknownName(f"option of {owner}", key, known)
        try:
            known[key] = TypeAdapter(hints[key], config=ConfigDict(allow_inf_nan=False)).validate_python(value)
        except ValidationError as error:
            raise UsageError(f"{owner}: {key}={value!r}: {error.errors()[0]['msg']}") from None
    return known
