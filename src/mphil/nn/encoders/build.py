"""From settings to an encoder, and what is checked before; code that a stored model names is never imported."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import torch
from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.features import Features
from mphil.graphs.store import Batch, GraphStore
from mphil.nn.encoders import custom
from mphil.nn.encoders.base import ENCODERS, Encoder
from mphil.plugins import VARIABLE, load_plugins


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
        return custom.Custom(cls, config, embedded=embedded)
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
    if not custom.takes_weights(encoder_class(config.kind)):
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
    custom.check_output(out, len(batch.x), config.width, config.kind)


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
