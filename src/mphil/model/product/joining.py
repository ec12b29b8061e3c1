"""A committee put together: weights from the validation parts, scores of all members on the test parts, who is best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mphil.benchmarks.catalogue import Benchmark
from mphil.graphs.split import Part
from mphil.model.bundle import Bundle, Committee
from mphil.model.committee.trees import MoleculeFeatures
from mphil.model.committee.weights import as_logits, first_weights, fit_weights
from mphil.model.predictor.asking import Outputs, combined
from mphil.model.predictor.core import Predictor
from mphil.model.product.members import Trained
from mphil.model.product.tree_runs import TESTED
from mphil.task import Task
from mphil.training.compare import paired_difference
from mphil.training.metrics import score

COMMITTEE = "committee"
"""What all members together are called in tables of scores."""

Floats = NDArray[np.float64]


def part_scores(logits: Mapping[str, Floats], y: Floats, task: Task) -> dict[str, float | None]:
    """The metric of every model on a part."""
    labels = torch.from_numpy(y)
    return {name: score(torch.from_numpy(said), labels, task) for name, said in logits.items()}


def beside_baselines(scores: Mapping[str, Mapping[str, float | None]], task: Task) -> dict[str, Any] | None:
    """The model of a bundle, the last of the scores, against the best of those that were trained to compare with.

    What the others say about each row is not kept, so whether the difference is chance is not told.

    Args:
        scores: name of every model to the metric of the test parts.
        task: what is asked, with its metric.

    Returns:
        Plain values with a `sentence` for people; None without another model, or where the metric is not defined.
    """
    part = "ood_test"
    known = {name: value for name, found in scores.items() if (value := found.get(part)) is not None}
    own, sign = list(scores)[-1] if scores else "", -1.0 if task.lower_is_better else 1.0
    others = sorted((name for name in known if name != own), key=lambda name: -sign * known[name])
    if own not in known or not others:
        return None
    ahead = sign * known[own] >= sign * known[others[0]]
    best, second = (own, others[0]) if ahead else (others[0], own)
    side, gap = "below" if task.lower_is_better else "above", abs(known[best] - known[second])
    told = f"best on ood-test: {best} ({known[best]:.3f}), {gap:.3f} {side} {second} ({known[second]:.3f})"
    if not ahead:
        told += f"; the bundle holds {own}, and without --fast several models answer together"
    return {"part": part, "best": best, "second": second, "difference": gap, "sentence": told}


def standing(part: str, logits: Mapping[str, Floats], y: Floats, task: Task) -> dict[str, Any] | None:
    """The best model of a part against the committee, or the committee against the best of its members.

    Args:
        part: its name.
        logits: name of every model, and `COMMITTEE`, to (n, outputs).
        y: (n, tasks) labels, NaN = missing.
        task: what is asked, with its metric.

    Returns:
        Plain values with a `sentence` for people; None where the metric is not defined.
    """
    scores = {name: value for name, value in part_scores(logits, y, task).items() if value is not None}
    sign = -1.0 if task.lower_is_better else 1.0
    others = sorted((name for name in scores if name != COMMITTEE), key=lambda name: -sign * scores[name])
    if COMMITTEE not in scores or not others:
        return None
    ahead = sign * scores[COMMITTEE] >= sign * scores[others[0]]
    best, second = (COMMITTEE, others[0]) if ahead else (others[0], COMMITTEE)
    gap = paired_difference(logits[best], logits[second], y, task)
    if gap is None:
        return None
    shown, side = part.replace("_", "-"), "below" if task.lower_is_better else "above"
    meaning = "more than chance" if gap.is_clear else "may be chance"
    return {
        "part": part,
        "best": best,
        "second": second,
        "difference": gap.value,
        "low": gap.low,
        "high": gap.high,
        "clear": gap.is_clear,
        "sentence": f"best on {shown}: {best} ({scores[best]:.3f}), {abs(gap.value):.3f} {side} {second} "
        f"({scores[second]:.3f}); 95 % interval of the difference {gap.low:.3f} to {gap.high:.3f}: {meaning}",
    }


WEIGHED_ON: tuple[Part, ...] = ("id_val", "ood_val")
"""The parts that weights are fitted on: the first tells who is right about molecules like those of training, the second
who is right about others, and a bundle is asked about both."""


@dataclass(frozen=True, eq=False)
class Joined:
    """A committee with its weights, and what it says.

    Attributes:
        committee: the members.
        outputs: part to what they say together; the training part has the outputs of the first network.
        scores: name of every member, and of all together, to the metric of the test parts.
        facts: plain values for `metrics.json`.
    """

    committee: Committee
    outputs: dict[Part, Outputs]
    scores: dict[str, dict[str, float | None]]
    facts: dict[str, Any]


def with_members(bundle: Bundle, trained: Trained) -> Bundle:
    """The bundle of a network as that of a committee."""
    config = bundle.config.model_copy(update={"committee": trained.committee})
    return replace(bundle, config=config, networks=trained.networks, trees=trained.trees)


def join(
    predictor: Predictor,
    data: Benchmark,
    first: Mapping[Part, Outputs],
    labels: Mapping[Part, Floats],
    features: MoleculeFeatures | None,
) -> Joined:
    """Fit the weights, and let all members answer together.

    Args:
        predictor: of a committee with any weights.
        data: the graphs and their split.
        first: part to what the first network says about it.
        labels: part to its (n, tasks) labels.
        features: of all molecules, when there are trees.
    """
    before, task = predictor.bundle.config.committee, data.task
    assert before is not None
    said: dict[Part, Floats] = {}
    for part, outputs in first.items():
        if part != "train":
            graphs = data.split[part]
            own = None if features is None else features.take(graphs.numpy())
            said[part] = predictor.said(outputs, data.store.select(graphs), own)
    fitted_on = tuple(part for part in WEIGHED_ON if part in said)
    start = first_weights([member.kind == "network" for member in before.members])
    weights = fit_weights([(said[part], labels[part]) for part in fitted_on], task, start)
    members = tuple(
        member.model_copy(update={"weight": weight})
        for member, weight in zip(before.members, weights.tolist(), strict=True)
    )
    committee = before.model_copy(update={"members": members, "fitted_on": fitted_on})
    together = {part: combined(first[part], said[part], weights, task) for part in said}
    names = [member.name for member in members]
    alone = len(names) == 1
    scores: dict[str, dict[str, float | None]] = {name: {} for name in (*names, *([] if alone else [COMMITTEE]))}
    judged = None
    for part in TESTED:
        if part in said:
            logits = {name: as_logits(one, task.kind) for name, one in zip(names, said[part], strict=True)}
            if not alone:
                logits[COMMITTEE] = together[part].logits
            for name, value in part_scores(logits, labels[part], task).items():
                scores[name][part] = value
            judged = standing(part, logits, labels[part], task) or judged
    facts = {"committee": committee.model_dump(mode="json"), "standing": judged}
    return Joined(committee, {**first, **together}, scores, facts)
