"""What can be said from a few seeds, and how sure one may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, stdev

import numpy as np
from scipy.stats import rankdata, ttest_rel, wilcoxon

DRAWS = 10_000
SAME = 1e-9
"""Scores in per cent that differ by less are equal."""
FEWEST_BENCHMARKS = 6
"""With fewer pairs the signed-rank test cannot come near any level of significance."""


def centre_and_spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean, and standard deviation (n - 1) where there are two values or more."""
    return mean(values), stdev(values) if len(values) > 1 else None


def bootstrap_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float] | None:
    """Percentile interval of the mean over draws with replacement; None for fewer than two values.

    Example:
        >>> bootstrap_interval([1.0, 1.0, 1.0])
        (1.0, 1.0)
    """
    if len(values) < 2:
        return None
    drawn = np.random.default_rng(0).choice(np.asarray(values, dtype=np.float64), size=(DRAWS, len(values)))
    low, high = np.quantile(drawn.mean(axis=1), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def paired_p(one: Mapping[int, float], other: Mapping[int, float]) -> float | None:
    """Chance of such a difference by luck: two-sided paired t-test over common seeds.

    None for fewer than two of them, and when all differences are equal, for then there is no spread to judge by.
    """
    seeds = sorted(one.keys() & other.keys())
    differences = [one[seed] - other[seed] for seed in seeds]
    if len(seeds) < 2 or stdev(differences) < SAME:
        return None
    return float(ttest_rel([one[seed] for seed in seeds], [other[seed] for seed in seeds]).pvalue)


def signed_rank_p(one: Mapping[str, float], other: Mapping[str, float]) -> float | None:
    """Chance of such a difference by luck: signed-rank test over common benchmarks; None where there are too few."""
    common = sorted(one.keys() & other.keys())
    if len(common) < FEWEST_BENCHMARKS or all(one[name] == other[name] for name in common):
        return None
    return float(wilcoxon([one[name] for name in common], [other[name] for name in common]).pvalue)


def ranks(scores: Mapping[str, float]) -> dict[str, float]:
    """Place of every name, 1 = the highest score; equal scores share the mean of their places."""
    names = list(scores)
    places = rankdata([-scores[name] for name in names])
    return {name: float(place) for name, place in zip(names, places, strict=True)}
