"""k-means, for methods that make environments or groups of their own."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mphil.nn.sphere import unit


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
