"""Graphs of a batch side by side, padded to a common size."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Padded:
    """Graphs of about the same size, padded to the largest of them.

    Attributes:
        chosen: (n_graphs,) bool, which graphs of the batch these g are.
        nodes: (g, n) row of each node in the batch; 0 where there is none.
        present: (g, n) whether there is a node.
    """

    chosen: Tensor
    nodes: Tensor
    present: Tensor


def pad_by_size(ptr: Tensor) -> list[Padded]:
    """All graphs that have nodes, grouped by powers of two of their sizes.

    So a batch costs the sum of its own graphs' squares, up to a factor of four, however unequal they are.

    Args:
        ptr: (n_graphs + 1,) where each graph begins.

    Example:
        >>> [padded.nodes.tolist() for padded in pad_by_size(torch.tensor([0, 1, 4, 4, 8, 9]))]
        [[[0], [8]], [[1, 2, 3, 0], [4, 5, 6, 7]]]
    """
    sizes = ptr.diff()
    bits = int(sizes.max()).bit_length() + 1 if len(sizes) else 0
    groups = ((sizes <= high) & (sizes > high // 2) for high in (1 << power for power in range(bits)))
    return [_pad(ptr, chosen) for chosen in groups if bool(chosen.any())]


def _pad(ptr: Tensor, chosen: Tensor) -> Padded:
    starts, sizes = ptr[:-1][chosen], ptr.diff()[chosen]
    place = torch.arange(int(sizes.max()), device=ptr.device)
    present = place < sizes.unsqueeze(1)
    return Padded(chosen, torch.where(present, starts.unsqueeze(1) + place, 0), present)
