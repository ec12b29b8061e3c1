"""What an encoder is, and the table of those that have a name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import ClassVar, TypeVar

from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.graphs.store import Batch
from mphil.registry import Registry


class Encoder(nn.Module):
    """A network that turns a batch of graphs into (n_nodes, width) node features.

    Args:
        config: its settings.
        embedded: it goes on from node features of its own width, given as `x`, and has no input layer.

    Attributes:
        takes_weights: whether `forward` takes `edge_weight` and `node_weight`.
        takes_embedded: whether it can be built with `embedded=True`.
        width: size of the node features.
        embed: the input layer, which is left out when `x` is given; None if it is `embedded`.
    """

    takes_weights: ClassVar[bool] = True
    takes_embedded: ClassVar[bool] = True
    width: int
    embed: nn.Module | None

    def __init__(self, config: EncoderConfig, *, embedded: bool = False) -> None:
        super().__init__()
        self.width = config.width

    def forward(
        self,
        batch: Batch,
        *,
        x: Tensor | None = None,
        edge_weight: Tensor | None = None,
        node_weight: Tensor | None = None,
    ) -> Tensor:
        """Encode a batch.

        Args:
            batch: the graphs.
            x: what to go on from in place of the input layer's output, (n_nodes, width) if it is `embedded`.
            edge_weight: (n_edges,) factor of every message, not negative; 0 is the same as no edge.
            node_weight: (n_nodes,) factor of everything a node says to others: 0 hides it from them, while its own
                row remains and the readout decides whether it counts.

        Returns:
            (n_nodes, width) node features.
        """
        raise NotImplementedError

    def begin(self, batch: Batch, x: Tensor | None) -> Tensor:
        """The rows that the first layer takes: `x` if it is given, else what the input layer makes of the batch."""
        if x is not None:
            return x
        if self.embed is None:
            raise ValueError("an encoder without an input layer needs x")
        rows: Tensor = self.embed(batch.x)
        return rows


ENCODERS: Registry[type[Encoder]] = Registry("encoder", "mphil.nn.encoders", group="mphil.encoders")
E = TypeVar("E", bound=type[Encoder])


def register_encoder(name: str) -> Callable[[E], E]:
    """Class decorator: put an encoder into the table of encoders.

    Args:
        name: what people type as `encoder.kind`. The first line of the docstring says what it is.
    """

    def add(cls: E) -> E:
        ENCODERS.add(name, cls, cls.__module__)
        return cls

    return add


def summary(name: str) -> str:
    """One line about an encoder of the table."""
    return (inspect.getdoc(ENCODERS[name]) or "").partition("\n")[0]


def message_weight(batch: Batch, edge_weight: Tensor | None, node_weight: Tensor | None) -> Tensor | None:
    """(n_edges,) factor of every message: that of its edge times that of the node that sends it."""
    if node_weight is None:
        return edge_weight
    said = node_weight.index_select(0, batch.edge_index[0])
    return said if edge_weight is None else edge_weight * said
