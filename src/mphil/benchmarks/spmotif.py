"""SPMotif: the motif decides the label, and in training each class prefers a base of its own.

With bias b a training graph of class c gets the partner base of c with probability b and each of the other two with
(1 - b) / 2; in the OOD parts all bases are equally likely, and `ood_test` uses large ones. Extras: `basis_id` (0 tree,
1 ladder, 2 wheel), also the environment, and `motif_id` (0 cycle, 1 house, 2 crane), also the label.

`spmotif-binary-*` and `spmotif-copies-*` are two readings of the name SPMotif-binary, which has no public definition:
two classes, or three classes with several copies of the motif in every graph, two unless told otherwise. In the second
reading all trees but those of `ood_test` have height 3, each copy hangs on a base node drawn for it alone, and noise
edges are one for every 20 edges, never between two nodes of motifs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mphil.benchmarks.catalogue import Benchmark, register
from mphil.benchmarks.motif_graphs import (
    CRANE,
    CYCLE,
    HOUSE,
    IntArray,
    Shape,
    assemble,
    ladder,
    split_in_order,
    tree,
    wheel,
)
from mphil.errors import UsageError
from mphil.graphs.split import PARTS, Part
from mphil.task import Task

CLASSES = ("cycle", "house", "crane")
MOTIFS = (CYCLE, HOUSE, CRANE)

Families = tuple[tuple[Shape, ...], ...]
SMALL: Families = (
    tuple(tree(height, branching) for height in range(3) for branching in (2, 3)),
    tuple(ladder(rungs) for rungs in range(8, 12)),
    tuple(wheel(nodes) for nodes in range(15, 20)),
)
"""Trees, ladders and wheels of all parts but `ood_test`; within a family every shape is equally likely."""
LARGE: Families = (
    tuple(tree(height, branching) for height in range(3, 6) for branching in (2, 3)),
    tuple(ladder(rungs) for rungs in range(30, 50)),
    tuple(wheel(nodes) for nodes in range(60, 80)),
)
"""Trees, ladders and wheels of `ood_test`."""
TALL: Families = (tuple(tree(3, branching) for branching in (2, 3)), *SMALL[1:])
"""`SMALL` with trees of height 3, for the graphs with several motifs."""

BALANCED = 1 / 3
"""The bias that makes all three bases equally likely."""
TRAIN_TO_OTHERS = 3
"""A class has this many times more graphs in `train` than in any other part."""


def part_sizes(n_classes: int, per_class: int) -> dict[Part, int]:
    """Graphs in each part, all classes together."""
    if per_class < TRAIN_TO_OTHERS:
        raise UsageError(f"per_class must be at least {TRAIN_TO_OTHERS} to fill all parts, not {per_class}")
    others = n_classes * (per_class // TRAIN_TO_OTHERS)
    return {part: n_classes * per_class if part == "train" else others for part in PARTS}


def draw_base(rng: np.random.Generator, motif: IntArray, bias: npt.NDArray[np.float64]) -> IntArray:
    """The family of each graph's base: the motif's partner with probability `bias`, else one of the other two."""
    other = (motif + rng.integers(1, 3, size=len(motif))) % 3
    return np.where(rng.random(len(motif)) < bias, motif, other)


def draw_shape(rng: np.random.Generator, family: IntArray, families: Families) -> IntArray:
    """A uniform shape of each graph's family, counted through all families."""
    counts = np.array([len(shapes) for shapes in families])
    first: IntArray = np.cumsum(counts) - counts
    return first[family] + rng.integers(counts[family])


def _build(n_classes: int, bias: float, seed: int, per_class: int, copies: int | None = None) -> Benchmark:
    """Build any of them: with a number of `copies` the reading with several motifs a graph, else that with one."""
    if not 0 <= bias <= 1:
        raise UsageError(f"bias is a probability between 0 and 1, not {bias}")
    if copies is not None and copies < 1:
        raise UsageError(f"copies counts the motifs of a graph and must be at least 1, not {copies}")
    rng = np.random.default_rng(seed)
    sizes = part_sizes(n_classes, per_class)
    motif = np.concatenate([rng.permutation(np.arange(size) % n_classes) for size in sizes.values()])
    part = np.repeat(np.array(PARTS), list(sizes.values()))
    balanced, large = np.isin(part, ("ood_val", "ood_test")), part == "ood_test"
    base = draw_base(rng, motif, np.where(balanced, BALANCED, bias))
    families = (SMALL if copies is None else TALL) + LARGE
    shape = draw_shape(rng, base + len(SMALL) * large, families)

    assembled = assemble(rng, [s for shapes in families for s in shapes], shape, MOTIFS, motif, copies or 1)
    provenance = {"rule": f"spmotif, {n_classes} classes", "bias": bias, "seed": seed, "per_class": per_class}
    if copies is not None:
        provenance |= {"rule": "spmotif with copies of the motif", "copies": copies}
    return Benchmark(
        task=Task("binary", 1, "accuracy") if n_classes == 2 else Task("multiclass", n_classes, "accuracy"),
        store=assembled.to_store(motif, env=base, basis_id=base, motif_id=motif),
        split=split_in_order(sizes, provenance),
        encoder={"layers": 4, "width": 128},
        classes=CLASSES[:n_classes],
    )


def build_spmotif(*, bias: float = 0.9, seed: int = 0, per_class: int = 3000) -> Benchmark:
    """SPMotif with three classes.

    Args:
        bias: probability that a training graph gets the partner base of its class.
        seed: seed of every draw.
        per_class: training graphs of a class; the other parts have a third of it each.
    """
    return _build(3, bias, seed, per_class)


def _binary_builder(bias: float) -> Callable[..., Benchmark]:
    """The function that builds SPMotif-binary with this bias."""

    def build(*, seed: int = 0, per_class: int = 3000) -> Benchmark:
        return _build(2, bias, seed, per_class)

    return build


def _copies_builder(bias: float) -> Callable[..., Benchmark]:
    """The function that builds SPMotif with several motifs a graph and this bias."""

    def build(*, seed: int = 0, per_class: int = 3000, copies: int = 2) -> Benchmark:
        return _build(3, bias, seed, per_class, copies)

    return build


_SOURCE = (
    "generated here by the rules of DIR (Wu et al., 2022, arXiv:2201.12872) with the motifs, noise and counts of EQuAD "
    "and LIRS; own code, MIT"
)
_DIFFERS = (
    "tree heights are uniform over 0, 1, 2 for every class, as in DIR: EQuAD and LIRS give class 0 height 3 in "
    "training, which leaks the label through the size; id_val and id_test are extra graphs drawn from the training "
    "distribution, so train keeps its published count; edges are stored both ways; node features are constant; a "
    "fresh, seeded sample"
)

register(
    "spmotif",
    build_spmotif,
    summary="Cycle, house or crane; in training each class prefers its own base, in the test none, and bases grow.",
    source=_SOURCE,
    differs=_DIFFERS,
)

for _bias in (0.40, 0.60, 0.90):
    register(
        f"spmotif-binary-{_bias:.2f}",
        _binary_builder(_bias),
        summary=f"Cycle or house, our own definition of a two-class SPMotif; training bias {_bias:.2f}.",
        source=_SOURCE,
        differs=(
            "OUR definition: no public one of SPMotif-binary was found. Classes cycle (partner tree) and house "
            "(partner ladder); the wheel is neutral, so a graph gets its partner with probability b and each other "
            f"base with (1 - b) / 2. As in spmotif here: {_DIFFERS}"
        ),
    )
    register(
        f"spmotif-copies-{_bias:.2f}",
        _copies_builder(_bias),
        summary=f"Cycle, house or crane, two copies a graph; training bias {_bias:.2f}, larger bases in the test.",
        source=_SOURCE,
        differs=(
            "another reading of SPMotif-binary, written from a description of the generator of LIRS, which has three "
            "classes and puts two copies of the motif into every graph. Trees of height 3 for every class in all parts "
            "but ood_test, where LIRS gives height 3 to class 0 alone in training; branching 2 or 3; copies hang on "
            "base nodes drawn one by one, which may coincide; no noise edge joins two nodes of motifs; id_val and "
            "id_test are extra graphs drawn from the training distribution; edges are stored both ways; node features "
            "are constant; a fresh, seeded sample"
        ),
    )
