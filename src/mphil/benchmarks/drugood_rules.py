"""The rules of DrugOOD (Ji et al., 2022, arXiv:2201.09637): labels, domains and the split by whole domains."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mphil.tables.splitting import ID_TEST, ID_VAL, OOD_TEST, OOD_VAL, TRAIN, Assignment, IntArray

FloatArray = npt.NDArray[np.float64]

OOD_SHARES = (0.6, 0.2)
"""Of all rows: training domains, then OOD validation domains; the others are tested on."""
ID_SHARES = (0.6, 0.2)
"""Of the rows of a training domain: `train`, then `id_val`; the others are `id_test`."""
MEDIAN_RANGE = (4.0, 6.0)
FIXED_THRESHOLD = 5.0


def activity_threshold(values: FloatArray) -> float:
    """The pChEMBL value from which on a molecule is active: the upper median when it lies in 4 to 6, else 5.

    Example:
        >>> activity_threshold(np.array([4.2, 4.6, 9.0])), activity_threshold(np.array([7.0, 8.0]))
        (4.6, 5.0)
    """
    median = float(np.sort(values)[len(values) // 2])
    return median if MEDIAN_RANGE[0] <= median <= MEDIAN_RANGE[1] else FIXED_THRESHOLD


def activity_classes(values: FloatArray) -> IntArray:
    """(n,) 1 = active, 0 = inactive, by the threshold of these values."""
    return (values >= activity_threshold(values)).astype(np.int64)


def number_domains(values: Sequence[Hashable]) -> IntArray:
    """Number the distinct values in the order of their first appearance, (n,).

    Example:
        >>> number_domains(["b", "a", "b"]).tolist()
        [0, 1, 0]
    """
    number: dict[Hashable, int] = {}
    return np.fromiter((number.setdefault(value, len(number)) for value in values), np.int64, len(values))


def ood_parts(domain: IntArray, weight: npt.NDArray[Any]) -> IntArray:
    """Give whole domains to training, OOD validation and OOD test, the heaviest first.

    A domain goes to training while less than 60 % of the rows are there, then to validation while less than 80 % are
    in either. Domains of equal weight keep their order.

    Args:
        domain: (n,) domain of each row, from 0.
        weight: (n_domains,) what domains are sorted by.

    Returns:
        (n,) `TRAIN`, `OOD_VAL` or `OOD_TEST`.
    """
    count = np.bincount(domain, minlength=len(weight))
    order = np.argsort(-weight, kind="stable")
    before = np.empty_like(count)
    before[order] = np.cumsum(count[order]) - count[order]
    train, val = (int(share * len(domain)) for share in OOD_SHARES)
    part = np.select([before < train, before < train + val], [TRAIN, OOD_VAL], OOD_TEST)
    return part[domain].astype(np.int64)


def divide_training_domains(part: IntArray, domain: IntArray, seed: int) -> Assignment:
    """Take `id_val` and `id_test` out of each training domain; the domains become the environments.

    Shares are rounded down and the rest is `id_test`, so a domain of one molecule is wholly in `id_test`.

    Args:
        part: (n,) `TRAIN`, `OOD_VAL` or `OOD_TEST`.
        domain: (n,) domain of each row; a training domain may have rows elsewhere, which stay there.
        seed: of the shuffle inside each domain.
    """
    part = part.copy()
    shuffled = np.random.default_rng(seed).permutation(np.flatnonzero(part == TRAIN))
    rows = shuffled[np.argsort(domain[shuffled], kind="stable")]
    _, start, count = np.unique(domain[rows], return_index=True, return_counts=True)
    for first, n in zip(start.tolist(), count.tolist(), strict=True):
        train, val = (int(share * n) for share in ID_SHARES)
        part[rows[first + train : first + train + val]] = ID_VAL
        part[rows[first + train + val : first + n]] = ID_TEST
    provenance = {"rule": "DrugOOD, by whole domains", "seed": seed}
    return Assignment(part, training_environments(part, domain), provenance)


def split_by_domain(domain: IntArray, weight: npt.NDArray[Any], seed: int) -> Assignment:
    """The whole split: `ood_parts`, then `divide_training_domains`."""
    return divide_training_domains(ood_parts(domain, weight), domain, seed)


def training_environments(part: IntArray, domain: IntArray) -> IntArray:
    """(n,) the training domains numbered from 0 without gaps, -1 for rows of the OOD parts."""
    env = np.full(len(part), -1)
    inside = np.isin(part, (TRAIN, ID_VAL, ID_TEST))
    env[inside] = np.unique(domain[inside], return_inverse=True)[1]
    return env
