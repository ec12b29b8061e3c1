"""Graph convolutions over weighted edges."""

from __future__ import annotations

from torch import Tensor, nn

from mphil.graphs.features import Features
from mphil.nn.encoders.blocks import Layered, embed_edges
from mphil.nn.encoders.encoder import register_encoder
from mphil.nn.fast.linear import BlasLinear


class GCNLayer(nn.Module):
    r"""One convolution (Kipf and Welling, 2017): neighbours averaged by degree, then a linear map.

    .. math:: h'_v = W \Big(\frac{h_v}{d_v} + \sum_{u \to v} \frac{w_{uv}}{\sqrt{d_u d_v}}\, m_{uv}\Big) + b, \qquad
              d_v = 1 + \sum_{u \to v} w_{uv}

    with :math:`m_{uv} = h_u`, or :math:`\mathrm{ReLU}(h_u + e_{uv})` with edge features. Every node has a loop of
    weight 1 to itself. Gradients reach the weights through the degrees too.
    """

    def __init__(self, before: int, after: int, edge: Features | None = None) -> None:
        super().__init__()
        self.linear = BlasLinear(before, after)
        self.edge = None if edge is None else embed_edges(edge, before)

    def forward(
        self, h: Tensor, edge_index: Tensor, weight: Tensor | None = None, edge_attr: Tensor | None = None
    ) -> Tensor:
        """Convolve.

        Args:
            h: (n_nodes, before) node features.
            edge_index: (2, n_edges).
            weight: (n_edges,) not negative; 1 when left out.
            edge_attr: (n_edges, columns) what the edges carry, if the layer was told about it.

        Returns:
            (n_nodes, after).
        """
        source, target = edge_index
        weight = h.new_ones(len(source)) if weight is None else weight
        scale = h.new_ones(len(h)).index_add(0, target, weight).rsqrt()
        said = h.index_select(0, source)
        if self.edge is not None:
            said = (said + self.edge(edge_attr)).relu()
        message = said * (weight * scale[source] * scale[target]).unsqueeze(1)
        out: Tensor = self.linear((h * scale.square().unsqueeze(1)).index_add(0, target, message))
        return out


@register_encoder("gcn")
class GCN(Layered):
    """Graph convolutional network: neighbours averaged by degree, then a linear map."""

    def layer(self, before: int, after: int, edge: Features) -> nn.Module:
        return GCNLayer(before, after, edge)
