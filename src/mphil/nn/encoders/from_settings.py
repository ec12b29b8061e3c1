"""From settings to an encoder, of ours or any PyTorch module; code that a stored model names is never imported."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.features import Features
from mphil.graphs.store import Batch, GraphStore
from mphil.nn.encoders.blocks import embed_edges, embed_to_width
from mphil.nn.encoders.encoder import ENCODERS, Encoder, message_weight
from mphil.registry import VARIABLE, load_plugins

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


def build_encoder(config: EncoderConfig, *, embedded: bool = False) -> Encoder:
    """The encoder of `config.kind`; a class of the user's own must have been imported already.

    Args:
        config: its settings.
        embedded: it goes on from node features of its own width, given as `x`, and has no input layer.

    Raises:
        UsageError: it cannot be built, or not without an input layer.
    """
    cls = encoder_class(config.kind)
    if not issubclass(cls, Encoder):
        return Custom(cls, config, embedded=embedded)
    if embedded and not cls.takes_embedded:
        raise UsageError(
            f"encoder.kind={config.kind!r} cannot go on from features of another network, which this method needs; "
            f"use {_kinds(embedded=True)}"
        )
    return cls(config, embedded=embedded)


def encoder_class(kind: str) -> type[nn.Module]:
    """The class of a kind: from the table, or one of the user's own."""
    return known_class(kind) if ":" in kind else ENCODERS[kind]


def require_weights(config: EncoderConfig, method: str) -> None:
    """Refuse an encoder without edge weights for a method that needs them."""
    if not takes_weights(encoder_class(config.kind)):
        raise UsageError(
            f"{method} weighs edges, and encoder.kind={config.kind!r} takes no edge weights; use {_kinds()}, "
            "or another method"
        )


def _kinds(*, embedded: bool = False) -> str:
    names = [name for name in ENCODERS if (ENCODERS[name].takes_embedded if embedded else ENCODERS[name].takes_weights)]
    return ", ".join(names)


def admit(config: EncoderConfig) -> None:
    """Import the encoder that the user of this process asked for, and try it on two small graphs.

    Raises:
        UsageError: it cannot be imported or built, fails, or gives another shape than (n_nodes, width).
    """
    if ":" not in config.kind:
        return
    import_class(config.kind)
    batch = two_graphs(config)
    with torch.random.fork_rng(devices=[]):
        encoder = build_encoder(config).eval()
    try:
        with torch.no_grad():
            out = encoder(batch)
    except UsageError:
        raise
    except Exception as error:  # whatever the module does
        raise UsageError(
            f"encoder.kind={config.kind!r} fails on two small graphs: {type(error).__name__}: {error}"
        ) from error
    check_output(out, len(batch.x), config.width, config.kind)


def two_graphs(config: EncoderConfig) -> Batch:
    """A path of three nodes and one of two, with features of the kinds that the data have."""
    edges = torch.tensor([[0, 1, 1, 2, 0, 1], [1, 0, 2, 1, 1, 0]], dtype=torch.int32)
    store = GraphStore(
        x=_ones(config.node, 5),
        edge_index=edges,
        edge_attr=None if config.edge.kind == "none" else _ones(config.edge, edges.shape[1]),
        node_ptr=torch.tensor([0, 3, 5]),
        edge_ptr=torch.tensor([0, 4, 6]),
        y=torch.zeros(2, 1),
        env=torch.zeros(2, dtype=torch.long),
        index=torch.arange(2),
        node_features=config.node,
        edge_features=config.edge,
    )
    return store.batch(torch.arange(2))


def _ones(features: Features, rows: int) -> Tensor:
    """Ones, or the first code of every column."""
    return torch.full((rows, features.width), features.kind != "categorical", dtype=features.dtype())


OWN = "torch_geometric.nn"
"""A dependency of this package, which a stored model may name: it is imported when it is needed."""

_admitted: dict[str, type[nn.Module]] = {}
"""Classes that the user of this process has asked for."""


def import_class(kind: str) -> type[nn.Module]:
    """The class that a user asked for; its module is imported.

    Only for what was typed by the user of this process: importing runs code.
    """
    module, _, name = kind.partition(":")
    load_plugins()
    try:
        found = getattr(importlib.import_module(module), name, None)
    except Exception as error:  # importing a module may fail in any way
        raise UsageError(
            f"encoder.kind={kind!r}: {module} cannot be imported ({type(error).__name__}: {error}); "
            "install it, put its folder on PYTHONPATH, or give its file with --plugin"
        ) from error
    _admitted[kind] = _checked_class(kind, found)
    return _admitted[kind]


def known_class(kind: str) -> type[nn.Module]:
    """The class, if its module was imported for another reason, or is PyG's: a stored model must not import code.

    Raises:
        UsageError: the module is not imported, or the class is no network.
    """
    if kind in _admitted:
        return _admitted[kind]
    module, _, name = kind.partition(":")
    trusted = load_plugins()
    if module == OWN:
        importlib.import_module(OWN)
    if module not in sys.modules:
        raise UsageError(
            f"encoder.kind={kind!r}: the module {module} is not imported, and a stored model must not import code by "
            f"itself; if you trust that module, set {VARIABLE}={module} or give its file with --plugin"
        )
    # A module may run code of its own when it is asked for a name that it does not have.
    found = getattr(sys.modules[module], name, None) if module in trusted else vars(sys.modules[module]).get(name)
    return _checked_class(kind, found)


def _checked_class(kind: str, found: Any) -> type[nn.Module]:
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        what = "there is no such name" if found is None else f"it is a {type(found).__name__}"
        if isinstance(found, type):
            what = "it is another kind of class"
        raise UsageError(f"encoder.kind={kind!r}: a subclass of torch.nn.Module is expected, and {what}")
    return found
