"""What the demo page shows, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mphil.errors import DataError
from mphil.pages.sphere import Cloud
from mphil.pages.text import MISSING, known
from mphil.task import Metric

SELECTIONS = ("ood_val", "id_val")
PART_NAMES = {
    "train": "training",
    "id_val": "ID validation",
    "id_test": "ID test",
    "ood_val": "OOD validation",
    "ood_test": "OOD test",
}


@dataclass(frozen=True)
class Choice:
    """The epoch one selection rule chose.

    Attributes:
        epoch: its number, counted from 1.
        scores: part (`id_val`, `id_test`, `ood_val`, `ood_test`) to the metric there, between 0 and 1; None or NaN
            where there is none.
    """

    epoch: int
    scores: Mapping[str, float | None]


@dataclass(frozen=True)
class MethodView:
    """One trained method.

    Attributes:
        name: as typed on the command line.
        choices: selection rule (`ood_val`, `id_val`) to what it chose; both are needed.
        curves: part to the metric after every epoch.
        seconds: wall-clock time of the training.
        cloud: its embedding on the sphere, or None.
        atom_score: mean over the OOD test molecules of the ROC-AUC of atom importance against the truth, or None.
        label: name for the reader; `name` in capitals when empty.
    """

    name: str
    choices: Mapping[str, Choice]
    curves: Mapping[str, Sequence[float | None]]
    seconds: float
    cloud: Cloud | None = None
    atom_score: float | None = None
    label: str = ""

    def __post_init__(self) -> None:
        if missing := [rule for rule in SELECTIONS if rule not in self.choices]:
            raise DataError(f"method {self.name}: no choice by {missing[0]}; the page shows both selections")
        if not self.label:
            object.__setattr__(self, "label", self.name.upper())


@dataclass(frozen=True)
class FoundAtoms:
    """A molecule with the atoms a method relied on.

    Attributes:
        svg: the drawing, a whole SVG document.
        score: ROC-AUC of the method's atom importance against the ground truth, or None.
    """

    svg: str
    score: float | None = None

    @property
    def told(self) -> str:
        value = known(self.score)
        return MISSING if value is None else f"{value:.2f}"


@dataclass(frozen=True)
class MoleculeView:
    """A molecule of the gallery.

    Attributes:
        name: SMILES or another name.
        caption: class, part, scaffold: what to know about it.
        truth: drawing with the atoms that decide the label, a whole SVG document.
        found: method name to what it found.
    """

    name: str
    caption: str
    truth: str
    found: Mapping[str, FoundAtoms]


@dataclass(frozen=True)
class PartView:
    """One part of the data.

    Attributes:
        name: `train`, `id_val`, `id_test`, `ood_val` or `ood_test`.
        graphs: number of graphs.
        per_class: number of graphs of each class, in the order of `DataView.classes`.
        scaffolds: number of different scaffolds (or other environments), or None.
        shortcut: accuracy of predicting the label from the scaffold alone by the rule that fits the training part, or
            None where that rule says nothing, because the scaffolds are new.
    """

    name: str
    graphs: int
    per_class: Sequence[int]
    scaffolds: int | None = None
    shortcut: float | None = None


@dataclass(frozen=True)
class DataView:
    """What the data are and how the shift was made.

    Attributes:
        benchmark: name in the registry.
        classes: names of the classes.
        parts: the five parts.
        story: paragraphs that say what decides the label, what only goes along with it, and what changes; `code` may
            be marked by backquotes.
        noun: what a graph is, in the plural.
        digest: hash of graphs and split.
    """

    benchmark: str
    classes: Sequence[str]
    parts: Sequence[PartView]
    story: Sequence[str]
    noun: str = "molecules"
    digest: str = ""

    def part(self, name: str) -> PartView | None:
        return next((part for part in self.parts if part.name == name), None)


@dataclass(frozen=True)
class Making:
    """How the numbers were made.

    Attributes:
        command: the command that made the page.
        seeds: seeds of the runs; scores are means when there are several.
        epochs: epochs every method trained for.
        versions: package to version.
        machine: processor, cores, operating system.
        threads: threads torch used.
        date: day the page was made.
    """

    command: str
    seeds: Sequence[int]
    epochs: int
    versions: Mapping[str, str]
    machine: str
    threads: int
    date: str = ""


@dataclass(frozen=True)
class DemoView:
    """Everything on the demo page.

    Attributes:
        data: the benchmark.
        metric: what the scores are.
        methods: in the order of tables and legends.
        making: how the numbers were made.
        molecules: the gallery.
        next_commands: (command, what it does) to go on with.
        focus: name of the method the page is about.
        chance: score of guessing, or None.
        sphere_parts: parts shown on the spheres, the one drawn filled first.
    """

    data: DataView
    metric: Metric
    methods: Sequence[MethodView]
    making: Making
    molecules: Sequence[MoleculeView] = ()
    next_commands: Sequence[tuple[str, str]] = ()
    focus: str = "mphil"
    chance: float | None = None
    sphere_parts: Sequence[str] = field(default=("id_test", "ood_test"))

    def __post_init__(self) -> None:
        if not self.methods:
            raise DataError("the demo page needs at least one trained method")
