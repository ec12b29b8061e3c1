"""What a page shows, as plain values, and its headline: who kept working under the shift, said by the numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mphil.errors import DataError
from mphil.pages.elements import MISSING, known, listing
from mphil.pages.sphere_map import Cloud
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


KEPT = 0.05
"""A method kept working when it lost no more than this from ID test to OOD test."""

METRIC_NAMES: dict[Metric, str] = {
    "accuracy": "accuracy",
    "roc_auc": "ROC-AUC",
    "average_precision": "average precision",
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R²",
    "spearman": "Spearman correlation",
}


@dataclass(frozen=True)
class Verdict:
    """Outcome, the sentence that says it, and the name of the winner (empty when there is none)."""

    outcome: Literal["kept", "better", "tie", "failed", "unknown"]
    sentence: str
    winner: str = ""


@dataclass(frozen=True)
class Standing:
    """The scores of one method at its chosen epoch."""

    label: str
    name: str
    id_test: float
    ood_test: float

    @property
    def lost(self) -> float:
        return self.id_test - self.ood_test

    @property
    def kept(self) -> bool:
        return self.lost <= KEPT


def score(value: float | None) -> str:
    """A score in per cent, one decimal, with a space that does not break: 0.9123 -> "91.2 %"."""
    value = known(value)
    return MISSING if value is None else f"{100 * value:.1f}\N{NO-BREAK SPACE}%"


def tie_margin(first: float, second: float, count: int | None) -> float:
    """Difference below which two scores on the same test part are called a tie.

    Twice the standard error of the difference, each score having variance at most s (1 - s) / n. For accuracy n is
    the number of graphs; for ROC-AUC the bound holds with the number of graphs in the smaller class. Both models
    see the same graphs, which makes the true error smaller: the margin errs towards a tie.
    """
    if not count:
        return 0.01
    spread = sum(max(s * (1 - s), 0.0) for s in (first, second)) / count
    return max(0.01, 2 * math.sqrt(spread))


def verdict(view: DemoView, selection: str = "ood_val") -> Verdict:
    """Judge the methods by OOD test at the epochs `selection` chose."""
    ranking = sorted(_standings(view, selection), key=lambda s: -s.ood_test)
    if not ranking:
        return Verdict("unknown", "No method has a score under the shift.")
    best, count = ranking[0], sample_size(view)
    floor = None if view.chance is None else view.chance + tie_margin(best.ood_test, view.chance, count)
    if floor is not None and best.ood_test <= floor:
        none = {1: f"{best.label} did not keep", 2: "Neither method kept"}.get(len(ranking), "No method kept")
        guess = f"where guessing gives {score(view.chance)}"
        return Verdict("failed", f"{none} working under the shift: {_list(ranking)} on OOD test, {guess}.")
    if len(ranking) == 1:
        return _alone(best)
    if best.ood_test - ranking[1].ood_test <= tie_margin(best.ood_test, ranking[1].ood_test, count):
        return _tie(ranking, count, view.data.noun)
    return _win(ranking, view)


def _alone(best: Standing) -> Verdict:
    did = "kept working" if best.kept else f"lost {_points(best.lost)}"
    ends = f"{score(best.id_test)} on ID test, {score(best.ood_test)} on OOD test"
    return Verdict("kept" if best.kept else "better", f"{best.label} {did} under the shift: {ends}.", best.name)


def _tie(ranking: list[Standing], count: int | None, noun: str) -> Verdict:
    reason = f"too close to call with {count:,} {noun}" if count else "too close to call"
    found = f"{_list(ranking[:2])} on OOD test, {reason}"
    if all(s.kept for s in ranking[:2]):
        return Verdict("tie", f"{_leaders(ranking)} kept working under the shift: {found}.")
    return Verdict("tie", f"No winner under the shift: {found}.")


def _win(ranking: list[Standing], view: DemoView) -> Verdict:
    best, second = ranking[:2]
    focus = next((s for s in ranking if s.name == view.focus), None)
    who = best.label if focus is None or focus is best else f"{best.label}, not {focus.label},"
    against = f"{score(best.ood_test)} on OOD test against {score(second.ood_test)} for {second.label}"
    if best.kept and second.kept:
        return Verdict(
            "kept", f"{_leaders(ranking)} kept working under the shift, {best.label} ahead: {against}.", best.name
        )
    if best.kept:
        return Verdict("kept", f"{who} kept working under the shift: {against}.", best.name)
    but = f"but lost {_points(best.lost)} from ID test"
    return Verdict("better", f"{who} held up better under the shift, {against}, {but}.", best.name)


def sample_size(view: DemoView) -> int | None:
    """The n of `tie_margin` for this view's metric and OOD test part."""
    part = view.data.part("ood_test")
    if part is None or not part.graphs:
        return None
    return part.graphs if view.metric == "accuracy" else min(part.per_class, default=part.graphs)


def _standings(view: DemoView, selection: str) -> list[Standing]:
    rows = [_standing(method, selection) for method in view.methods]
    return [row for row in rows if row is not None]


def _standing(method: MethodView, selection: str) -> Standing | None:
    scores = method.choices[selection].scores
    inside, outside = known(scores.get("id_test")), known(scores.get("ood_test"))
    return None if inside is None or outside is None else Standing(method.label, method.name, inside, outside)


def _list(ranking: list[Standing]) -> str:
    return listing([f"{s.label} {score(s.ood_test)}" for s in ranking])


def _points(difference: float) -> str:
    return f"{100 * difference:.1f} points"


def _leaders(ranking: list[Standing]) -> str:
    return "Both methods" if len(ranking) == 2 else listing([s.label for s in ranking[:2]])
