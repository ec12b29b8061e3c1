"""Two GNNs in a row: the first weighs the edges, the second classifies the graph it sees through the weights."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.graphs.store import Batch
from mphil.nn.encoders import build_encoder
from mphil.nn.heads import two_layers
from mphil.nn.masks import subgraph, top_share
from mphil.nn.rationale import require_share
from mphil.nn.readout import Readout
from mphil.nn.scorers import Scorer, edge_graph
from mphil.task import Task

Input = Literal["raw", "features"]


class WeightedClassifier(nn.Module):
    """Weighs the edges of a graph and classifies what is left of it.

    Args:
        task: what is asked.
        encoder: settings of both GNNs.
        keep: share of edges that are kept, the heaviest; 1 keeps all, and nodes without edges.
        sees: the second GNN sees the graph's own features or those of the first.
    """

    def __init__(self, task: Task, encoder: EncoderConfig, keep: float, sees: Input) -> None:
        super().__init__()
        width = encoder.width
        self.keep, self.goes_on, self.pool = require_share(keep), sees == "features", Readout(encoder.readout, width)
        self.encoder = build_encoder(encoder)
        self.scorer = Scorer(width, "edge", hidden=(4 * width, width), norm="graph", dropout=encoder.dropout)
        self.classifier = build_encoder(encoder, embedded=self.goes_on)
        self.head = two_layers(width, task.n_outputs)

    def weigh(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """(N, d) node features, (E,) weights of the edges between 0 and 1, (E,) whether they are kept."""
        nodes = self.encoder(batch)
        weights = self.scorer(nodes, batch).sigmoid()
        return nodes, weights, top_share(weights, edge_graph(batch), batch.ptr.numel() - 1, self.keep)

    def embed(self, batch: Batch) -> Tensor:
        """(B, d) the weighted part of each graph."""
        features, weights, kept = self.weigh(batch)
        if self.keep < 1:
            batch, nodes = subgraph(batch, kept)
            features, weights = features[nodes], weights[kept]
        out = self.classifier(batch, x=features if self.goes_on else None, edge_weight=weights)
        return self.pool(out, batch.ptr)
