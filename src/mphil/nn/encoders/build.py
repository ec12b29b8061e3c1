"""From settings to an encoder, and what is checked before."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.features import Features
from mphil.graphs.store import Batch, GraphStore
from mphil.nn.encoders import custom
from mphil.nn.encoders.base import ENCODERS, Encoder
from mphil.nn.encoders.loading import import_class, known_class


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
