"""On embeddings that are given: k-means, and linear support vector machines with calibrated probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from mphil.nn.losses import labelled, one_hot
from mphil.nn.sphere import unit
from mphil.task import Task


def kmeans(
    points: Tensor, k: int, *, restarts: int = 10, iterations: int = 300, cosine: bool = False
) -> tuple[Tensor, Tensor]:
    r"""Lloyd's algorithm from k-means++ seeds; the best of several runs.

    .. math:: \min_{\mu} \sum_i \min_{j \le k} \lVert p_i - \mu_j \rVert^2

    A cluster that loses all its points stays where it is, so with fewer points than clusters some remain empty.

    Args:
        points: (n, d); no gradient passes.
        k: clusters.
        restarts: runs, of which the one with the smallest sum of squared distances counts.
        iterations: moves of the centres a run may take; it ends when no point changes its cluster.
        cosine: compare directions: points and centres are put on the unit sphere.

    Returns:
        (n,) the cluster of each point, and (k, d) centres.

    Example:
        >>> labels, _ = kmeans(torch.tensor([[0.0], [0.1], [5.0], [5.1]]), 2)
        >>> (labels == labels[0]).tolist()
        [True, True, False, False]
    """
    points = points.detach()
    if len(points) == 0:
        return points.new_zeros(0, dtype=torch.long), points.new_zeros(k, points.shape[1])
    # Far from the origin the squares in `nearest_centre` would swallow the differences.
    origin = torch.zeros_like(points[0]) if cosine else points.mean(0)
    points = unit(points) if cosine else points - origin
    least, best = math.inf, points[:1].expand(k, -1)
    for _ in range(restarts):
        centres = _settle(points, _seeds(points, k), iterations, cosine)
        spread = float((points - centres[nearest_centre(points, centres, cosine)]).square().sum())
        if spread < least:
            least, best = spread, centres
    return nearest_centre(points, best, cosine), best + origin


def nearest_centre(points: Tensor, centres: Tensor, cosine: bool = False) -> Tensor:
    """(n, d) points and (k, d) centres -> (n,) number of the nearest centre, the first of equals."""
    if cosine:
        return (unit(points) @ unit(centres).T).argmax(1)
    return (centres.square().sum(1) - 2 * points @ centres.T).argmin(1)


def _seeds(points: Tensor, k: int) -> Tensor:
    """k-means++: each next centre is a point drawn by its squared distance from the centres so far."""
    chosen = [points[torch.randint(len(points), (), device=points.device)]]
    distance = (points - chosen[0]).square().sum(1)
    while len(chosen) < k:
        weights = distance if distance.any() else torch.ones_like(distance)
        chosen.append(points[_draw(weights)])
        distance = torch.minimum(distance, (points - chosen[-1]).square().sum(1))
    return torch.stack(chosen)


def _draw(weights: Tensor) -> Tensor:
    """A position, drawn in proportion to the weights; unlike `torch.multinomial`, of any number of them."""
    total = weights.double().cumsum(0)
    place = torch.searchsorted(total, torch.rand((), dtype=total.dtype, device=total.device) * total[-1], right=True)
    return place.clamp_max(len(weights) - 1)


def _settle(points: Tensor, centres: Tensor, iterations: int, cosine: bool) -> Tensor:
    """Move the centres to the means of their points until no point changes its cluster."""
    labels = nearest_centre(points, centres, cosine)
    for _ in range(iterations):
        counts = labels.bincount(minlength=len(centres)).unsqueeze(1)
        sums = torch.zeros_like(centres).index_add(0, labels, points)
        means = unit(sums) if cosine else sums / counts.clamp_min(1)
        moves = means.any(1, keepdim=True) if cosine else counts > 0  # points that cancel have no direction
        centres = torch.where(moves, means, centres)
        before, labels = labels, nearest_centre(points, centres, cosine)
        if torch.equal(labels, before):
            break
    return centres


MOST_POINTS = 5_000
"""A machine is fitted to at most so many points; more are drawn from at random."""
MOST_STEPS, MOST_HALVINGS, PRECISION = 50, 30, 1e-8
"""Newton's method ends after so many steps, or when no weight moves by more than the precision."""
COLUMNS_AT_ONCE = 16
"""Machines that are fitted together: memory grows with them."""
Derivatives = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Probe:
    """Calibrated linear machines, one a column: the mean of the probabilities of those fitted to each fold.

    Attributes:
        centre: (d,) subtracted from a point.
        scale: (d,) by which it is divided.
        weight: (columns, folds, d + 1) of the machines, the intercept last.
        sigmoid: (columns, folds, 2) slope and offset of the calibration.
    """

    centre: Tensor
    scale: Tensor
    weight: Tensor
    sigmoid: Tensor

    def __call__(self, points: Tensor) -> Tensor:
        """(n, d) -> (n, columns) probabilities."""
        x = _with_intercept((points.double() - self.centre) / self.scale)
        slope, offset = self.sigmoid.unsqueeze(-1).unbind(2)
        return (slope * (self.weight @ x.T) + offset).sigmoid().mean(1).T


def fit_probe(points: Tensor, answers: Tensor, folds: int = 3) -> Probe:
    r"""Squared-hinge machines with Platt's sigmoid, by cross-validation, in double precision.

    .. math:: \min_w \tfrac12 \lVert w \rVert^2 + \sum_i \max(0, 1 - s_i\, w^\top x_i)^2, \qquad s_i = \pm 1

    Points are standardised first; the intercept is a weight like the others. Each fold's machine is fitted without
    the fold and calibrated on it. Folds hold equal shares of both answers. A column with a single answer gives a
    probability near it, one without any gives one half.

    Args:
        points: (n, d); of more than `MOST_POINTS`, so many are drawn.
        answers: (n, columns) 0, 1 or NaN = unknown.
        folds: parts for the cross-validation.
    """
    if len(points) > MOST_POINTS:
        drawn = torch.randperm(len(points), device=points.device)[:MOST_POINTS]
        points, answers = points[drawn], answers[drawn]
    points, answers = points.detach().double(), answers.double()
    centre, spread = points.mean(0), points.std(0, correction=0)
    scale = torch.where(spread > 0, spread, 1.0)
    x = _with_intercept((points - centre) / scale)

    known = labelled(answers).T.repeat_interleave(folds, 0)
    positive = (answers.T > 0).repeat_interleave(folds, 0)
    held_out = (_folds(answers, folds).T.unsqueeze(1) == torch.arange(folds, device=x.device)[:, None]).flatten(0, 1)
    weights, sigmoids = [], []
    for first in range(0, len(known), COLUMNS_AT_ONCE):
        here = slice(first, first + COLUMNS_AT_ONCE)
        weights.append(_fit_hinge(x, positive[here] * 2.0 - 1, (known & ~held_out)[here]))
        sigmoids.append(_fit_sigmoid(weights[-1] @ x.T, positive[here], (known & held_out)[here]))
    shape = (answers.shape[1], folds, -1)
    return Probe(centre, scale, torch.cat(weights).view(shape), torch.cat(sigmoids).view(shape))


def soft_labels(points: Tensor, y: Tensor, task: Task, folds: int = 3) -> Callable[[Tensor], Tensor]:
    """What embeddings alone say about the labels.

    Args:
        points: (n, d) embeddings to fit on.
        y: (n, tasks) their labels, NaN = missing.
        task: of several classes, one machine each against the rest; otherwise one a task.
        folds: parts for the cross-validation.

    Returns:
        A function from (m, d) embeddings to (m, outputs) probabilities, which add up to 1 for several classes.
    """
    if task.kind != "multiclass":
        return fit_probe(points, y, folds)
    classes = one_hot(y, task.n_classes).squeeze(1).masked_fill(~labelled(y), torch.nan)
    probe = fit_probe(points, classes, folds)
    return lambda new: F.normalize(probe(new), p=1.0, dim=1)


def soft_clusters(points: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Groups that points fall into, and how clearly.

    Args:
        points: (n, d), at least one.
        k: clusters, found by k-means on at most `MOST_POINTS` of the points.

    Returns:
        (n, k) calibrated probabilities of the clusters, and (n,) the share of all points in the own cluster.
    """
    points = points.detach().double()
    drawn = torch.randperm(len(points), device=points.device)[:MOST_POINTS]
    _, centres = kmeans(points[drawn], k)
    cluster = nearest_centre(points, centres)
    shares = cluster.bincount(minlength=k) / len(points)
    predict = soft_labels(points, cluster.double().unsqueeze(1), Task("multiclass", k, "accuracy"))
    return predict(points), shares[cluster]


def score(probabilities: Tensor, y: Tensor, task: Task) -> float:
    """Accuracy for several classes; otherwise the area under the ROC curve, averaged over tasks with both answers.

    NaN when there is nothing to score.
    """
    if task.kind == "multiclass":
        known = labelled(y).squeeze(1)
        return float((probabilities.argmax(1) == y.squeeze(1))[known].double().mean())
    areas = [_area(probabilities[known, t], y[known, t] > 0) for t, known in enumerate(labelled(y).T)]
    return float(torch.stack(areas).nanmean())


def _area(scores: Tensor, positive: Tensor) -> Tensor:
    """Probability that a positive scores above a negative, ties counting one half; NaN without both."""
    _, place, counts = torch.unique(scores, return_inverse=True, return_counts=True)
    ranks = (counts.cumsum(0) - (counts - 1) / 2)[place].double()
    n, m = positive.sum(), (~positive).sum()
    area: Tensor = (ranks[positive].sum() - n * (n + 1) / 2) / (n * m)
    return area


def _with_intercept(x: Tensor) -> Tensor:
    return torch.cat([x, x.new_ones(len(x), 1)], dim=1)


def _folds(answers: Tensor, folds: int) -> Tensor:
    """(n, columns) the fold of every point, dealt out in turn among points of the same answer."""
    shuffled = torch.randperm(len(answers), device=answers.device)
    order = shuffled[answers[shuffled].argsort(dim=0, stable=True)]
    turns = (torch.arange(len(answers), device=answers.device) % folds).unsqueeze(1).expand_as(order)
    return torch.empty_like(order).scatter(0, order, turns)


def _fit_hinge(x: Tensor, signs: Tensor, used: Tensor) -> Tensor:
    """(columns, d + 1) weights of machines on points (n, d + 1) with (columns, n) signs; they see the `used` ones."""

    def losses(margins: Tensor) -> Derivatives:
        lack = (1 - signs * margins).relu() * used
        return lack.square(), -2 * signs * lack, 2.0 * (lack > 0)

    return _minimise(x.unsqueeze(0), losses, len(signs), ridge=1.0)


def _fit_sigmoid(scores: Tensor, positive: Tensor, used: Tensor) -> Tensor:
    """(columns, 2) slope and offset of (columns, n) scores, fitted to Platt's targets: a little off 0 and 1."""
    n_positive, n_negative = ((answer & used).sum(1, keepdim=True) for answer in (positive, ~positive))
    target = torch.where(positive, (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2)).to(scores.dtype)

    def losses(margins: Tensor) -> Derivatives:
        p, entropy = margins.sigmoid(), F.binary_cross_entropy_with_logits(margins, target, reduction="none")
        return entropy * used, (p - target) * used, p * (1 - p) * used

    return _minimise(torch.stack([scores, torch.ones_like(scores)], dim=2), losses, len(scores), ridge=1e-6)


def _minimise(x: Tensor, losses: Callable[[Tensor], Derivatives], columns: int, ridge: float) -> Tensor:
    r"""Newton's method for :math:`\frac\rho2\lVert w\rVert^2 + \sum_i \phi_i(w^\top x_i)`, convex, all columns at once.

    Args:
        x: (columns or 1, n, d) points.
        losses: from (columns, n) margins to :math:`\phi` and its first and second derivatives.
        columns: independent problems.
        ridge: :math:`\rho`.

    Returns:
        (columns, d) weights.
    """

    def value(weight: Tensor) -> Tensor:
        return ridge / 2 * weight.square().sum(1) + losses(_margins(x, weight))[0].sum(1)

    identity = torch.eye(x.shape[2], dtype=x.dtype, device=x.device)
    weight = x.new_zeros(columns, x.shape[2])
    for _ in range(MOST_STEPS):
        _, slope, curvature = losses(_margins(x, weight))
        gradient = ridge * weight + (x.mT @ slope.unsqueeze(2)).squeeze(2)
        hessian = (x.mT * curvature.unsqueeze(1)) @ x + ridge * identity
        step = torch.linalg.solve(hessian, gradient)
        before = value(weight)
        for _ in range(MOST_HALVINGS):
            worse = value(weight - step) > before
            if not worse.any():
                break
            step = torch.where(worse.unsqueeze(1), step / 2, step)
        weight = weight - step
        if step.abs().max() < PRECISION:
            break
    return weight


def _margins(x: Tensor, weight: Tensor) -> Tensor:
    """(columns or 1, n, d) points, (columns, d) weights -> (columns, n)."""
    return (x @ weight.unsqueeze(2)).squeeze(2)
