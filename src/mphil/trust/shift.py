r"""Conformal sets for rows that are not drawn like the held-out ones (Tibshirani et al., 2019).

Under a covariate shift the promise of a conformal set holds again when every held-out row counts as often as rows like
it occur among the new ones, :math:`w(x) = p_{\mathrm{new}}(x) / p_{\mathrm{held}}(x)`. The ratio is estimated by
telling held-out from new rows, for which no label is needed. Where new rows have no held-out rows like them, no finite
threshold keeps the promise: the set holds every class, which is an abstention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mphil.errors import DataError
from mphil.task import Task, as_labels
from mphil.trust.conformal import Sets
from mphil.trust.neighbours import Bytes
from mphil.trust.values import Floats, as_probabilities, as_rows, as_scores, check_share, class_probabilities

if TYPE_CHECKING:
    from torch import Tensor

FOLDED = 256
"""Columns that the bits of a fingerprint are folded to."""

DIRECTIONS = 8
"""Principal directions in which held-out and new rows are compared: few enough for a few dozen rows."""

STRENGTH = 0.1
"""Inverse of the penalty on slopes: few rows hardly move the weights away from 1, hundreds do."""

ROUNDING = 1e-12


def fingerprint_features(fingerprints: Bytes) -> Floats:
    """Packed bits (n, bytes) -> (n, 256) counts of the bits that fall on each column."""
    if fingerprints.ndim != 2 or fingerprints.shape[1] * 8 % FOLDED:
        raise DataError(f"fingerprints of shape {fingerprints.shape} are not whole multiples of {FOLDED} bits")
    folds = fingerprints.shape[1] * 8 // FOLDED
    bits = np.unpackbits(fingerprints, axis=1).reshape(len(fingerprints), folds, FOLDED)
    counts: Floats = bits.sum(1).astype(np.float64)
    return counts


@dataclass(frozen=True, eq=False)
class DensityRatio:
    r"""How much more frequent rows like a given one are among the new rows than among the held-out ones.

    .. math:: w(x) = \frac{n}{m} \cdot \frac{P(\mathrm{new} \mid x)}{P(\mathrm{held\ out} \mid x)}

    with a logistic regression on the principal directions of the features, and on the distance from training.

    Attributes:
        centre: (p + 1,) of features and distance.
        directions: (p + 1, k) on which rows are projected, scaled to unit variance.
        slope: (k,) of the logarithm of the ratio.
        offset: its value at the centre.
    """

    centre: Floats
    directions: Floats
    slope: Floats
    offset: float

    @classmethod
    def fit(cls, held: ArrayLike, held_distance: ArrayLike, new: ArrayLike, new_distance: ArrayLike) -> DensityRatio:
        """From n held-out rows and m new ones.

        Args:
            held: (n, p) features of the held-out rows.
            held_distance: (n,) how far from training they are.
            new: (m, p) features of the new rows.
            new_distance: (m,) how far from training they are.
        """
        from sklearn.linear_model import LogisticRegression

        rows = [_joined(held, held_distance), _joined(new, new_distance)]
        if not len(rows[0]) or not len(rows[1]):
            raise DataError("a shift needs held-out rows and new ones to compare")
        points, is_new = np.concatenate(rows), np.repeat([0, 1], [len(rows[0]), len(rows[1])])
        centre = points.mean(0)
        directions = _principal(points - centre)
        model = LogisticRegression(C=STRENGTH, max_iter=1000).fit((points - centre) @ directions, is_new)
        offset = float(model.intercept_[0]) + float(np.log(len(rows[0]) / len(rows[1])))
        return cls(centre, directions, model.coef_[0], offset)

    def __call__(self, features: ArrayLike, distance: ArrayLike) -> Floats:
        """(k,) the ratio at k rows."""
        return np.exp((_joined(features, distance) - self.centre) @ self.directions @ self.slope + self.offset)


def effective_size(weights: ArrayLike) -> float:
    r"""How many equally weighted rows are worth as much, :math:`(\sum w)^2 / \sum w^2` (Kish, 1965).

    Example:
        >>> effective_size([1.0, 1.0, 1.0, 0.0])
        3.0
    """
    values = as_scores(np.asarray(weights), "weights")
    total = float((values**2).sum())
    return float(values.sum()) ** 2 / total if total else 0.0


def weighted_thresholds(scores: ArrayLike, weights: ArrayLike, own: ArrayLike, alpha: float) -> Floats:
    r"""Thresholds of new rows, each by itself: the quantile at :math:`1 - \alpha` of

    .. math:: \sum_i p_i(x)\, \delta_{s_i} + p_{n+1}(x)\, \delta_\infty, \qquad
        p_i(x) = \frac{w_i}{\sum_j w_j + w(x)}, \quad p_{n+1}(x) = \frac{w(x)}{\sum_j w_j + w(x)}

    Args:
        scores: (n,) of the held-out rows.
        weights: (n,) their weights, not negative.
        own: (m,) the weights of the new rows.
        alpha: share of true values that may be missed.

    Returns:
        (m,) thresholds, infinite where the held-out rows do not support any.

    Example:
        >>> weighted_thresholds([0.1, 0.2, 0.3, 0.4], [1, 1, 1, 1], [1.0, 4.0], alpha=0.4).tolist()
        [0.3, inf]
    """
    check_share("alpha", alpha)
    values, mass, mine = as_scores(scores), as_scores(weights, "weights"), as_scores(own, "weights")
    if len(values) != len(mass):
        raise DataError(f"{len(mass)} weights for {len(values)} scores; give one for each")
    if (mass < 0).any() or (mine < 0).any():
        raise DataError("a weight is negative; weights are ratios of densities")
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(mass[order])
    total = reached[-1] if len(reached) else 0.0
    wanted = (1 - alpha) * (total + mine)
    place = np.searchsorted(reached * (1 + ROUNDING), wanted)
    found: Floats = np.append(values[order], np.inf)[place]
    return found


def weighted_sets(
    held: ArrayLike | Tensor,
    y: ArrayLike | Tensor,
    weights: Floats,
    probabilities: ArrayLike | Tensor,
    own: Floats,
    task: Task,
    *,
    alpha: float = 0.1,
    per_class: bool = False,
) -> tuple[Sets, NDArray[np.bool_]]:
    """Which classes are plausible for new rows under a shift; with equal weights, the sets of `Conformal`.

    Args:
        held: (n, outputs) probabilities of the held-out rows.
        y: (n, tasks) their labels, NaN = missing.
        weights: (n,) their weights.
        probabilities: (m, outputs) of the new rows.
        own: (m,) the weights of the new rows.
        task: what is asked.
        alpha: share of true classes that may be missed.
        per_class: for each class by itself.

    Returns:
        (m, tasks, classes) the sets, and (m, tasks) where there is no support: the set holds every class.
    """
    known, values = as_probabilities(held, task.n_outputs), as_probabilities(probabilities, task.n_outputs)
    labels = as_labels(y, task, len(known))
    improbable, asked = (1 - class_probabilities(rows, task.kind) for rows in (known, values))
    limits = np.empty(asked.shape)
    for number, truth in enumerate(labels.T):
        present = np.flatnonzero(~np.isnan(truth))
        true = truth[present].astype(np.int64)
        scores = improbable[present, number, true]
        for c in range(task.n_classes):
            rows = true == c if per_class else np.ones(len(true), bool)
            limits[:, number, c] = weighted_thresholds(scores[rows], weights[present][rows], own, alpha)
    sets: Sets = asked <= limits
    return sets, np.asarray(np.isinf(limits).all(axis=-1))


def _joined(features: ArrayLike, distance: ArrayLike) -> Floats:
    rows, far = as_rows(features, None, "features"), as_scores(distance, "distances")
    if len(rows) != len(far):
        raise DataError(f"{len(far)} distances for {len(rows)} rows of features; give one for each")
    return np.concatenate([rows, far[:, None]], axis=1)


def _principal(centred: Floats) -> Floats:
    """(p + 1, k) the main directions of all columns but the last, and the last one; each of unit variance."""
    width = centred.shape[1] - 1
    values, vectors = np.linalg.eigh(centred[:, :width].T @ centred[:, :width] / len(centred))
    kept = np.argsort(values)[::-1][: min(DIRECTIONS, width)]
    kept = kept[values[kept] > ROUNDING]
    directions = np.zeros((width + 1, len(kept) + 1))
    directions[:width, :-1] = vectors[:, kept] / np.sqrt(values[kept])
    spread = float(centred[:, -1].std())
    directions[-1, -1] = 1 / spread if spread > ROUNDING else 0.0
    return directions
