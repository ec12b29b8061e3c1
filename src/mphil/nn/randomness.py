"""Initial values of parameters, and dropout with cheap random bits, the same with compiled loops and without."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mphil.nn.fast.library import kernels


def standard_normal(*shape: int) -> Tensor:
    """The bits of `torch.randn`; on the device `meta`, where a draw would import the compiler of torch, no draw.

    Example:
        >>> with torch.device("meta"):
        ...     standard_normal(2, 3)
        tensor(..., device='meta', size=(2, 3))
    """
    values = torch.empty(*shape)
    return values if values.is_meta else values.normal_()


STEP, FIRST, SECOND = (word - (1 << 64) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
"""The constants of SplitMix64, as signed numbers."""


def random_words(n: int, like: Tensor) -> Tensor:
    """(n,) int64 of random bits on the device of `like`: SplitMix64, begun where the generator of torch says."""
    seed = torch.empty((), dtype=torch.int64, device=like.device).random_(-(1 << 63), None)
    compiled = kernels(like)
    if compiled is None:
        return plain_words(seed, n)
    words = seed.new_empty(n)
    compiled.random_words(out=words, seed=seed.item(), n=n)
    return words


def plain_words(seed: Tensor, n: int) -> Tensor:
    """Words 1 to n of SplitMix64 (Steele, Lea and Flood, 2014) in torch."""
    word = seed + torch.arange(1, n + 1, device=seed.device) * STEP
    word = (word ^ _shifted(word, 30)) * FIRST
    word = (word ^ _shifted(word, 27)) * SECOND
    return word ^ _shifted(word, 31)


def _shifted(word: Tensor, bits: int) -> Tensor:
    """To the right, with zeros from the left."""
    return (word >> bits) & ((1 << (64 - bits)) - 1)


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
