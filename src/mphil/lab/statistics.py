"""What can be said from a few seeds and a few benchmarks, and how sure one may be."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from statistics import mean, stdev

from scipy.stats import chi2, rankdata, spearmanr, studentized_range, t, ttest_rel

LEVEL = 0.95
"""Coverage of every interval; tests are at one minus this."""
SAME = 1e-9
"""Scores in per cent that differ by less are equal."""

Scores = Mapping[str, Mapping[str, float]]
"""Benchmark to row to score."""


def centre_and_spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean, and standard deviation (n - 1) where there are two values or more."""
    return mean(values), stdev(values) if len(values) > 1 else None


def t_interval(values: Sequence[float], level: float = LEVEL) -> tuple[float, float] | None:
    """Student's interval of the mean; None for fewer than two values.

    Example:
        >>> low, high = t_interval([1.0, 2.0, 3.0])
        >>> round(low, 3), round(high, 3)
        (-0.484, 4.484)
    """
    if len(values) < 2:
        return None
    centre = mean(values)
    half = _t_quantile((1 + level) / 2, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return centre - half, centre + half


@cache
def _t_quantile(level: float, freedom: int) -> float:
    return float(t.ppf(level, freedom))


def differences(one: Mapping[int, float], other: Mapping[int, float]) -> list[float]:
    """One minus the other on every common seed."""
    return [one[seed] - other[seed] for seed in sorted(one.keys() & other.keys())]


def paired_p(one: Mapping[int, float], other: Mapping[int, float]) -> float | None:
    """Chance of such a difference by luck: two-sided paired t-test over common seeds.

    None for fewer than two of them, and when all differences are equal, for then there is no spread to judge by.
    """
    seeds = sorted(one.keys() & other.keys())
    if len(seeds) < 2 or stdev(differences(one, other)) < SAME:
        return None
    return float(ttest_rel([one[seed] for seed in seeds], [other[seed] for seed in seeds]).pvalue)


def holm(p_values: Mapping[str, float | None]) -> dict[str, float | None]:
    """Holm's correction for testing all of them at once; those that are None stay so and do not count.

    Example:
        >>> holm({"a": 0.01, "b": 0.04, "c": None})
        {'a': 0.02, 'b': 0.04, 'c': None}
    """
    adjusted: dict[str, float | None] = dict.fromkeys(p_values)
    known = sorted((p, name) for name, p in p_values.items() if p is not None)
    largest = 0.0
    for place, (p, name) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - place) * p))
        adjusted[name] = largest
    return adjusted


def ranks(scores: Mapping[str, float]) -> dict[str, float]:
    """Rank of every name, 1 = the highest score; equal scores share the mean of their ranks."""
    names = list(scores)
    places = rankdata([-scores[name] for name in names])
    return {name: float(place) for name, place in zip(names, places, strict=True)}


@dataclass(frozen=True)
class MeanRanks:
    """Rows that are complete on the same benchmarks, ranked.

    Attributes:
        benchmarks: those that the ranks are averaged over.
        ranks: row to mean rank, the best first.
        p: Friedman's test that all rows are alike; None for fewer than three rows or if all are tied everywhere.
        difference: mean ranks that differ by less are not told apart (Nemenyi's critical difference at 0.05).
    """

    benchmarks: tuple[str, ...]
    ranks: Mapping[str, float]
    p: float | None
    difference: float

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """The largest sets of at least two rows within the critical difference of each other, the best first."""
        names, found = list(self.ranks), list[tuple[str, ...]]()
        for start, first in enumerate(names):
            group = [n for n in names[start:] if self.ranks[n] - self.ranks[first] <= self.difference]
            if len(group) > 1 and (not found or group[-1] != found[-1][-1]):
                found.append(tuple(group))
        return found


def mean_ranks(scores: Scores) -> MeanRanks | None:
    """Mean ranks over at least two benchmarks, of the rows that have a score on all of them.

    Benchmarks are taken in the order of how many rows have a score, as many as make rows times benchmarks the largest:
    one that has hardly been begun does not take all others' ranks away. None where no two rows share two benchmarks.

    Example:
        >>> mean_ranks({"b1": {"erm": 60.0, "irm": 50.0}, "b2": {"erm": 70.0, "irm": 80.0, "dir": 1.0}}).ranks
        {'erm': 1.5, 'irm': 1.5}
    """
    by_rows = sorted(scores, key=lambda benchmark: -len(scores[benchmark]))
    best: tuple[Sequence[str], Collection[str]] | None = None
    for count in range(2, len(by_rows) + 1):
        taken = by_rows[:count]
        rows = [row for row in scores[taken[0]] if all(row in scores[benchmark] for benchmark in taken)]
        if len(rows) > 1 and (best is None or count * len(rows) >= len(best[0]) * len(best[1])):
            best = taken, rows
    if best is None:
        return None
    benchmarks = tuple(benchmark for benchmark in scores if benchmark in best[0])
    places = [ranks({row: scores[benchmark][row] for row in best[1]}) for benchmark in benchmarks]
    means = {row: mean(own[row] for own in places) for row in best[1]}
    ordered = dict(sorted(means.items(), key=lambda item: item[1]))
    return MeanRanks(benchmarks, ordered, friedman_p(places), critical_difference(len(ordered), len(benchmarks)))


def friedman_p(places: Sequence[Mapping[str, float]]) -> float | None:
    """Friedman's test, with the correction for ties, from the ranks of the same rows on every benchmark.

    None for fewer than three rows, and when all rows are tied on every benchmark.
    """
    n, k = len(places), len(places[0])
    total = sum(rank * rank for own in places for rank in own.values())
    spread = total - n * k * (k + 1) ** 2 / 4
    if k < 3 or spread < SAME:
        return None
    sums = [sum(own[row] for own in places) for row in places[0]]
    statistic = (k - 1) * sum((s - n * (k + 1) / 2) ** 2 for s in sums) / spread
    return float(chi2.sf(statistic, k - 1))


def critical_difference(rows: int, benchmarks: int, level: float = LEVEL) -> float:
    r"""Nemenyi's :math:`q_\alpha \sqrt{k (k + 1) / 6 N}` for k rows on N benchmarks (Demšar, 2006)."""
    quantile = float(studentized_range.ppf(level, rows, math.inf)) / math.sqrt(2)
    return quantile * math.sqrt(rows * (rows + 1) / (6 * benchmarks))


@dataclass(frozen=True)
class SeedAgreement:
    """How far seeds alone move the ranks of rows on one benchmark.

    Attributes:
        rows: rows that have all the seeds.
        seeds: seeds that are compared.
        correlation: mean Spearman correlation of the scores of all rows between two seeds; 1 = every seed ranks alike.
        typical: mean over rows of the range of their rank.
        widest: the largest of these ranges.
    """

    rows: int
    seeds: int
    correlation: float
    typical: float
    widest: float


def seed_agreement(scores: Mapping[str, Mapping[int, float]]) -> SeedAgreement | None:
    """Compare the ranking of each seed with that of every other, over the seeds that all rows have.

    Args:
        scores: row to seed to score.

    Returns:
        None for fewer than three rows or two common seeds, or where a seed has tied all rows.
    """
    if len(scores) < 3:
        return None
    seeds = sorted(set.intersection(*(set(own) for own in scores.values())))
    places = [ranks({row: own[seed] for row, own in scores.items()}) for seed in seeds]
    if len(seeds) < 2 or any(len(set(own.values())) == 1 for own in places):
        return None
    pairs = [float(spearmanr(list(a.values()), list(b.values())).statistic) for a, b in combinations(places, 2)]
    ranges = [max(own[row] for own in places) - min(own[row] for own in places) for row in scores]
    return SeedAgreement(len(scores), len(seeds), mean(pairs), mean(ranges), max(ranges))
