"""iMoLD: a codebook in the encoder and a score for every channel of every node single out the invariant part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Method, Progress, register
from mphil.nn.encoders import build_encoder
from mphil.nn.encoders.blocks import mlp
from mphil.nn.losses import permutation, task_loss
from mphil.nn.masks import share_penalty
from mphil.nn.readout import Head, classifier, perceptron
from mphil.task import Task


@register(
    "imold",
    paper="Zhuang et al., 2023, Learning invariant molecular representation in latent discrete space, NeurIPS",
    search_space={
        "codes": [100, 500, 1000, 4000],
        "score_target": [0.5, 0.7, 0.9],
        "invariance": [0.01, 0.1, 0.5],
        "score_weight": [0.1, 0.5, 1.0],
    },
)
class IMoLD(Method):
    r"""Quantise node features, split them by scores, and make the invariant part immune to foreign spurious parts.

    .. math::
        h' = h + \mathrm{VQ}(h), \quad z_c = \overline{h' \odot s}, \quad z_s = \overline{h' \odot (1 - s)}, \quad
        s = \sigma(\mathrm{MLP}(\mathrm{GNN}_s(G))), \quad h = \mathrm{GNN}(G)

        \mathcal L = \ell(f(z_c), y) + \kappa \lVert h - \mathrm{sg}[q] \rVert^2
            - \lambda_1 \cos\big(\mathrm{sg}[z_c],\, m([z_c \| z_s^\pi])\big) + \lambda_2 |\bar s - \gamma|

    :math:`\mathrm{VQ}(h)` is the nearest word q of a codebook that follows by moving averages, with straight-through
    gradients; sg stops gradients. Training alternates by epochs: the first of every cycle trains the scorer, the others
    everything else. Batch statistics and the codebook move in both. Prediction: :math:`f(z_c)`.

    Args:
        task: what is asked.
        encoder: settings of both GNNs.
        codes: words of the codebook.
        commitment: :math:`\kappa`, pull of node features to their words.
        invariance: :math:`\lambda_1`, weight of the agreement after mixing.
        score_target: :math:`\gamma`, wanted mean score of a graph.
        score_weight: :math:`\lambda_2`.
        cycle: epochs of a cycle.
        head: f is linear (GOOD) or an `mlp` (DrugOOD).

    Differs from the authors' code: weights at rest do not drift by the momentum of an optimiser that holds them all.
    """

    def __init__(
        self,
        task: Task,
        encoder: EncoderConfig,
        *,
        codes: int = 4000,
        commitment: float = 0.1,
        invariance: float = 0.01,
        score_target: float = 0.9,
        score_weight: float = 0.5,
        cycle: int = 4,
        head: Head = "linear",
    ) -> None:
        super().__init__(task, encoder)
        if codes < 1 or cycle < 2:
            raise UsageError(f"imold needs 1 <= codes and 2 <= cycle, not {codes} and {cycle}")
        self.commitment, self.invariance, self.cycle = commitment, invariance, cycle
        self.score_target, self.score_weight = score_target, score_weight
        width, dropout = encoder.width, encoder.dropout
        self.scorer = build_encoder(encoder)
        self.score_head = mlp(width, 2 * width, width)
        self.encoder = build_encoder(encoder)
        self.codebook = Codebook(codes, width)
        self.mixer = perceptron(2 * width, width, width, dropout)
        self.head = classifier(head, width, task.n_outputs, dropout)

    def param_groups(self) -> dict[str, list[nn.Parameter]]:
        groups = {"scorer": (self.scorer, self.score_head), "encoder": (self.encoder, self.pool, self.mixer, self.head)}
        return {name: [p for module in modules for p in module.parameters()] for name, modules in groups.items()}

    def steps(self, batch: Batch, progress: Progress) -> Iterator[tuple[str, Losses]]:
        yield "scorer" if self.trains_scorer(progress) else "encoder", self.loss(batch, progress)

    def trains_scorer(self, progress: Progress) -> bool:
        """Whether this epoch trains the scorer."""
        return progress.epoch % self.cycle == 0

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        trains_scorer = self.trains_scorer(progress)
        # What rests in this epoch needs no gradient.
        with torch.set_grad_enabled(torch.is_grad_enabled() and not trains_scorer):
            nodes, commitment = self.discretise(batch)
        with torch.set_grad_enabled(torch.is_grad_enabled() and trains_scorer):
            scores = self.scores(batch)
        invariant = self.pool(nodes * scores, batch.ptr)
        spurious = self.pool(nodes * (1 - scores), batch.ptr)
        foreign = spurious[permutation(len(spurious), spurious.device)]
        mixed = self.mixer(torch.cat([invariant, foreign], dim=1))
        agreement = F.cosine_similarity(invariant.detach(), mixed).mean()
        share = share_penalty(scores.mean(1), batch.batch, len(batch.y), self.score_target)
        return Losses(
            classification=task_loss(self.head(invariant), batch.y, self.task),
            commitment=self.commitment * commitment,
            invariance=-self.invariance * agreement,
            score=self.score_weight * share,
        )

    def predict(self, batch: Batch) -> Tensor:
        logits: Tensor = self.head(self.embed(batch))
        return logits

    def embed(self, batch: Batch) -> Tensor:
        """(B, d) the invariant part of each graph."""
        nodes, _ = self.discretise(batch)
        return self.pool(nodes * self.scores(batch), batch.ptr)

    def node_importance(self, batch: Batch) -> Tensor:
        """(N,) mean of the scores over their channels."""
        return self.scores(batch).mean(1)

    def scores(self, batch: Batch) -> Tensor:
        """(N, d) how invariant each channel of each node is, between 0 and 1."""
        logits: Tensor = self.score_head(self.scorer(batch))
        return logits.sigmoid()

    def discretise(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(N, d) node features plus their nearest words, and their distance from them, a scalar."""
        nodes = self.encoder(batch)
        quantised = self.codebook(nodes)
        return nodes + quantised.vectors, quantised.commitment


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
