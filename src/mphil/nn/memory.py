"""Something remembered of every training graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


class Memory(nn.Module):
    """A table with a row of values for every graph of a dataset, found by the graph's stable number.

    It grows as it is written to, is saved with the weights, and takes any size when weights are loaded.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.values: Tensor
        self.register_buffer("values", torch.zeros(0, width))

    def write(self, index: Tensor, values: Tensor) -> None:
        """Keep `values` (n, width) for the graphs with these numbers (n,)."""
        missing = int(index.max()) + 1 - len(self.values) if len(index) else 0
        if missing > 0:
            self.values = torch.cat([self.values, self.values.new_zeros(missing, self.values.shape[1])])
        self.values[index] = values.detach().to(self.values.dtype)

    def read(self, index: Tensor) -> Tensor:
        """(n, width) what was kept for the graphs with these numbers; zeros for a graph never written."""
        known = index < len(self.values)
        rows = self.values.new_zeros(len(index), self.values.shape[1])
        rows[known] = self.values[index[known]]
        return rows

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        saved = state_dict.get(f"{prefix}values")
        if isinstance(saved, Tensor):
            self.values = self.values.new_zeros(saved.shape)
        super()._load_from_state_dict(state_dict, prefix, *args)
