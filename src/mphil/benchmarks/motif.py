"""GOOD-Motif: which of three motifs hangs on a base graph, when the kind or the size of the base shifts.

Classes are house, cycle and crane; one label in ten is redrawn uniformly in every part, so a perfect model scores about
93.3 %. Extras: `basis_id` (0 wheel, 1 tree, 2 ladder, 3 star, 4 path), `motif_id`, the motif before label noise, and in
the size domain `width_id`, the number of the size class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch

from mphil.benchmarks.catalogue import Benchmark, register
from mphil.benchmarks.motif_graphs import (
    CRANE,
    CYCLE,
    HOUSE,
    IntArray,
    Shape,
    assemble,
    ladder,
    path,
    split_in_order,
    star,
    tree,
    wheel,
)
from mphil.errors import UsageError
from mphil.graphs.split import PARTS, Part, Split
from mphil.task import Task

Domain = Literal["basis", "size"]
Shift = Literal["covariate", "concept", "no-shift"]

CLASSES = ("house", "cycle", "crane")
MOTIFS = (HOUSE, CYCLE, CRANE)
LABEL_NOISE = 0.1
LEAST_GRAPHS = 20
"""Fewest graphs that leave none of the parts empty."""

CENTRE = 10
"""Middle of the widths when the size does not shift."""
SPREAD = 5
"""Widths are uniform within this distance of their centre, both ends included."""
CENTRES: Mapping[Shift, tuple[int, ...]] = {"covariate": (6, 10, 15, 30, 70), "concept": (10, 40, 70)}
"""Centre of the widths of each size class."""

TRAIN_CORRELATION = (0.99, 0.97, 0.95)
"""Concept shift: how often the motif decides the domain in each training environment; else the domain is uniform."""
OOD_CORRELATION: Mapping[Part, float] = {"ood_val": 0.3, "ood_test": 0.0}


def base_shape(kind: int, width: int) -> Shape:
    """The base graph of a kind (0 wheel, 1 tree, 2 ladder, 3 star, 4 path) and a width of at least 1."""
    if kind == 1:
        return tree(max(width.bit_length() - 2, 1))
    return {0: wheel, 2: ladder, 3: star, 4: path}[kind](width)


@dataclass(frozen=True)
class Draws:
    """What was drawn for each graph, parts one after the other: all arrays are (n_graphs,).

    Attributes:
        motif: 0 house, 1 cycle, 2 crane.
        domain: kind of base, or number of the size class.
        env: environment, -1 where it is not set.
    """

    motif: IntArray
    domain: IntArray
    env: IntArray


def part_sizes(shift: Shift, graphs: int) -> dict[Part, int]:
    """Graphs in each part; `train` takes what rounding leaves over."""
    if graphs < LEAST_GRAPHS:
        raise UsageError(f"graphs must be at least {LEAST_GRAPHS} to fill all parts, not {graphs}")
    ood = graphs // 10 if shift == "covariate" else graphs // 5
    in_domain = {"covariate": graphs // 10, "concept": (graphs - 2 * ood) * 15 // 100, "no-shift": 0}[shift]
    train = graphs - 2 * ood - 2 * in_domain
    return dict(zip(PARTS, (train, in_domain, in_domain, ood, ood), strict=True))


def _covariate(rng: np.random.Generator, sizes: Mapping[Part, int]) -> Draws:
    """Domains 0 to 2 in the training distribution, 3 in `ood_val`, 4 in `ood_test`; the domain is the environment."""
    n_ood = (sizes["ood_val"], sizes["ood_test"])
    pool = sum(sizes.values()) - sum(n_ood)
    motif = rng.integers(3, size=sum(sizes.values()))
    domain = np.concatenate([rng.integers(3, size=pool), np.repeat([3, 4], n_ood)])
    return Draws(motif, domain, env=domain)


def _concept(rng: np.random.Generator, sizes: Mapping[Part, int]) -> Draws:
    """The domain follows the motif: almost always in training, rarely in `ood_val`, by chance alone in `ood_test`."""
    n_ood = (sizes["ood_val"], sizes["ood_test"])
    pool = sum(sizes.values()) - sum(n_ood)
    env = rng.permutation(np.arange(pool) * 3 // pool)
    correlation = np.concatenate(
        [np.array(TRAIN_CORRELATION)[env], np.repeat([OOD_CORRELATION["ood_val"], OOD_CORRELATION["ood_test"]], n_ood)]
    )
    motif, chance = rng.integers(3, size=(2, len(correlation)))
    domain = np.where(rng.random(len(correlation)) < correlation, motif, chance)
    return Draws(motif, domain, env=np.concatenate([env, np.full(sum(n_ood), -1)]))


def _no_shift(rng: np.random.Generator, sizes: Mapping[Part, int]) -> Draws:
    """Every part alike: all five bases, and each motif equally often."""
    motif = np.concatenate([rng.permutation(np.arange(size) % 3) for size in sizes.values()])
    return Draws(motif, domain=rng.integers(5, size=len(motif)), env=np.full(len(motif), -1))


_DRAW: Mapping[Shift, Callable[[np.random.Generator, Mapping[Part, int]], Draws]] = {
    "covariate": _covariate,
    "concept": _concept,
    "no-shift": _no_shift,
}


def _builder(domain: Domain, shift: Shift) -> Callable[..., Benchmark]:
    """The function that builds one setting; its options are the seed of every draw and the graphs of all parts."""

    def build(*, seed: int = 0, graphs: int = 30_000) -> Benchmark:
        rng = np.random.default_rng(seed)
        sizes = part_sizes(shift, graphs)
        draws = _DRAW[shift](rng, sizes)
        extras = {"motif_id": draws.motif}
        centre: IntArray | int = CENTRE
        if domain == "size" and shift != "no-shift":
            centre = np.array(CENTRES[shift])[draws.domain]
            extras["width_id"] = draws.domain
            extras["basis_id"] = rng.integers(5, size=graphs)
        else:
            extras["basis_id"] = draws.domain
        width = centre + rng.integers(-SPREAD, SPREAD, size=graphs, endpoint=True)

        kinds, base = np.unique(np.stack([extras["basis_id"], width]), axis=1, return_inverse=True)
        bases = [base_shape(kind, width) for kind, width in kinds.T.tolist()]
        assembled = assemble(rng, bases, base, MOTIFS, draws.motif)
        redrawn = rng.random(graphs) < LABEL_NOISE
        y = np.where(redrawn, rng.integers(3, size=graphs), draws.motif)

        provenance = {"rule": f"good-motif, domain {domain}, {shift}", "seed": seed, "graphs": graphs}
        return Benchmark(
            task=Task("multiclass", 3, "accuracy"),
            store=assembled.to_store(y, draws.env, **extras),
            split=split_in_order(sizes, provenance),
            encoder={"layers": 4, "width": 128},
            classes=CLASSES,
        )

    return build


def _held_out(basis: int) -> Callable[..., Benchmark]:
    """The function that builds `good-motif-basis` without its OOD parts: a basis of training becomes OOD validation."""

    def build(*, seed: int = 0, graphs: int = 30_000) -> Benchmark:
        data = _builder("basis", "covariate")(seed=seed, graphs=graphs)
        held = data.store.env == basis
        parts = {part: positions[~held[positions]] for part, positions in data.split if not part.startswith("ood")}
        unseen = torch.cat([data.split.id_val, data.split.id_test])
        provenance = {**data.split.provenance, "rule": f"good-motif, basis {basis} held out of training"}
        none = torch.empty(0, dtype=torch.long)
        return replace(data, split=Split(**parts, ood_val=unseen[held[unseen]], ood_test=none, provenance=provenance))

    return build


_SUMMARY: Mapping[tuple[Domain, Shift], str] = {
    ("basis", "covariate"): "House, cycle or crane on a wheel, tree or ladder; tested on stars (val) and paths (test).",
    ("size", "covariate"): "House, cycle or crane on small base graphs; tested on larger (val) and huge (test) ones.",
    ("basis", "concept"): "The kind of base predicts the motif in training (95 to 99 %) and no longer in the test.",
    ("size", "concept"): "The size of the base predicts the motif in training (95 to 99 %) and no longer in the test.",
    ("basis", "no-shift"): "House, cycle or crane on all five bases, every part drawn alike.",
    ("size", "no-shift"): "The same construction as good-motif-basis-no-shift: without a shift the domains agree.",
}

for _setting, _summary in _SUMMARY.items():
    _domain, _shift = _setting
    register(
        f"good-motif-{_domain}" + ("" if _shift == "covariate" else f"-{_shift}"),
        _builder(_domain, _shift),
        summary=_summary,
        source="generated here by the rules of GOOD-Motif (Gui et al., 2022, arXiv:2206.08452); own code, MIT",
        differs="a fresh, seeded sample: the published file is one unseeded draw of the same rules",
    )

for _number, _basis in enumerate(("wheel", "tree", "ladder")):
    register(
        f"motif-held-out-{_basis}",
        _held_out(_number),
        summary=f"good-motif-basis for choices: {_basis}s are in OOD validation alone, and there is no OOD test.",
        source="generated here by the rules of GOOD-Motif (Gui et al., 2022, arXiv:2206.08452); own code, MIT",
        differs="the stars and paths of good-motif-basis are left out",
    )
