"""A vocabulary of vectors that follows the data by moving averages."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ROWS_AT_ONCE = 4096
"""Vectors compared with the whole codebook at a time; more would take memory and no less time."""


class Quantised(NamedTuple):
    """What a codebook makes of vectors.

    Attributes:
        vectors: (n, width) the nearest words; gradients pass through as if nothing had been replaced.
        commitment: scalar, mean squared distance of the vectors from their words; its gradient moves the vectors only.
        word: (n,) number of the nearest word.
    """

    vectors: Tensor
    commitment: Tensor
    word: Tensor


class Codebook(nn.Module):
    r"""Vector quantisation with a codebook learned by moving averages (van den Oord et al., 2017, appendix A).

    In training every call counts how often each word :math:`k` was nearest and sums the vectors it was nearest to:

    .. math:: n_k \leftarrow \delta n_k + (1-\delta) \sum_i 1(k_i = k), \qquad
              S_k \leftarrow \delta S_k + (1-\delta) \sum_i 1(k_i = k)\, h_i, \qquad
              c_k = \frac{S_k}{\tilde n_k}, \quad \tilde n_k = \frac{n_k + \epsilon}{N + K\epsilon}\, N, \quad
              N = \sum_k n_k

    Words begin Kaiming-uniform with counts of 0: one that is not used is divided by almost nothing and leaves, until
    its sum has faded too and it comes back towards 0. No dead word is replaced.

    Args:
        size: K, words.
        width: of the vectors.
        decay: :math:`\delta`, how much of the past is kept.
        smoothing: :math:`\epsilon`, Laplace smoothing of the counts.
    """

    def __init__(self, size: int, width: int, *, decay: float = 0.9, smoothing: float = 1e-5) -> None:
        super().__init__()
        self.decay, self.smoothing = decay, smoothing
        self.words: Tensor
        self.counts: Tensor
        self.sums: Tensor
        words = nn.init.kaiming_uniform_(torch.empty(size, width))
        self.register_buffer("words", words)
        self.register_buffer("counts", torch.zeros(size))
        self.register_buffer("sums", words.clone())

    def forward(self, vectors: Tensor) -> Quantised:
        """Replace each of the (n, width) vectors by its nearest word; in training, move the words afterwards."""
        seen = vectors.detach()
        word = self.nearest(seen)
        chosen = self.words[word]
        if self.training:
            self.follow(seen, word)
        return Quantised(vectors + (chosen - seen), F.mse_loss(vectors, chosen), word)

    def nearest(self, vectors: Tensor) -> Tensor:
        """(n,) number of the word with the smallest Euclidean distance."""
        half_squares = self.words.square().sum(1) / 2
        # The vector's own length is the same for all words and is left out.
        closeness = (rows @ self.words.T - half_squares for rows in torch.split(vectors, ROWS_AT_ONCE))
        return torch.cat([one.argmax(1) for one in closeness])

    @torch.no_grad()
    def follow(self, vectors: Tensor, word: Tensor) -> None:
        """Move the words by the vectors they were nearest to."""
        counts = torch.bincount(word, minlength=len(self.words)).to(vectors.dtype)
        sums = torch.zeros_like(self.sums).index_add(0, word, vectors)
        self.counts = self.counts.lerp(counts, 1 - self.decay)
        self.sums = self.sums.lerp(sums, 1 - self.decay)
        total = self.counts.sum()
        smoothed = (self.counts + self.smoothing) / (total + len(self.words) * self.smoothing) * total
        self.words = self.sums / smoothed.unsqueeze(1)
