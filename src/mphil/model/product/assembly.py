"""The parts of a bundle put together: chosen weights, what to trust, figures, card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mphil.benchmarks.catalogue import Benchmark
from mphil.benchmarks.own_data import OwnData
from mphil.chem.describe import FINGERPRINT
from mphil.chem.parse import PARENT
from mphil.chem.schema import SCHEMAS
from mphil.chem.substructures import Seen
from mphil.config import RunConfig, SelectionRule
from mphil.graphs.split import Part
from mphil.model.bundle import Bundle, BundleConfig, MoleculeReading, References, Trust
from mphil.model.bundle.contents import HeldOut, Score
from mphil.model.bundle.folder import trust_values, weights_digest
from mphil.model.committee.trees import MoleculeFeatures, read_features
from mphil.model.predictor.asking import Outputs, best_score, distance
from mphil.model.predictor.core import Predictor
from mphil.model.product.evaluation import fit_trust, measure, measured_worth
from mphil.model.product.joining import beside_baselines, join, with_members
from mphil.model.product.members import Trained, chosen_weights
from mphil.model.product.tree_runs import TESTED
from mphil.pages.card import card_page
from mphil.progress import row_bar
from mphil.provenance import NUMERICS, versions
from mphil.tables.from_smiles import with_descriptors
from mphil.tables.targets import Threshold
from mphil.task import Task
from mphil.training.plugged import model_plugins
from mphil.training.run import Run
from mphil.training.settings import Wanted
from mphil.trust.calibration import Calibration
from mphil.trust.neighbours import most_similar

FEATURES: Literal["good"] = "good"
"""The feature set that tables of molecules are read with."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A file that is read and split, and the settings it will be trained with.

    Attributes:
        own: what each row of the file is.
        data: the graphs and their split.
        config: the full settings of the run.
        rule: the part that will choose the epoch.
        wanted: what the user set, of which the settings are made.
        files: those that were read, each with its SHA-256.
    """

    own: OwnData
    data: Benchmark
    config: RunConfig
    rule: SelectionRule
    wanted: Wanted = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def fingerprints(self) -> NDArray[np.uint8] | None:
        """(n, bytes) of all molecules, as they were read with the file; None for graphs."""
        return self.own.survey.facts.get("fingerprint")

    @property
    def features(self) -> MoleculeFeatures | None:
        """What trees split on, read with the file if a committee was announced, and now if not; None for graphs."""
        facts, smiles = self.own.survey.facts, self.data.store.smiles
        if "counts" in facts:
            return MoleculeFeatures.of(facts)
        return None if smiles is None else read_features(smiles)

    @property
    def domains(self) -> int | None:
        """Different domains (scaffolds, sizes, values of a column) that the split goes by; None for other splits."""
        numbers = self.data.store.extras["domain_id"]
        return int(numbers.max()) + 1 if len(numbers) and numbers.max() >= 0 else None


def with_facts(data: Benchmark, own: OwnData) -> Benchmark:
    """The data with the descriptors of its molecules, if they were read with them."""
    facts = own.survey.facts
    return replace(data, store=with_descriptors(data.store, facts)) if "counts" in facts else data


def assemble(
    prepared: Prepared,
    run: Run | None,
    fingerprints: NDArray[np.uint8] | None,
    scores: Mapping[str, Mapping[str, float | None]],
    left_out: Mapping[str, str],
    trained: Trained | None = None,
) -> Bundle:
    """The bundle of a finished run: chosen weights, what to trust, figures, card.

    Args:
        prepared: the file and the settings.
        run: the finished run; without a folder, its method has the weights of the first rule that could choose. None
            when trees answer alone.
        fingerprints: (n, bytes) of all molecules of the data, or None for graphs.
        scores: method to the metric of the test parts.
        left_out: what could not be done, and why.
        trained: the members of a committee, which are then scored here; None when there is one model alone.
    """
    data, rule = prepared.data, prepared.rule
    score: Score = "tanimoto" if run is None else best_score(run.method, molecules=fingerprints is not None)
    draft = _untested(prepared, run, score)
    held: Part = "id_val" if len(data.split.id_val) else "ood_val"
    parts = {part: graphs for part, graphs in data.split if len(graphs)}
    labels = {part: data.store.y[graphs].double().numpy() for part, graphs in parts.items()}
    if trained is not None:
        draft = with_members(draft, trained)
    predictor = Predictor(draft)
    with row_bar("asking the model", sum(map(len, parts.values())), shown=True) as advance:
        outputs = {part: predictor.network(data.store.select(graphs), advance) for part, graphs in parts.items()}
    together: dict[str, Any] = {"standing": beside_baselines(scores, data.task)}
    if trained is not None:
        joined = join(predictor, data, outputs, labels, trained.features)
        draft = replace(draft, config=draft.config.model_copy(update={"committee": joined.committee}))
        outputs, scores, together = joined.outputs, joined.scores, joined.facts
    references = _references(prepared, outputs["train"].embedding, fingerprints)
    distances: dict[str, NDArray[np.float64]] = {
        part: distance(score, outputs[part], references, data.task, _similarity(fingerprints, graphs, data.split.train))
        for part, graphs in parts.items()
        if part in (held, *TESTED)
    }
    both = held == "id_val" and "ood_val" in parts
    shifted = ("ood_val", outputs["ood_val"], labels["ood_val"]) if both else None
    trust = fit_trust(held, outputs[held], labels[held], data.task, score, distances[held], shifted)
    tested = [part for part in TESTED if part in parts]
    metrics: dict[str, Any] = {
        "metric": data.task.metric,
        "selection": rule,
        "epoch": draft.config.epoch,
        "scores": {name: {part: found.get(part) for part in TESTED} for name, found in scores.items()},
        "left_out": {**left_out, **trust.left_out},
        "seconds": _seconds(run, trained),
        **together,
        "trust": measure(
            trust,
            {part: outputs[part] for part in tested},
            {part: labels[part] for part in tested},
            {part: distances[part] for part in tested},
            data.task,
        ),
    }
    kept = None
    if data.task.kind == "regression":
        said: dict[str, NDArray[np.float64]] = {part: outputs[part].logits for part in tested}
        measured: dict[str, NDArray[np.float64]] = {part: labels[part] for part in tested}
        metrics["trust"] |= measured_worth(trust, None, said, measured, distances, {}, data.task)
    else:
        bits = {part: fingerprints[parts[part].numpy()] for part in (held, *tested)} if fingerprints is not None else {}
        kept, worth = _worth(trust, held, tested, outputs, labels, distances, bits, data.task)
        metrics["trust"] |= worth
    bundle = replace(draft, trust=trust, references=references, metrics=metrics, held_out=kept)
    card = card_page(bundle.config.model_dump(mode="json"), metrics, trust_values(trust), weights_digest(bundle.state))
    return replace(bundle, card=card)


def _untested(prepared: Prepared, run: Run | None, score: Score) -> Bundle:
    """A bundle that can predict, and knows nothing yet of what its answers are worth."""
    task = prepared.data.task
    state = {} if run is None else chosen_weights(run, prepared.rule)
    nothing = Trust(score, "", Calibration("none", task.kind, task.n_outputs))
    empty = References(np.empty((0, 0), np.float32), np.empty((0, 0), np.float32), np.empty(0, np.int64))
    return Bundle(_bundle_config(prepared, run), state, nothing, empty, {})


def _references(
    prepared: Prepared, embeddings: NDArray[np.float32], fingerprints: NDArray[np.uint8] | None
) -> References:
    """What new molecules are compared with: the training part."""
    store, train = prepared.data.store, prepared.data.split.train
    facts = prepared.own.survey.facts
    return References(
        embeddings=embeddings,
        labels=store.y[train].numpy(),
        rows=store.index[train].numpy(),
        fingerprints=None if fingerprints is None else fingerprints[train.numpy()],
        smiles=None if store.smiles is None else [store.smiles[i] for i in train.tolist()],
        names=_names(prepared.own, store.index[train].tolist()) if fingerprints is not None else None,
        seen=Seen.told(facts["elements"][train], facts["rings"][train]) if "rings" in facts else None,
    )


def _worth(
    trust: Trust,
    held: Part,
    tested: Sequence[Part],
    outputs: Mapping[Part, Outputs],
    labels: Mapping[Part, NDArray[np.float64]],
    distances: Mapping[str, NDArray[np.float64]],
    fingerprints: Mapping[Part, NDArray[np.uint8]],
    task: Task,
) -> tuple[HeldOut, dict[str, Any]]:
    """The rows that `trust` was fitted on, and what the test parts say of verdicts and weighted sets."""
    probability = {part: trust.calibration.apply(outputs[part].logits) for part in (held, *tested)}
    none = np.empty((len(labels[held]), 0), np.uint8)
    bits = fingerprints.get(held, none)
    kept = HeldOut(probability[held], labels[held].astype(np.float32), distances[held], bits)
    worth = measured_worth(
        trust,
        kept,
        {part: probability[part] for part in tested},
        {part: labels[part] for part in tested},
        distances,
        {part: fingerprints[part] for part in tested if part in fingerprints},
        task,
    )
    return kept, worth


def _names(own: OwnData, rows: Sequence[int]) -> list[str] | None:
    """What the table calls its rows; None without such a column."""
    if own.survey.ids is None:
        return None
    called = dict(zip(own.survey.row.tolist(), own.survey.ids.values(), strict=True))
    return [called[row] for row in rows]


def _seconds(run: Run | None, trained: Trained | None) -> float:
    """Of training."""
    if trained is not None:
        return trained.seconds
    return 0.0 if run is None else float(run.result["seconds"])


def _similarity(fingerprints: NDArray[np.uint8] | None, graphs: Tensor, train: Tensor) -> NDArray[np.float64] | None:
    """Of each molecule to the nearest of the training part; None for graphs that are no molecules."""
    if fingerprints is None:
        return None
    return most_similar(fingerprints[graphs.numpy()], fingerprints[train.numpy()])[1]


def _told(arguments: Mapping[str, Any]) -> dict[str, str]:
    """What was said about a file and is needed to understand its labels."""
    told = {}
    if arguments.get("threshold") is not None:
        told["threshold"] = str(Threshold(arguments["threshold"], bool(arguments.get("active_below"))))
    if "duplicates" in arguments:
        told["duplicates"] = str(arguments["duplicates"])
    return told


def _bundle_config(prepared: Prepared, run: Run | None) -> BundleConfig:
    data, config, own, rule = prepared.data, prepared.config, prepared.own, prepared.rule
    split, parts = data.split, data.statistics()["parts"]
    facts = {
        "file": split.provenance["file"],
        "rows": own.survey.rows,
        "graphs": len(data.store),
        "set_aside": len(own.survey.bad),
        "split": split.provenance["split"],
        "parts": split.sizes,
        "labels": {part: counts.get("labels", []) for part, counts in parts.items()},
        "domains": prepared.domains,
        "assumed": list(own.survey.assumed),
        "data_digest": data.store.digest(),
        "split_digest": split.digest(),
        "settings": config.train.model_dump(mode="json"),
        **_told(data.args),
    }
    drugood = data.store.node_features.schema == SCHEMAS["drugood"].name
    features: Literal["good", "drugood"] = "drugood" if drugood else FEATURES
    standardised = bool(own.survey.reading.get("standardised"))
    reading = MoleculeReading(
        column=own.column,
        fragments="largest organic" if standardised else "kept",
        standardised=PARENT if standardised else "none",
        features=features,
        featuriser=SCHEMAS[features].name,
        fingerprint=FINGERPRINT,
    )
    return BundleConfig(
        task=data.task,
        method=config.method,
        encoder=config.encoder,
        targets=tuple(target.name for target in own.survey.targets),
        classes=data.classes or (() if data.task.kind == "regression" else ("0", "1")),
        molecules=reading if own.column else None,
        selection=rule,
        epoch=0 if run is None else run.result["selections"][rule]["epoch"],
        seed=config.seed,
        data=facts,
        versions=versions(),
        numerics=NUMERICS,
        plugins=tuple(model_plugins(config.method.name, config.encoder.kind)),
    )
