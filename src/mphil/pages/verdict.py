"""The headline: who kept working under the shift, said by the numbers and not by hope."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from mphil.pages.text import MISSING, known, listing
from mphil.pages.view import DemoView, MethodView
from mphil.task import Metric

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
