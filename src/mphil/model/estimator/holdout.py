"""What is held out inside `fit`: whole domains that choose the epoch, and a random part that teaches what to trust."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mphil.tables.splitting import (
    ENVIRONMENTS,
    ID_VAL,
    OOD_VAL,
    TRAIN,
    Assignment,
    IntArray,
    cut_between_domains,
    order_domains,
)


def hold_out(
    domains: Sequence[str], keys: Sequence[str], y: NDArray[np.float64], share: float, seed: int
) -> Assignment:
    """Two validation parts of about equal size; everything else is for training.

    `ood_val` has the last domains, which training then never sees; it is empty when the last domain is too large, or
    when a class would be missing from training. `id_val` is drawn at random, a share of every class. Rows of equal key
    stay together. The training domains are cut into environments along their order.

    Args:
        domains: (n,) domain of each row.
        keys: (n,) what each row is.
        y: (n, tasks) labels, NaN = missing.
        share: of the rows that is held out.
        seed: of the random part.

    Example:
        >>> y = np.array([[0.0], [1.0]] * 10)
        >>> made = hold_out(list("aaaaaaaaaaaaaaaaaazz"), [str(row) for row in range(20)], y, 0.2, 0)
        >>> np.bincount(made.part).tolist()
        [16, 2, 0, 2]
    """
    rank = {value: number for number, value in enumerate(order_domains(domains))}
    number = np.array([rank[value] for value in domains], np.int64)
    walk = np.argsort(number, kind="stable")
    size = max(1, round(share / 2 * len(keys)))
    part = np.full(len(keys), TRAIN)
    part[walk[cut_between_domains(number[walk], [len(keys) - size]) == 1]] = OOD_VAL
    if _classes(y[part == TRAIN]) != _classes(y):
        part[:] = TRAIN
    pool = walk[part[walk] == TRAIN]
    env = np.full(len(keys), -1)
    step = max(1, len(pool) // ENVIRONMENTS)
    env[pool] = cut_between_domains(number[pool], [step * count for count in range(1, ENVIRONMENTS)])
    part[_drawn(pool, keys, y, size / max(1, len(pool)), seed)] = ID_VAL
    return Assignment(part, env, {"rule": "held out in fit", "share": share, "seed": seed, "rows": len(keys)})


def _drawn(pool: IntArray, keys: Sequence[str], y: NDArray[np.float64], share: float, seed: int) -> list[int]:
    """Rows drawn from the pool, at least one of every class that has two; several tasks count as one class."""
    owners: dict[str, list[int]] = {}
    for row in sorted(pool.tolist(), key=lambda row: keys[row]):
        owners.setdefault(keys[row], []).append(row)
    strata: dict[float, list[str]] = {}
    for key, rows in owners.items():
        strata.setdefault(float(y[rows[0], 0]) if y.shape[1] == 1 else 0.0, []).append(key)
    random = np.random.default_rng(seed)
    drawn: list[int] = []
    for label in sorted(strata):
        members = strata[label]
        count = min(len(members) - 1, max(1, round(share * len(members))))
        drawn += [row for place in random.permutation(len(members))[:count] for row in owners[members[place]]]
    return drawn


def _classes(y: NDArray[np.float64]) -> set[tuple[int, float]]:
    """The classes that occur in each task."""
    return {(task, float(label)) for task, column in enumerate(y.T) for label in np.unique(column[~np.isnan(column)])}
