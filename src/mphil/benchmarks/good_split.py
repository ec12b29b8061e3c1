"""The three splits of GOOD (Gui et al., 2022, arXiv:2206.08452) as rules on domains and labels.

Everything here is a pure function of arrays and a seed: molecules, files and stores are the business of others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from mphil.errors import DataError
from mphil.graphs.loader import derive_seed
from mphil.tables.splitting import (
    ENVIRONMENTS,
    ID_TEST,
    ID_VAL,
    OOD_TEST,
    OOD_VAL,
    TRAIN,
    Assignment,
    IntArray,
    cut_between_domains,
)

FloatArray = npt.NDArray[np.floating[Any]]
BoolArray = npt.NDArray[np.bool_]

POOL, VAL, TEST = range(3)

COVARIATE_CUTS = (0.8, 0.9)
COVARIATE_HELD_OUT = 0.1
CONCEPT_HELD_OUT = 0.15
NO_SHIFT_CUTS = (0.6, 0.8)


@dataclass(frozen=True)
class ConceptGroup:
    """One of the groups that a concept split fills in turn.

    Attributes:
        block: `POOL`, `VAL` or `TEST`.
        env: environment of its rows, -1 outside the pool.
        bias: how often a row that enters follows the correlation of its domain; the pool and the others have opposite
            correlations.
        take: share of the rows still there that may enter.
    """

    block: int
    env: int
    bias: float
    take: float


CONCEPT_GROUPS = (
    ConceptGroup(POOL, 0, 0.95, 0.3),
    ConceptGroup(TEST, -1, 0.95, 0.5),
    ConceptGroup(POOL, 1, 0.9, 0.6),
    ConceptGroup(POOL, 2, 0.85, 1.0),
)
"""In the order in which they choose; what they leave is the fifth group, the OOD validation part."""


class Ordered(Protocol):
    """A value with a place in an order: a string, a number."""

    def __lt__(self, other: Any, /) -> bool: ...

    def __hash__(self) -> int: ...


Value = TypeVar("Value", bound=Ordered)


@dataclass(frozen=True, eq=False)
class Blocks:
    """Rows cut into a pool for training and two blocks that differ from it.

    Attributes:
        block: (n,) `POOL`, `VAL` or `TEST`.
        env: (n,) environment, -1 outside the pool.
    """

    block: IntArray
    env: IntArray


def rank_domains(values: Sequence[Value]) -> IntArray:
    """Number the distinct values in ascending order, (n,).

    Example:
        >>> rank_domains(["c1ccccc1", "", "C1CC1", ""]).tolist()
        [2, 0, 1, 0]
    """
    rank = {value: number for number, value in enumerate(sorted(set(values)))}
    return np.fromiter((rank[value] for value in values), np.int64, len(values))


def rank_by_population(values: Sequence[Value]) -> IntArray:
    """Number the distinct values from the most to the least frequent, equally frequent ones in ascending order, (n,).

    Example:
        >>> rank_by_population(["b", "c", "c", "a"]).tolist()
        [2, 0, 0, 1]
    """
    count = Counter(values)
    rank = {value: number for number, value in enumerate(sorted(sorted(count), key=lambda value: -count[value]))}
    return np.fromiter((rank[value] for value in values), np.int64, len(values))


def covariate_blocks(domain: IntArray, *, largest_first: bool = False) -> Blocks:
    """Domains never seen in training: about 80 % pool, 10 % validation, 10 % test, no domain in two of them.

    The pool is cut into ten environments in the same manner. Which block a row is in depends on its domain alone and
    not on the order of the rows.

    Args:
        domain: (n,) domain numbers, whose order is the order of the walk.
        largest_first: walk from the highest number down (GOOD does so for sizes: the test part has the smallest).
    """
    order = np.argsort(domain, kind="stable")
    if largest_first:
        order = order[::-1]
    n = len(domain)
    block, env = np.empty(n, np.int64), np.full(n, -1)
    block[order] = cut_between_domains(domain[order], [int(share * n) for share in COVARIATE_CUTS])
    pool = order[block[order] == POOL]
    step = len(pool) // ENVIRONMENTS
    env[pool] = cut_between_domains(domain[pool], [step * number for number in range(1, ENVIRONMENTS)])
    return Blocks(block, env)


def hold_out(blocks: Blocks, size: int, seed: int, rule: str) -> Assignment:
    """Take `id_val` and `id_test`, `size` rows each, out of the pool at random; the rest of it is `train`.

    Args:
        blocks: pool, validation and test.
        size: rows of each of the two.
        seed: of the choice.
        rule: name of the split, for its provenance.

    Raises:
        DataError: the pool is too small.
    """
    pool = np.flatnonzero(blocks.block == POOL)
    if len(pool) <= 2 * size:
        raise DataError(f"{len(pool)} rows share the training domains: too few to hold out twice {size} of them")
    part = np.array([TRAIN, OOD_VAL, OOD_TEST])[blocks.block]
    shuffled = np.random.default_rng(derive_seed(seed, "hold out")).permutation(pool)
    part[shuffled[len(pool) - 2 * size : len(pool) - size]] = ID_VAL
    part[shuffled[len(pool) - size :]] = ID_TEST
    return Assignment(part, blocks.env, {"rule": rule, "seed": seed})


def covariate(blocks: Blocks, seed: int) -> Assignment:
    """The covariate split: `id_val` and `id_test` have a tenth of all rows each, whatever the blocks."""
    return hold_out(blocks, int(COVARIATE_HELD_OUT * len(blocks.block)), seed, "GOOD covariate")


def concept_blocks(domain: IntArray, labels: FloatArray, rng: np.random.Generator) -> Blocks:
    """The same domains everywhere, but what a domain says about the label is turned round outside the pool.

    The lower half of the domains goes with high labels in the pool and with low ones in the test block; the upper half
    the other way round.

    Args:
        domain: (n,) domain numbers.
        labels: (n, n_tasks), NaN = missing; a row counts with the mean of the labels it has, or 0 without any.
        rng: source of the draws.
    """
    known = ~np.isnan(labels)
    mean = np.where(known, labels, 0).sum(1) / known.sum(1).clip(min=1)
    above = mean - mean.mean()
    sign = _sign(domain)
    block, env = np.full(len(domain), VAL), np.full(len(domain), -1)
    left = np.arange(len(domain))
    for group in CONCEPT_GROUPS:
        direction = sign if group.block == POOL else -sign
        follows = direction[left] * above[left] > 0
        enters = _enters(domain[left], follows, group, rng)
        block[left[enters]], env[left[enters]] = group.block, group.env
        left = left[~enters]
    return Blocks(block, env)


def concept(domain: IntArray, labels: FloatArray, seed: int) -> Assignment:
    """The concept split: `concept_blocks`, then 15 % of the pool each for `id_val` and `id_test`."""
    blocks = concept_blocks(domain, labels, np.random.default_rng(seed))
    return hold_out(blocks, int(CONCEPT_HELD_OUT * (blocks.block == POOL).sum()), seed, "GOOD concept")


def no_shift(n: int, seed: int) -> Assignment:
    """All parts alike: 60 % `train` with random environments, 20 % `ood_val`, 20 % `ood_test`, nothing else."""
    rng = np.random.default_rng(seed)
    first, second = (int(share * n) for share in NO_SHIFT_CUTS)
    part = np.empty(n, np.int64)
    part[rng.permutation(n)] = np.repeat([TRAIN, OOD_VAL, OOD_TEST], [first, second - first, n - second])
    env = np.where(part == TRAIN, rng.integers(ENVIRONMENTS, size=n), -1)
    return Assignment(part, env, {"rule": "GOOD no-shift", "seed": seed})


def _sign(domain: IntArray) -> IntArray:
    """(n,) +1 for rows of domains that have fewer than half of all rows before them, -1 for the others."""
    _, inverse, count = np.unique(domain, return_inverse=True, return_counts=True)
    before = np.cumsum(count) - count
    return np.where(before < len(domain) / 2, 1, -1)[inverse]


def _enters(domain: IntArray, follows: BoolArray, group: ConceptGroup, rng: np.random.Generator) -> BoolArray:
    """(n,) which of the rows left enter the group.

    A domain that has both kinds of rows, those that follow its correlation and those that do not, enters with both or
    with none: where only one kind was drawn, the first row of the other kind is added.
    """
    take, choose = rng.random((2, len(domain)))
    enters: BoolArray = (take < group.take) & np.where(follows, choose < group.bias, choose > group.bias)
    _, number = np.unique(domain, return_inverse=True)
    n_domains = int(number.max()) + 1 if len(number) else 0
    drawn = [np.bincount(number[enters & (follows == kind)], minlength=n_domains) > 0 for kind in (False, True)]
    for kind in (False, True):
        rows = np.flatnonzero(follows == kind)
        one_sided = drawn[not kind] & ~drawn[kind]
        _, first = np.unique(number[rows], return_index=True)
        extra = rows[first]
        enters[extra[one_sided[number[extra]]]] = True
    return enters
