"""Dropout with cheap random bits."""

from __future__ import annotations

import torch
from torch import Tensor, nn

LEVELS = 1 << 16


class Dropout(nn.Module):
    """Dropout that cuts four decisions out of every 64 random bits.

    On a CPU, drawing one random number for each element takes a fifth of the training time of a small network. The
    rate is rounded to a multiple of 1 / 65,536.

    Attributes:
        least: a feature is kept where its draw is not below this.
        kept: the share that is kept, by which features are divided.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        dropped = round(rate * LEVELS)
        self.rate = rate
        self.least, self.kept = dropped - LEVELS // 2, 1 - dropped / LEVELS

    @property
    def active(self) -> bool:
        return self.training and self.kept < 1

    def draw(self, rows: int, width: int, device: torch.device) -> Tensor | None:
        """(rows, width) int16 random numbers, or None when nothing is dropped."""
        if not self.active:
            return None
        words = torch.empty((rows * width + 3) // 4, dtype=torch.int64, device=device).random_(-(1 << 63), None)
        return words.view(torch.int16)[: rows * width].view(rows, width)

    def forward(self, x: Tensor) -> Tensor:
        draws = self.draw(len(x), x[:1].numel(), x.device)
        return x if draws is None else x * self.mask(draws.view_as(x), x.dtype)

    def mask(self, draws: Tensor, dtype: torch.dtype) -> Tensor:
        """Factors of the features: 0 where dropped."""
        return (draws >= self.least).to(dtype).div_(self.kept)
