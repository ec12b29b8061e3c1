"""A committee put together: weights from the validation parts, scores of all members on the test parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mphil.benchmarks.base import Benchmark
from mphil.graphs.split import Part
from mphil.model.bundle import Bundle, Committee
from mphil.model.committee.features import MoleculeFeatures
from mphil.model.committee.weights import as_logits, first_weights, fit_weights
from mphil.model.predictor.asking import Outputs, combined
from mphil.model.predictor.core import Predictor
from mphil.model.product.forest import TESTED
from mphil.model.product.members import Trained
from mphil.model.product.standing import COMMITTEE, part_scores, standing

WEIGHED_ON: tuple[Part, ...] = ("id_val", "ood_val")
"""The parts that weights are fitted on: the first tells who is right about molecules like those of training, the second
who is right about others, and a bundle is asked about both."""

Floats = NDArray[np.float64]


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
