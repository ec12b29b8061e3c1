"""Graph convolutions over weighted edges."""

from __future__ import annotations

from torch import Tensor, nn


class GCNLayer(nn.Module):
    r"""One convolution (Kipf and Welling, 2017): neighbours averaged by degree, then a linear map.

    .. math:: h'_v = W \Big(\frac{h_v}{d_v} + \sum_{u \to v} \frac{w_{uv}}{\sqrt{d_u d_v}}\, h_u\Big) + b, \qquad
              d_v = 1 + \sum_{u \to v} w_{uv}

    Every node has a loop of weight 1 to itself. Gradients reach the weights through the degrees too.
    """

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.linear = nn.Linear(before, after)

    def forward(self, h: Tensor, edge_index: Tensor, weight: Tensor | None = None) -> Tensor:
        """Convolve.

        Args:
            h: (n_nodes, before) node features.
            edge_index: (2, n_edges).
            weight: (n_edges,) not negative; 1 when left out.

        Returns:
            (n_nodes, after).
        """
        source, target = edge_index
        weight = h.new_ones(len(source)) if weight is None else weight
        scale = h.new_ones(len(h)).index_add(0, target, weight).rsqrt()
        message = h.index_select(0, source) * (weight * scale[source] * scale[target]).unsqueeze(1)
        out: Tensor = self.linear((h * scale.square().unsqueeze(1)).index_add(0, target, message))
        return out
