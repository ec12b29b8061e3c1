"""How far a graph lies from the training graphs: scores, of which a higher one is further, and bands to read them by.

What a score means depends on the model and the data. `Bands` turns it into words: it is compared with the scores of
held-out graphs of the same kind as the training graphs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ConfigDict

from mphil.errors import DataError, UsageError
from mphil.task import Task, as_labels
from mphil.trust.neighbours import Bytes, cosine_to_nearest, most_similar
from mphil.trust.values import (
    Floats,
    as_rows,
    as_scores,
    check_share,
    class_logits,
    log_sum_exp,
    rank,
    restore,
    softmax,
)

if TYPE_CHECKING:
    from torch import Tensor

VERDICTS = ("in domain", "borderline", "out of domain")
LEAST_SHRINKAGE = 1e-6
LEAST_VARIANCE = 1e-12
"""Keep a covariance invertible where the data leave a direction without any variance."""


def energy(logits: ArrayLike | Tensor, task: Task) -> Floats:
    r"""Free energy :math:`-\log\sum_c e^{f_c}`, averaged over tasks (Liu et al., 2020): (n, outputs) -> (n,).

    A single logit is read as two that change places with the labels (see `values.py`); the order is then that of
    `max_probability` for a binary task.
    """
    outputs = as_rows(logits, task.n_outputs, "logits")
    found: Floats = -log_sum_exp(class_logits(outputs, task.kind)).mean(1)
    return found


def max_probability(logits: ArrayLike | Tensor, task: Task) -> Floats:
    r""":math:`1 - \max_c p_c`, averaged over tasks (Hendrycks and Gimpel, 2017): (n, outputs) -> (n,).

    It is the sum of the other probabilities, which tells a sure prediction from a surer one.

    Example:
        >>> max_probability([[0.0], [3.0]], Task("binary", 1, "roc_auc")).round(3).tolist()
        [0.5, 0.047]
    """
    outputs = as_rows(logits, task.n_outputs, "logits")
    chances = np.sort(softmax(class_logits(outputs, task.kind)), axis=-1)
    found: Floats = chances[..., :-1].sum(-1).mean(1)
    return found


def prototypes(own: ArrayLike | Tensor) -> Floats:
    """(n,) the score that a method with prototypes gives itself, `Method.ood_score`, checked.

    For MPHIL it is, up to a constant, the negative log-likelihood of the likeliest class under a mixture of von
    Mises-Fisher distributions around its prototypes.
    """
    return as_scores(own, "scores of the method")


def knn(embeddings: ArrayLike | Tensor, references: ArrayLike | Tensor, neighbours: int = 10) -> Floats:
    """1 - cosine to the k-th nearest training graph (Sun et al., 2022).

    Args:
        embeddings: (n, p); their lengths do not matter.
        references: (m, p) of training graphs.
        neighbours: k; all references when there are fewer.

    Example:
        >>> knn([[1.0, 0.0], [0.0, 2.0]], [[1.0, 0.0], [3.0, 0.0]], neighbours=2).tolist()
        [0.0, 1.0]
    """
    return 1 - cosine_to_nearest(embeddings, references, neighbours)


def tanimoto(fingerprints: Bytes, references: Bytes) -> Floats:
    """1 - Tanimoto similarity to the nearest training molecule; packed bits (n, bytes), (m, bytes) -> (n,)."""
    return 1 - most_similar(fingerprints, references)[1]


@dataclass(frozen=True, eq=False)
class Gaussian:
    """One normal distribution for each class, all of the same shape.

    Attributes:
        means: (classes, p) centres.
        whitening: (p, p) matrix after which the shape is a unit ball.
    """

    means: Floats
    whitening: Floats

    @classmethod
    def fit(cls, embeddings: ArrayLike | Tensor, y: ArrayLike | Tensor, task: Task) -> Gaussian:
        """From training graphs.

        The covariance is shrunk towards a ball (Ledoit and Wolf, 2004), so that few graphs are enough.

        Args:
            embeddings: (n, p), n > 0.
            y: (n, tasks) labels. Graphs of several tasks or with measured labels have no one class, and get a single
                distribution; so do graphs without any label. Otherwise unlabelled graphs are left out.
            task: what is asked.
        """
        points = as_rows(embeddings, None, "embeddings")
        labels = as_labels(y, task, len(points))
        if not len(points):
            raise DataError("there is no training graph to learn a distribution from")
        known = ~np.isnan(labels[:, 0])
        if task.kind in ("multitask", "regression") or not known.any():
            owner = np.zeros(len(points), np.int64)
        else:
            points = points[known]
            _, owner = np.unique(labels[known, 0], return_inverse=True)
        means = np.stack([points[owner == number].mean(0) for number in range(owner.max() + 1)])
        root = np.linalg.cholesky(shrunk_covariance(points - means[owner]))
        return cls(means, np.linalg.inv(root))


def mahalanobis(embeddings: ArrayLike | Tensor, gaussian: Gaussian) -> Floats:
    r"""Squared distance to the nearest class, :math:`\min_c (z-\mu_c)^\top\Sigma^{-1}(z-\mu_c)` (Lee et al., 2018).

    Example:
        >>> gaussian = Gaussian.fit([[1.0], [-1.0]], [[0.0], [0.0]], Task("binary", 1, "roc_auc"))
        >>> mahalanobis([[0.0], [3.0]], gaussian).round(3).tolist()
        [0.0, 9.0]
    """
    points = as_rows(embeddings, gaussian.means.shape[1], "embeddings")
    placed, centres = points @ gaussian.whitening.T, gaussian.means @ gaussian.whitening.T
    found: Floats = np.stack([((placed - centre) ** 2).sum(1) for centre in centres]).min(0)
    return found


def shrunk_covariance(centred: Floats) -> Floats:
    r"""Covariance (p, p) of centred rows (n, p), shrunk: :math:`(1-\delta) S + \delta \frac{\mathrm{tr} S}{p} I`.

    .. math:: S = \frac1n\sum_i x_i x_i^\top, \qquad
        \delta = \min\Big(1, \frac{\frac1{n^2}\sum_i \lVert x_i x_i^\top - S\rVert_F^2}
                                  {\lVert S - \frac{\mathrm{tr} S}{p} I\rVert_F^2}\Big)
    """
    n, size = centred.shape
    plain = centred.T @ centred / n
    variance = np.trace(plain) / size
    ball = variance * np.eye(size)
    distance = ((plain - ball) ** 2).sum()
    spread = ((centred**2).sum(1) ** 2).sum() / n - (plain**2).sum()
    shrinkage = 1.0 if distance == 0 else min(1.0, max(LEAST_SHRINKAGE, spread / n / distance))
    shrunk: Floats = (1 - shrinkage) * plain + shrinkage * ball
    return shrunk + LEAST_VARIANCE * np.eye(size) if variance <= LEAST_VARIANCE else shrunk


@dataclass(frozen=True)
class Bands:
    """Two thresholds that make a word of a score.

    Attributes:
        borderline: a score above it is at least borderline.
        out: a score above it is out of domain.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)
    borderline: float
    out: float

    def __post_init__(self) -> None:
        if not self.borderline <= self.out:
            raise UsageError(f"the borderline must not be above out of domain, not {self.borderline} and {self.out}")

    @classmethod
    def fit(cls, scores: ArrayLike | Tensor, *, borderline: float = 0.05, out: float = 0.01) -> Bands:
        """Thresholds from held-out graphs like the training graphs.

        Few graphs cannot say what one in a hundred looks like: then the largest of their n scores is the threshold,
        and 1 in n + 1 will be above it.

        Args:
            scores: (n,) of held-out graphs, n > 0.
            borderline: share of new graphs of the same kind that will be called borderline or worse, at most.
            out: share of them that will be called out of domain, at most; not larger than `borderline`.

        Example:
            >>> bands = Bands.fit(np.arange(1000.0))
            >>> bands.verdict([3, 960, 2000]).tolist()
            ['in domain', 'borderline', 'out of domain']
        """
        check_share("borderline", borderline)
        check_share("out", out)
        known = np.sort(as_scores(scores))
        if not len(known):
            raise DataError("there is no held-out graph to set the bands by; keep some out of training")
        places = (min(rank(len(known), share), len(known)) - 1 for share in (borderline, out))
        return cls(*(float(known[place]) for place in places))

    def verdict(self, scores: ArrayLike | Tensor) -> NDArray[np.str_]:
        """One of `VERDICTS` for each score."""
        values = as_scores(scores)
        worse = (values > self.borderline).astype(np.int64) + (values > self.out)
        return np.array(VERDICTS)[worse]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Bands:
        """What `to_dict` gave, checked."""
        return restore(cls, values)
