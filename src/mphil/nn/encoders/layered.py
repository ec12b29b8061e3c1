"""What encoders of alike layers have in common."""

from __future__ import annotations

from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.graphs.features import Features
from mphil.graphs.store import Batch
from mphil.nn.dropout import Dropout
from mphil.nn.encoders.base import Encoder, message_weight
from mphil.nn.encoders.blocks import BatchNorm, embed_nodes


class Layered(Encoder):
    """Layers one after the other; after each batch normalisation, ReLU (not after the last of several), dropout."""

    def __init__(self, config: EncoderConfig, *, embedded: bool = False) -> None:
        super().__init__(config)
        if embedded:
            self.embed, before = None, config.width
        else:
            self.embed, before = embed_nodes(config.node, config.edge, config.width)
        widths = [before] + [config.width] * (config.layers - 1)
        self.layers = nn.ModuleList(self.layer(w, config.width, config.edge) for w in widths)
        self.norms = nn.ModuleList(BatchNorm(config.width) for _ in widths)
        self.dropout = Dropout(config.dropout)

    def layer(self, before: int, after: int, edge: Features) -> nn.Module:
        """A layer, called with node features, edge_index, the weight of every edge and what the edges carry."""
        raise NotImplementedError

    def forward(
        self,
        batch: Batch,
        *,
        x: Tensor | None = None,
        edge_weight: Tensor | None = None,
        node_weight: Tensor | None = None,
    ) -> Tensor:
        weight = message_weight(batch, edge_weight, node_weight)
        h = self.begin(batch, x)
        for number in range(len(self.layers)):
            h = self.round(number, h, batch.edge_index, weight, batch.edge_attr)
        return h

    def round(self, number: int, h: Tensor, edge_index: Tensor, *edges: Tensor | None) -> Tensor:
        """One layer, called with `h`, `edge_index` and `edges`, its normalisation, ReLU and dropout."""
        h = self.norms[number](self.layers[number](h, edge_index, *edges))
        out: Tensor = self.dropout(h.relu() if self.relu_after(number) else h)
        return out

    def relu_after(self, number: int) -> bool:
        """Whether a layer is followed by a ReLU: all but the last of several."""
        return number < len(self.layers) - 1 or len(self.layers) == 1
