"""Any PyTorch module as an encoder, named by `package.module:Class`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.store import Batch
from mphil.nn.encoders.base import Encoder, message_weight
from mphil.nn.encoders.blocks import embed_edges, embed_to_width

GIVEN = ("x", "edge_index", "edge_attr", "edge_weight", "batch")
"""What `forward` of a module can be called with."""


def takes_weights(cls: type[nn.Module]) -> bool:
    """Whether a class takes a weight for every edge; PyG's own models have the argument and say if they use it."""
    if issubclass(cls, Encoder):
        return cls.takes_weights
    return "edge_weight" in _parameters(cls.forward) and bool(getattr(cls, "supports_edge_weight", True))


class Custom(Encoder):
    """Input layers of our own and a module that goes on from (n_nodes, width) node features.

    Args:
        cls: the class of the module. It is built with `config`, or else with those of PyG's usual arguments that it
            takes: in_channels, hidden_channels, out_channels, num_layers, dropout, edge_dim.
        config: its settings.
        embedded: node features of the width are given as `x`; there is no input layer.
    """

    def __init__(self, cls: type[nn.Module], config: EncoderConfig, *, embedded: bool = False) -> None:
        super().__init__(config)
        self.kind = config.kind
        self.embed = None if embedded else embed_to_width(config.node, config.width)
        self.asked = _asked(cls, config.kind)
        self.weighted = takes_weights(cls)
        with_edges = "edge_attr" in self.asked and bool(getattr(cls, "supports_edge_attr", True))
        self.edge = embed_edges(config.edge, config.width) if with_edges else None
        self.module = _build(cls, config, with_edges=self.edge is not None)

    def forward(
        self,
        batch: Batch,
        *,
        x: Tensor | None = None,
        edge_weight: Tensor | None = None,
        node_weight: Tensor | None = None,
    ) -> Tensor:
        weight = message_weight(batch, edge_weight, node_weight)
        if weight is not None and not self.weighted:
            raise UsageError(f"encoder.kind={self.kind!r}: its forward takes no edge_weight")
        h = self.begin(batch, x)
        given = {"x": h, "edge_index": batch.edge_index, "batch": batch.batch, "edge_weight": weight}
        given["edge_attr"] = None if self.edge is None else self.edge(batch.edge_attr)
        if self.asked.get("edge_weight", False) and weight is None:
            given["edge_weight"] = h.new_ones(batch.edge_index.shape[1])
        out = self.module(**{name: value for name, value in given.items() if name in self.asked and value is not None})
        return out if torch.compiler.is_compiling() else check_output(out, len(h), self.width, self.kind)


def check_output(out: Any, nodes: int, width: int, kind: str) -> Tensor:
    """What an encoder returned, if it has a row of encoder.width features for each node."""
    if not isinstance(out, Tensor) or tuple(out.shape) != (nodes, width):
        came = f"shape {tuple(out.shape)}" if isinstance(out, Tensor) else f"a {type(out).__name__}"
        raise UsageError(
            f"encoder.kind={kind!r} must return shape ({nodes}, {width}), encoder.width features for each of {nodes} "
            f"nodes, not {came}"
        )
    return out


def _asked(cls: type[nn.Module], kind: str) -> dict[str, bool]:
    """Which of the things that we can give `forward` takes, and whether it must have them."""
    parameters = _parameters(cls.forward)
    required = {name for name, p in parameters.items() if p.default is p.empty and p.kind not in (2, 4)}
    strange = sorted(required - set(GIVEN))
    if strange or not {"x", "edge_index"} <= parameters.keys():
        raise UsageError(
            f"encoder.kind={kind!r}: forward must take x and edge_index, and besides only {', '.join(GIVEN[2:])} or "
            f"arguments with a default; it takes {', '.join(parameters) or 'nothing'}"
        )
    return {name: name in required for name in GIVEN if name in parameters}


def _build(cls: type[nn.Module], config: EncoderConfig, *, with_edges: bool) -> nn.Module:
    parameters = _parameters(cls.__init__)
    width = config.width
    usual = {
        "in_channels": width,
        "hidden_channels": width,
        "out_channels": width,
        "num_layers": config.layers,
        "dropout": config.dropout,
    }
    given: dict[str, Any] = {name: value for name, value in usual.items() if name in parameters}
    if "config" in parameters:
        given = {"config": config}
    elif with_edges and ("edge_dim" in parameters or getattr(cls, "supports_edge_attr", False)):
        given["edge_dim"] = width  # PyG's models hand it on to their layers
    try:
        return cls(**given)
    except Exception as error:  # whatever the class does
        raise UsageError(
            f"encoder.kind={config.kind!r} cannot be built with {', '.join(given) or 'no arguments'}: {error}; "
            "give it an argument `config`, an EncoderConfig, or the arguments of PyG's models"
        ) from error


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    parameters = dict(inspect.signature(function).parameters)
    parameters.pop("self", None)
    return parameters
