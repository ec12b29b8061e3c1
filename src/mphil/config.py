"""Settings: frozen, typed, and refused when a key is unknown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator

from mphil.errors import UnknownName, UsageError
from mphil.graphs.features import Features

OWN_KIND = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
"""How an encoder of one's own is named."""


class Settings(BaseModel):
    """Base of all settings: immutable, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


SelectionRule = Literal["ood_val", "id_val"]
"""The validation part that chooses an epoch."""


class EncoderConfig(Settings):
    """The network that turns a graph into node features.

    Attributes:
        kind: `gin`, `vgin` (GIN with a virtual node, 3 layers or more), `gcn`, `gat`, `gps`, or a module of one's own
            as `package.module:Class`; see `mphil encoders`.
        layers: message-passing layers.
        width: size of the node features.
        dropout: share of features dropped after every layer.
        readout: how node features become one vector; `attention` learns what each node counts.
        node: what the nodes carry; filled in from the data.
        edge: what the edges carry; filled in from the data.
    """

    kind: str = Field("gin", max_length=200)
    layers: int = Field(3, ge=1, le=64)
    width: int = Field(300, ge=1, le=8192)
    dropout: float = Field(0.5, ge=0, lt=1)
    readout: Literal["mean", "sum", "max", "attention"] = "mean"
    node: Features = Features.constant()
    edge: Features = Features.none()

    @field_validator("kind")
    @classmethod
    def _kind_has_a_name(cls, kind: str) -> str:
        """Looks at the name only: settings may come from a stored model, and must not import what they name."""
        from mphil.nn.encoders.encoder import ENCODERS

        if ":" in kind:
            if not OWN_KIND.fullmatch(kind):
                raise ValueError("an encoder of one's own is written as package.module:Class")
        elif kind not in set(ENCODERS):
            raise ValueError(f"{UnknownName('encoder', kind, ENCODERS)} One of your own is package.module:Class")
        return kind

    @model_validator(mode="after")
    def _virtual_node_can_gather(self) -> EncoderConfig:
        if self.kind == "vgin" and self.layers < 3:
            raise ValueError(
                "a virtual node first speaks in the second layer and first listens after it: use 3 or more"
            )
        return self

    def plain(self, **changed: Any) -> EncoderConfig:
        """These settings without a virtual node, and with other changes."""
        return self.model_copy(update={"kind": "gin" if self.kind == "vgin" else self.kind, **changed})


class TrainConfig(Settings):
    """How training goes; nothing here is specific to a method.

    Attributes:
        epochs: passes over the training part.
        batch_size: graphs in a step.
        env_per_batch: environments in a batch, with equally many graphs of each; 0 = all graphs shuffled. Unset, it is
            4 for methods that need environments if shuffled batches would have fewer than 4 graphs of each, else 0.
        optimizer: `adam`, or `adamw` with decoupled weight decay.
        lr: learning rate.
        schedule: how the learning rate goes on after the warm-up: `constant`, or down to 0 as a `cosine` or `linear`.
        warmup: share of the steps in which the learning rate rises to `lr`.
        weight_decay: L2 penalty of Adam; with AdamW, share of the weights taken off in a step, times the learning rate.
        clip: largest gradient norm, 0 = no clipping.
        accumulate: batches whose gradients are averaged for one step of the optimiser.
        average: decay of a moving average of the weights, which is then what is scored and kept; 0 = no average.
        renormalise: estimate BatchNorm statistics anew on training graphs before an epoch is scored; an average
            always does.
        edge_drop: largest share of edges that a training graph loses at random, 0 = none; half of the graphs of a batch
            lose none.
        distract: share of training graphs that get a scrambled graph beside them, as a component of its own, 0 = none;
            for graphs whose class is a part of them.
        mix_features: share of training graphs whose node features are multiplied by a random matrix, 0 = none; for real
            numbers whose direction does not decide the class, such as colours.
        start: weights that the encoders start from: random ones if empty, `molecules` for those of this package, which
            were trained to predict descriptors and fingerprints of 103,195 molecules, or a file.
        max_steps: stop after so many steps, 0 = no limit.
        max_minutes: stop at the end of the epoch that passes this time, 0 = no limit.
        window: an epoch is chosen, and training stopped early, by the mean validation score of so many last epochs.
        min_epochs: no earlier epoch is chosen, and training is not stopped early before it.
        patience: stop after so many epochs without a better validation score, 0 = never.
        patience_on: the validation part that early stopping watches.
        scored: parts that a run scores: `all`, or `validation` alone, for choices that must not see a test part;
            `mphil evaluate` scores the others later.
        eval_batch_size: graphs in an evaluation batch.
        checkpoint_minutes: save inside an epoch after this time; the end of an epoch always saves.
        threads: processor threads that share the work of the compiled loops, 0 = as many as there are cores, at most
            two; no number changes a result.
        device: where tensors live, such as `cpu` or `cuda:0`.
        loggers: where the epochs are logged beside the run's own files: `tensorboard`, `wandb`, `mlflow`.
    """

    epochs: int = Field(100, ge=1)
    batch_size: int = Field(128, ge=1)
    env_per_batch: int | None = Field(None, ge=0)
    optimizer: Literal["adam", "adamw"] = "adam"
    lr: float = Field(1e-3, gt=0)
    schedule: Literal["constant", "cosine", "linear"] = "constant"
    warmup: float = Field(0.0, ge=0, lt=1)
    weight_decay: float = Field(0.0, ge=0)
    clip: float = Field(5.0, ge=0)
    accumulate: int = Field(1, ge=1)
    average: float = Field(0.0, ge=0, lt=1)
    renormalise: bool = False
    edge_drop: float = Field(0.0, ge=0, lt=1)
    distract: float = Field(0.0, ge=0, le=1)
    mix_features: float = Field(0.0, ge=0, le=1)
    start: str = Field("", max_length=4096)
    max_steps: int = Field(0, ge=0)
    max_minutes: float = Field(0.0, ge=0)
    window: int = Field(1, ge=1)
    min_epochs: int = Field(0, ge=0)
    patience: int = Field(0, ge=0)
    patience_on: SelectionRule = "ood_val"
    scored: Literal["all", "validation"] = "all"
    eval_batch_size: int = Field(1024, ge=1)
    checkpoint_minutes: float = Field(5.0, ge=0)
    threads: int = Field(0, ge=0, le=64)
    device: str = "cpu"
    loggers: tuple[Literal["tensorboard", "wandb", "mlflow"], ...] = ()


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
    """Names and defaults of the keyword-only arguments of a function: these are a user's options."""
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
