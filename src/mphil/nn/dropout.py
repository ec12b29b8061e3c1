"""Dropout with cheap random bits."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mphil.nn.fast.words import random_words

LEVELS = 1 << 16


class Dropout(nn.Module):
    """Dropout that cuts four decisions out of every 64 random bits; its rate is a multiple of 1 / 65,536.

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

    def draw(self, rows: int, width: int, like: Tensor) -> Tensor | None:
        """(rows, width) int16 random numbers for features such as `like`, or None when nothing is dropped."""
        if not self.active:
            return None
        words = random_words((rows * width + 3) // 4, like)
        return words.view(torch.int16).as_strided((rows, width), (width, 1))

    def forward(self, x: Tensor) -> Tensor:
        draws = self.draw(len(x), x[:1].numel(), x)
        return x if draws is None else x * self.mask(draws.view_as(x), x.dtype)

    def mask(self, draws: Tensor, dtype: torch.dtype) -> Tensor:
        """Factors of the features: 0 where dropped."""
        return (draws >= self.least).to(dtype).div_(self.kept)
