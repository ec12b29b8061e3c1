"""What is known of a molecule as a whole, as features of its graph beside those of its atoms."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from mphil.errors import UsageError
from mphil.graphs.store import Batch

COUNTS, NUMBERS = 2048, 109
"""Columns of `batch.counts` and of `batch.descriptors`."""

RARE = 3
"""Neighbourhoods in fewer training molecules are left out."""

FARTHEST = 4.0
"""Standard deviations from the mean that a descriptor counts at most: a strange molecule must not drown the rest."""


class Descriptors(nn.Module):
    r"""Two layers on counts of neighbourhoods and standardised descriptors, (n_graphs, width).

    .. math::
        \mathbf g = \big[\log(1 + \mathbf c) \,\|\, (\mathbf d - \bar{\mathbf d}) / \mathrm{sd}(\mathbf d)\big], \qquad
        \mathrm{ReLU}\big(\mathbf W_2\, \mathrm{ReLU}(\mathbf W_1 \mathbf g)\big)

    A network sees small neighbourhoods of atoms and learns from a few thousand molecules which of them matter; rings,
    charges and sizes of the whole molecule, which trees on descriptors use, it would have to learn to count. The means
    and standard deviations are those of the training part.

    Args:
        width: size of both layers.
    """

    common: Tensor
    center: Tensor
    scale: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("common", torch.zeros(COUNTS))
        self.register_buffer("center", torch.zeros(NUMBERS))
        self.register_buffer("scale", torch.ones(NUMBERS))
        self.layers = nn.Sequential(
            *(nn.Dropout(0.2), nn.Linear(COUNTS + NUMBERS, width), nn.ReLU()),
            *(nn.Dropout(0.5), nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.5)),
        )

    @torch.no_grad()
    def fit(self, batches: Iterable[Batch]) -> None:
        """Learn from training graphs which neighbourhoods are common, and how descriptors are spread.

        Args:
            batches: all of them, in each of several processes.
        """
        seen = torch.zeros(COUNTS, dtype=torch.double, device=self.center.device)
        sums, squares = (seen.new_zeros(NUMBERS) for _ in range(2))
        graphs = 0
        for batch in batches:
            counts, numbers = known(batch)
            seen += (counts > 0).sum(0)
            sums += numbers.double().sum(0)
            squares += numbers.double().square().sum(0)
            graphs += len(numbers)
        mean = sums / graphs
        spread = (squares / graphs - mean.square()).clamp_min(0).sqrt()
        self.common.copy_(seen >= RARE)
        self.center.copy_(mean)
        self.scale.copy_(torch.where(spread > 1e-6 * (1 + mean.abs()), spread, 1.0))

    def forward(self, batch: Batch) -> Tensor:
        counts, numbers = known(batch)
        numbers = ((numbers - self.center) / self.scale).clamp(-FARTHEST, FARTHEST)
        told: Tensor = self.layers(torch.cat([counts.to(numbers.dtype).log1p() * self.common, numbers], 1))
        return told


def known(batch: Batch) -> tuple[Tensor, Tensor]:
    """Counts and descriptors of a batch.

    Raises:
        UsageError: the graphs are no molecules, or were put together without descriptors.
    """
    if "counts" not in batch or "descriptors" not in batch:
        raise UsageError(
            "this network takes descriptors, and these graphs carry none; give it molecules, or use "
            "method.descriptors=false"
        )
    return batch.counts, batch.descriptors
