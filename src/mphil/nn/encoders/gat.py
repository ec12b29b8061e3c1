"""Graph attention over weighted edges."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mphil.graphs.features import Features
from mphil.nn.encoders.blocks import Layered, embed_edges
from mphil.nn.encoders.encoder import register_encoder
from mphil.nn.fast.linear import BlasLinear

MOST_HEADS = 4
SLOPE = 0.2
"""Of the leaky ReLU that scores pass."""


class GATLayer(nn.Module):
    r"""One round of attention (Velickovic et al., 2018), with heads side by side.

    .. math:: h'_v = \sum_{u \in N(v) \cup \{v\}} \alpha_{uv} W h_u + b, \qquad
              \alpha_{uv} \propto w_{uv} \exp \mathrm{LeakyReLU}(a_s^\top W h_u + a_t^\top W h_v + a_e^\top e_{uv})

    Every node attends to itself with weight 1 and no edge feature; an edge of weight 0 is not attended to.
    """

    def __init__(self, before: int, after: int, edge: Features) -> None:
        super().__init__()
        self.heads = heads_for(after)
        self.linear = BlasLinear(before, after, bias=False)
        self.source, self.target = (nn.Parameter(torch.empty(self.heads, after // self.heads)) for _ in range(2))
        for vector in (self.source, self.target):
            nn.init.xavier_uniform_(vector)
        self.edge = embed_edges(edge, self.heads)
        self.bias = nn.Parameter(torch.zeros(after))

    def forward(self, h: Tensor, edge_index: Tensor, weight: Tensor | None, edge_attr: Tensor | None) -> Tensor:
        """Attend: (n_nodes, before) -> (n_nodes, after)."""
        source, target = edge_index
        values = self.linear(h).view(-1, *self.source.shape)
        sent, wanted = (values * self.source).sum(2), (values * self.target).sum(2)
        scores = sent.index_select(0, source) + wanted.index_select(0, target)
        if self.edge is not None:
            scores = scores + self.edge(edge_attr)
        scores, own = (nn.functional.leaky_relu(s, SLOPE) for s in (scores, sent + wanted))
        # The largest score of each node, taken off before exponentials; the shares do not change by it.
        most = own.detach().scatter_reduce(0, target.unsqueeze(1).expand_as(scores), scores.detach(), "amax")
        own_share = (own - most).exp()
        share = (scores - most.index_select(0, target)).exp()
        share = share if weight is None else share * weight.unsqueeze(1)
        total = own_share.index_add(0, target, share)
        messages = share.unsqueeze(2) * values.index_select(0, source)
        summed = (own_share.unsqueeze(2) * values).index_add(0, target, messages)
        out: Tensor = (summed / total.unsqueeze(2)).flatten(1) + self.bias
        return out


def heads_for(width: int) -> int:
    """The most heads, up to four, that divide a width.

    Example:
        >>> heads_for(300), heads_for(6), heads_for(7)
        (4, 3, 1)
    """
    return next(heads for heads in range(MOST_HEADS, 0, -1) if width % heads == 0)


@register_encoder("gat")
class GAT(Layered):
    """Graph attention network: neighbours averaged by learned attention, up to four heads."""

    def layer(self, before: int, after: int, edge: Features) -> nn.Module:
        return GATLayer(before, after, edge)
