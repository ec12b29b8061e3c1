"""How much each member of a committee counts, and what the members say together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mphil.task import Kind, Task, as_labels
from mphil.trust.values import class_probabilities

Floats = NDArray[np.float64]

PRIOR = 100.0
"""So many labels would have to agree before the weights are as much their own as those that they begin with."""

NETWORKS = 0.3
"""What all networks together count before a label is seen, beside trees: the best of those that benchmarks/committee.py
tried on validation parts."""

ROUNDS = 500
LEAST = 1e-6
"""Probability that a member gives to a label at least, so that one label does not rule a member out."""

CLOSEST = 1e-12
"""Probabilities are kept this far from 0 and 1 when they become logits."""


def first_weights(are_networks: Sequence[bool], share: float = NETWORKS) -> Floats:
    """(m,) weights before a label is seen.

    Args:
        are_networks: which members are networks; a committee of one sort has equal weights.
        share: of all networks together; trees have the rest.
    """
    networks = np.array(are_networks)
    if networks.all() or not networks.any():
        return np.full(len(networks), 1 / len(networks))
    found: Floats = np.where(networks, share / networks.sum(), (1 - share) / (~networks).sum())
    return found


def fit_weights(
    parts: Sequence[tuple[Floats, Floats]], task: Task, start: Floats | None = None, *, prior: float = PRIOR
) -> Floats:
    r"""(m,) weights of least log-loss on validation parts, shrunk to those of the start.

    The mixture :math:`\sum_m w_m p_m(y)` is fitted by expectation maximisation. With n labels in all, each part
    counting as n over the number of parts, member m gets
    :math:`w_m = (\sum_i r_{im} + k s_m) / (n + k)`, where :math:`r_{im}` is the share of member m in the probability of
    label i, :math:`s_m` its weight at the start and k the `prior`: few labels move the weights little.

    Args:
        parts: for each validation part, (m, n, outputs) probabilities of the members and (n, tasks) labels.
        task: what is asked.
        start: (m,) the weights without labels, of sum 1; None makes them equal.
        prior: k.
    """
    start = np.full(len(parts[0][0]), 1 / len(parts[0][0])) if start is None else start
    if task.kind == "regression":
        return _least_squares(parts, task, start, prior)
    held = [_true_class(said, y, task) for said, y in parts]
    held = [chances for chances in held if chances.shape[1]]
    total = sum(chances.shape[1] for chances in held)
    weights = start
    for _ in range(ROUNDS if total else 0):
        before, gathered = weights, prior * start
        for chances in held:
            shares = before[:, None] * chances
            gathered = gathered + total / len(held) * (shares / shares.sum(0)).mean(1)
        weights = gathered / (total + prior)
        if np.abs(weights - before).max() < 1e-10:
            break
    found: Floats = weights / weights.sum()
    return found


def _least_squares(parts: Sequence[tuple[Floats, Floats]], task: Task, start: Floats, prior: float) -> Floats:
    r"""(m,) weights of least squared error, not below 0 and of sum 1, shrunk to those of the start.

    Minimises :math:`w^\top E w + \frac kn \bar e \, \|w - s\|^2`, where :math:`E` holds the mean products of the
    members' errors and :math:`\bar e` their mean square, by projected gradient descent.
    """
    products, counts = [], []
    for said, y in parts:
        row, column = np.nonzero(~np.isnan(as_labels(y, task, said.shape[1])))
        errors = said[:, row, column] - task.from_units(y)[row, column]
        errors = errors[:, np.isfinite(errors).all(0)]
        if errors.shape[1]:
            products.append(errors @ errors.T / errors.shape[1])
            counts.append(errors.shape[1])
    if not products:
        return start
    mean = np.mean(products, axis=0)
    strength = prior / sum(counts) * np.trace(mean) / len(start)
    curvature = mean + strength * np.eye(len(start))
    pull = strength * start
    step = 1 / max(np.linalg.eigvalsh(curvature)[-1], 1e-12)
    weights = start
    for _ in range(ROUNDS):
        before = weights
        weights = _onto_simplex(before - step * (curvature @ before - pull))
        if np.abs(weights - before).max() < 1e-10:
            break
    return weights


def _onto_simplex(values: Floats) -> Floats:
    """The nearest point whose coordinates are not below 0 and sum to 1 (Held, Wolfe and Crowder, 1974)."""
    ordered = np.sort(values)[::-1]
    excess = (ordered.cumsum() - 1) / np.arange(1, len(values) + 1)
    kept = np.maximum(values - excess[np.flatnonzero(ordered > excess)[-1]], 0.0)
    found: Floats = kept / kept.sum()
    return found


def combine(said: Floats, weights: Floats) -> Floats:
    """(m, n, outputs) of the members -> (n, outputs), their weighted mean."""
    mean: Floats = np.tensordot(weights, said, 1)
    return mean


def spread(said: Floats, weights: Floats) -> Floats:
    """(m, n, outputs) of the members -> (n, outputs), their weighted standard deviation."""
    found: Floats = np.sqrt(np.tensordot(weights, (said - combine(said, weights)) ** 2, 1))
    return found


def as_logits(probabilities: Floats, kind: Kind) -> Floats:
    """(n, outputs) logits whose probabilities these are, but for those that are nearly 0 or 1; numbers stay."""
    if kind == "regression":
        return probabilities
    kept = probabilities.clip(CLOSEST, 1 - CLOSEST)
    found: Floats = np.log(kept) if kind == "multiclass" else np.log(kept) - np.log1p(-kept)
    return found


def _true_class(said: Floats, y: Floats, task: Task) -> Floats:
    """(m, labels) the probability that each member gives to each label."""
    labels = as_labels(y, task, said.shape[1])
    row, column = np.nonzero(~np.isnan(labels))
    true = labels[row, column].astype(np.int64)
    chances = [class_probabilities(one, task.kind)[row, column, true] for one in said]
    found: Floats = np.stack(chances).clip(LEAST, 1.0)
    return found
