"""Five parts for anybody's rows: by scaffold, size or any other domain, at random, or as given.

Every rule is a pure function of what the rows are, not of the order they come in: a row is known by its domain and its
key (for a molecule the canonical SMILES), rows of equal key stay together, and chance is a hash of seed and key.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mphil.errors import DataError
from mphil.graphs.split import PARTS, Split
from mphil.tables.cell_values import as_number

IntArray = NDArray[np.int64]

TRAIN, ID_VAL, ID_TEST, OOD_VAL, OOD_TEST = range(len(PARTS))
ENVIRONMENTS = 10
CUTS = (0.8, 0.9)
"""Shares of the rows, in the order of their domains, at which `ood_val` and `ood_test` begin."""

LEAST_POOL = 0.5
"""Share of the rows below which what is left for training is not worth it."""

HELD = 0.1
"""Share of all rows that `id_val` and `id_test` get from the pool, each; of groups also `ood_val` and `ood_test`."""

LEAST_HELD = 20
"""Rows that `ood_val` and `ood_test` get of a small table, each, but never more than a fifth of it."""


@dataclass(frozen=True, eq=False)
class Assignment:
    """The part and the environment of every row.

    Attributes:
        part: (n,) position in `PARTS`, -1 = in none.
        env: (n,) environment of rows that share the training domains, -1 elsewhere.
        provenance: rule, seed and sizes.
    """

    part: IntArray
    env: IntArray
    provenance: Mapping[str, Any]

    def to_split(self) -> Split:
        """The parts as ascending positions."""
        rows = {name: torch.from_numpy(np.flatnonzero(self.part == code)) for code, name in enumerate(PARTS)}
        return Split(**rows, provenance=self.provenance)


def order_domains(values: Sequence[str]) -> list[str]:
    """The different values in ascending order: as numbers when all of them are, otherwise as text; empty comes first.

    Example:
        >>> order_domains(["10", "9", "10", ""]), order_domains(["10", "9", "x"])
        (['', '9', '10'], ['10', '9', 'x'])
    """
    different = set(values)
    numbers = {value: as_number(value) for value in different if value}
    if any(number is None for number in numbers.values()):
        return sorted(different)
    return sorted(different, key=lambda value: (bool(value), numbers.get(value), value))


def by_domain(
    domains: Sequence[str],
    keys: Sequence[str],
    *,
    descending: bool = False,
    environments: int = ENVIRONMENTS,
    seed: int = 0,
) -> Assignment:
    """The covariate split in the manner of GOOD: domains in order, the last ones for `ood_val` and `ood_test`.

    About 80 % of the rows share the training domains; a domain is never divided between them, `ood_val` and
    `ood_test`. Where so few domains leave a part empty, the last two domains are the shifted parts. The training
    domains are cut into environments in the same manner, and a tenth of all rows each is taken out of them at
    random for `id_val` and `id_test`.

    Args:
        domains: (n,) domain of each row, in text.
        keys: (n,) what each row is; rows of equal key and domain stay in one part.
        descending: from the largest domain to the smallest, as GOOD does for sizes.
        environments: number of environments to cut the training domains into, at most.
        seed: of the choice of `id_val` and `id_test`.

    Raises:
        DataError: there are not enough domains for three parts, or one domain has nearly all rows.
    """
    _check_lengths(domains, keys)
    order = order_domains(domains)
    if len(order) < 3:
        raise DataError(f"{len(order)} different domains; a training, a validation and a test domain need at least 3")
    rank = {value: number for number, value in enumerate(reversed(order) if descending else order)}
    n = len(domains)
    number = np.fromiter((rank[value] for value in domains), np.int64, n)
    walk = np.argsort(number, kind="stable")
    piece = np.empty(n, np.int64)
    piece[walk] = cut_between_domains(number[walk], [int(share * n) for share in CUTS])
    if piece.max() < len(CUTS):  # few or large domains: the walk was over before the last part began
        piece = np.maximum(number - (len(order) - 3), 0)
    if (piece == 0).sum() < LEAST_POOL * n:
        common, count = Counter(domains).most_common(1)[0]
        raise DataError(
            f"domain {common[:60]!r} holds {count:,} of {n:,} rows and is not divided: too little is left to train on"
        )
    pool = walk[piece[walk] == 0]
    env = np.full(n, -1)
    step = max(1, len(pool) // environments)
    env[pool] = cut_between_domains(number[pool], [step * count for count in range(1, environments)])
    part = np.array([TRAIN, OOD_VAL, OOD_TEST])[piece]
    held = int(HELD * n)
    part[pool] = _hold_out([keys[row] for row in pool], held, seed)
    provenance = {"rule": "covariate", "descending": descending, "environments": environments, "seed": seed, "rows": n}
    return Assignment(part, env, provenance)


def by_group(
    groups: Sequence[str],
    keys: Sequence[str],
    labels: NDArray[np.floating[Any]] | None = None,
    *,
    environments: int = ENVIRONMENTS,
    seed: int = 0,
) -> Assignment:
    """Whole groups, such as scaffolds, held out at random, so that sizes and classes come out as wanted.

    `ood_val` and `ood_test` get a tenth of the rows each, in groups that are in no other part, drawn by a hash of
    seed and group. Large groups go to training. Both parts have rows of every class, as far as there are enough. The
    other groups are cut into environments, and a tenth of all rows each is taken out of them at random for `id_val`
    and `id_test`.

    Args:
        groups: (n,) group of each row, in text; they have no order.
        keys: (n,) what each row is; rows of equal key and group stay in one part.
        labels: (n, tasks) classes, NaN = missing; None when they are not known.
        environments: number of environments to cut the training groups into, at most.
        seed: of all draws.

    Raises:
        DataError: there are not enough groups for three parts, or the groups are too large.
    """
    _check_lengths(groups, keys)
    n = len(groups)
    if len(set(groups)) < 3:
        raise DataError(
            f"{len(set(groups))} different groups; a training, a validation and a test group need at least 3"
        )
    if labels is not None and len(labels) != n:
        raise DataError(f"{len(labels)} rows of labels for {n} rows; give one for each")
    number, walk = shuffled(groups, seed, "group")
    counts = class_counts(number, np.zeros((n, 0)) if labels is None else labels)
    wanted = max(1, round(HELD * n), min(LEAST_HELD, n // 5))
    home = Dealing(np.bincount(number), counts, wanted, most=int(LEAST_POOL * n)).deal()[number]
    if not {1, 2} <= set(home.tolist()):
        common, count = Counter(groups).most_common(1)[0]
        raise DataError(
            f"group {common[:60]!r} holds {count:,} of {n:,} rows and is not divided: the groups are too large or too "
            "few to hold out two parts; split by something finer, or at random"
        )
    pool = walk[home[walk] == 0]
    env = np.full(n, -1)
    step = max(1, len(pool) // environments)
    env[pool] = cut_between_domains(number[pool], [step * count for count in range(1, environments)])
    part = np.array([TRAIN, OOD_VAL, OOD_TEST])[home]
    part[pool] = _hold_out([keys[row] for row in pool], int(HELD * n), seed)
    return Assignment(part, env, {"rule": "groups", "environments": environments, "seed": seed, "rows": n})


def at_random(keys: Sequence[str], *, environments: int = ENVIRONMENTS, seed: int = 0) -> Assignment:
    """All parts alike: 60 % `train` and 10 % for each of the others; rows of equal key stay together.

    The `ood` parts are no different from the rest: what a method loses on them is noise.
    """
    n = len(keys)
    if len(set(keys)) < 3:
        raise DataError(f"{len(set(keys))} different molecules are too few to split")
    chance, walk = shuffled(keys, seed)
    cuts = [int(share * n) for share in (0.6, 0.7, 0.8, 0.9)]
    part, env = np.empty(n, np.int64), np.full(n, -1)
    part[walk] = cut_between_domains(chance[walk], cuts)
    pool = walk[part[walk] <= ID_TEST]
    other, again = shuffled([keys[row] for row in pool], seed, "environment")
    step = max(1, len(pool) // environments)
    env[pool[again]] = cut_between_domains(other[again], [step * count for count in range(1, environments)])
    return Assignment(part, env, {"rule": "random", "environments": environments, "seed": seed, "rows": n})


def predefined(words: Sequence[str], names: Mapping[str, str]) -> Assignment:
    """The split a user has already made.

    Args:
        words: (n,) what the table says of each row; an empty word leaves the row out.
        names: word, in small letters, to the name of its part.

    Raises:
        DataError: a word that names no part.
    """
    codes = {word: PARTS.index(part) for word, part in names.items() if part in PARTS} | {"": -1}
    unknown = sorted({word for word in words if word.strip().lower() not in codes})
    if unknown:
        raise DataError(f"{unknown[0][:60]!r} names no part; known: {', '.join(sorted(names))}")
    part = np.fromiter((codes[word.strip().lower()] for word in words), np.int64, len(words))
    return Assignment(part, np.full(len(words), -1), {"rule": "predefined", "rows": len(words)})


def cut_between_domains(domain: IntArray, cuts: Sequence[int]) -> IntArray:
    """Cut a sequence of rows into pieces without dividing a run of equal domains.

    A piece ends at the first row at or past its cut that begins another domain; a border ends one piece only.

    Args:
        domain: (n,) domain numbers; equal ones are neighbours.
        cuts: ascending positions, one fewer than there are pieces.

    Returns:
        (n,) number of the piece of each row.

    Example:
        >>> cut_between_domains(np.array([0, 0, 0, 1, 1, 2]), [1, 4]).tolist()
        [0, 0, 0, 1, 1, 2]
    """
    piece = np.zeros(len(domain), np.int64)
    current = 0
    for start in (np.flatnonzero(np.diff(domain)) + 1).tolist():
        if current < len(cuts) and start >= cuts[current]:
            current += 1
            piece[start:] = current
    return piece


def shuffled(keys: Sequence[str], seed: int, purpose: str = "part") -> tuple[IntArray, IntArray]:
    """A number for each row by chance, equal for equal keys, and the rows in the order of these numbers.

    Args:
        keys: (n,) what each row is.
        seed: of the order.
        purpose: orders for different purposes have nothing to do with each other.
    """
    different = sorted(set(keys), key=lambda key: (_chance(f"{purpose}:{seed}:{key}"), key))
    rank = {key: number for number, key in enumerate(different)}
    chance = np.fromiter((rank[key] for key in keys), np.int64, len(keys))
    return chance, np.argsort(chance, kind="stable")


def _hold_out(keys: Sequence[str], size: int, seed: int) -> IntArray:
    """(n,) `TRAIN`, `ID_VAL` or `ID_TEST` for the rows of the pool, by chance and whole groups of equal key."""
    chance, walk = shuffled(keys, seed)
    part = np.empty(len(keys), np.int64)
    part[walk] = cut_between_domains(chance[walk], [len(keys) - 2 * size, len(keys) - size])
    return part


def _chance(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _check_lengths(domains: Sequence[str], keys: Sequence[str]) -> None:
    if len(domains) != len(keys):
        raise DataError(f"{len(domains)} domains for {len(keys)} rows; give one for each")


HELD_PARTS = 2
LEAST_OF_CLASS = 10
"""Rows of every class that a held-out part gets before it is filled up; fewer when its share of them is less."""

KEPT_OF_CLASS = 1 / 3
"""Share of the rows of every class that is never held out."""


@dataclass
class Dealing:
    """Groups on their way into two held-out parts; what is in neither is for training.

    Attributes:
        sizes: (groups,) rows of each group.
        counts: (groups, classes) rows of each class.
        wanted: rows that each held-out part should have.
        most: rows that both parts may take together.
        home: (groups,) where each group is, as `deal` returns it.
        filled: (2,) rows of each held-out part.
        classes: (2, classes) rows of each class in them.
    """

    sizes: IntArray
    counts: IntArray
    wanted: int
    most: int
    home: IntArray = field(init=False)
    filled: IntArray = field(init=False)
    classes: IntArray = field(init=False)

    def __post_init__(self) -> None:
        self.home = np.zeros(len(self.sizes), np.int64)
        self._total = self.counts.sum(0)
        self._kept = np.ceil(KEPT_OF_CLASS * self._total).astype(np.int64)
        self._left = self._total.copy()
        self.filled = np.zeros(HELD_PARTS, np.int64)
        self.classes = np.zeros((HELD_PARTS, self.counts.shape[1]), np.int64)

    def deal(self) -> IntArray:
        """Fill both parts: first so that every class is there, then up to their size.

        Groups of more than half a part go to training, unless the others leave a part less than half full: then it
        gets the smallest of them. Apart from that, groups are taken in the order in which they are given.

        Returns:
            (groups,) 0 = training, 1 and 2 = held out.
        """
        small = self.sizes <= max(1, self.wanted // 2)
        order = np.argsort(np.where(small, 0, self.sizes), kind="stable")
        rarest_first = np.argsort(self._total, kind="stable").tolist()
        for most in (1, LEAST_OF_CLASS):
            for column in rarest_first:
                self._add_class(order[small[order] & (self.counts[order, column] > 0)].tolist(), column, most)
        for group in order.tolist():
            part = int(np.argmin(self.filled))
            if self.filled[part] >= self.wanted:
                break
            if self._fits(group, part):
                self._put(group, part)
        for part in np.argsort(self.filled, kind="stable").tolist():
            free = next((group for group in order.tolist() if self._may_leave(group)), None)
            if 2 * self.filled[part] < self.wanted and free is not None:
                self._put(free, part)
        return self.home

    def _add_class(self, order: Sequence[int], column: int, most: int) -> None:
        """Put groups with a class into the part that has less of it, until both have their share, or so many rows."""
        share = int(self._total[column]) * self.wanted // int(self.sizes.sum())
        for group in order:
            part = int(np.argmin(self.classes[:, column]))
            if self.classes[part, column] >= max(1, min(most, share)):
                return
            if self._fits(group, part):
                self._put(group, part)

    def _fits(self, group: int, part: int) -> bool:
        return bool(self.filled[part] + self.sizes[group] <= self.wanted) and self._may_leave(group)

    def _may_leave(self, group: int) -> bool:
        """Whether the group is still in training, and training has enough rows of every class without it."""
        enough = bool((self._left - self.counts[group] >= self._kept)[self.counts[group] > 0].all())
        return not self.home[group] and enough and bool(self.filled.sum() + self.sizes[group] <= self.most)

    def _put(self, group: int, part: int) -> None:
        self.home[group] = part + 1
        self.filled[part] += self.sizes[group]
        self.classes[part] += self.counts[group]
        self._left -= self.counts[group]


def class_counts(group: IntArray, labels: NDArray[np.floating[Any]]) -> IntArray:
    """(groups, classes) rows of every class of every task in each group.

    Args:
        group: (n,) group numbers, from 0 on without gaps.
        labels: (n, tasks), NaN = missing.
    """
    columns = [
        np.bincount(group[column == value], minlength=int(group.max()) + 1)
        for column in labels.T
        for value in np.unique(column[~np.isnan(column)])
    ]
    return np.stack(columns, axis=1) if columns else np.zeros((int(group.max()) + 1, 0), np.int64)
