"""From a run on a benchmark to a bundle, from the bundle back to the benchmark, and to the report for regulators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, ParamSpec, cast

import numpy as np
import torch
from numpy.typing import NDArray

from mphil.benchmarks.catalogue import Benchmark, benchmark
from mphil.benchmarks.own_data import OwnData
from mphil.chem.schema import SCHEMAS
from mphil.config import SelectionRule
from mphil.errors import IntegrityError, MphilError, UnknownName, UsageError
from mphil.graphs.split import PARTS
from mphil.model.bundle import Bundle, write_bundle
from mphil.model.bundle.folder import trust_values, weights_digest
from mphil.model.committee.trees import is_tree_kind
from mphil.model.predictor import Predictor, load
from mphil.model.predictor.predictions import is_number
from mphil.model.product.assembly import Prepared, assemble
from mphil.model.product.tree_runs import TreeRun
from mphil.pages.regulatory import chapters
from mphil.pages.template import Section
from mphil.tables.graph_folders import survey_graphs
from mphil.tables.pool import run as read_molecules
from mphil.tables.write import open_writer
from mphil.training.distributed import is_first
from mphil.training.metrics import score
from mphil.training.run import Run
from mphil.training.run import train as train_run


def bundle_chapters(folder: Path) -> list[Section]:
    """Everything that a bundle says about itself; its fit to the training molecules is computed.

    Args:
        folder: of the bundle, or the one that it is in.

    Raises:
        UsageError: there is no bundle in it, or one that was not made by `mphil train FILE`.
    """
    predictor = load(folder)
    bundle = predictor.bundle
    if not {"metric", "scores", "left_out", "trust"} <= bundle.metrics.keys():
        raise UsageError(f"{folder}: the bundle has no scores to report; make one with `mphil train FILE`")
    return chapters(
        bundle.config.model_dump(mode="json"),
        bundle.metrics,
        trust_values(bundle.trust),
        weights=weights_digest(bundle.state),
        digest=bundle.digest,
        fit=training_fit(predictor),
    )


def training_fit(predictor: Predictor) -> float | None:
    """The task's metric on the training molecules; None for graphs, which a bundle does not keep."""
    references = predictor.bundle.references
    if references.smiles is None:
        return None
    said = predictor.predict(list(references.smiles))
    rows = np.flatnonzero(said.answered)
    labels = torch.from_numpy(references.labels[rows]).double()
    task = predictor.bundle.config.task
    outputs = said.probability if said.predicted is None else task.from_units(said.predicted)
    return score(torch.from_numpy(outputs[rows]), labels, task)


BUNDLE = "bundle"
COLUMN = "smiles"
FILE = "own-data"
P = ParamSpec("P")


def _bundled(function: Callable[P, Run]) -> Callable[P, Run]:
    """A function that trains a network, and writes a bundle if the run has a folder."""
    known = signature(function)

    @wraps(function)
    def train_and_bundle(*args: P.args, **kwargs: P.kwargs) -> Run:
        method = known.bind_partial(*args, **kwargs).arguments.get("method")
        name = method.get("name") if isinstance(method, Mapping) else method
        if is_tree_kind(name):
            raise UsageError(
                f"mphil.train trains networks, and method {name} grows trees; use mphil.study, an estimator, or "
                f"`mphil train --method {name}`"
            )
        run = function(*args, **kwargs)
        if run.folder is not None and is_first():
            write_run_bundle(run)
        return run

    return train_and_bundle


train = _bundled(train_run)
"""Train a method on a benchmark; with `out`, the run and its bundle are written there."""


def write_run_bundle(run: Run | TreeRun) -> Path | None:
    """Write the bundle of a finished run into its folder.

    Args:
        run: a run on a benchmark, with a folder.

    Returns:
        The folder of the bundle; None if no epoch could be chosen, if trees are of molecules that are not read as those
        of a table are, or if the data are a file: how its rows were read is known to `train_product` alone.
    """
    if run.folder is None:
        raise UsageError("the run has no folder; train with `out`")
    if not run.result["selections"] or run.config.benchmark.name == FILE:
        return None
    fingerprints = fingerprints_of(run.benchmark)
    if fingerprints is None and isinstance(run, TreeRun):
        return None
    path = run.folder / BUNDLE
    write_bundle(path, _bundle_run(run, fingerprints))
    return path


def _bundle_run(run: Run | TreeRun, fingerprints: NDArray[np.uint8] | None) -> Bundle:
    """The bundle of a finished run on a benchmark: the weights of the first rule that could choose, and what to trust.

    A benchmark of molecules that are read as those of a table gives a bundle that takes molecules, others graphs.
    """
    rule = cast(SelectionRule, next(iter(run.result["selections"])))
    data = _as_file(run, molecules=fingerprints is not None)
    own = OwnData(data, survey_graphs(data.store), COLUMN if fingerprints is not None else "")
    scores = {run.config.method.name: run.scores[rule]}
    network, trees = (None, run.trained) if isinstance(run, TreeRun) else (run, None)
    bundle = assemble(Prepared(own, data, run.config, rule), network, fingerprints, scores, {}, trees)
    facts = {
        **bundle.config.data,
        "benchmark": run.config.benchmark.model_dump(mode="json"),
        "data_digest": run.benchmark.store.digest(),
        "split_digest": run.benchmark.split.digest(),
    }
    return replace(bundle, config=bundle.config.model_copy(update={"data": facts}))


def evaluate_bundle(path: Path) -> tuple[dict[str, float | None], str, str]:
    """Score of a bundle on every part of its benchmark, the name of the metric, and the rule that chose its epoch.

    Raises:
        UsageError: it was trained on a file, or its benchmark is not known here.
        IntegrityError: the data are not those of the training.
    """
    predictor = load(path)
    data = _data_of(predictor.bundle, path)
    scores: dict[str, float | None] = {}
    for part, graphs in data.split:
        logits = torch.from_numpy(predictor.outputs(data.store.select(graphs)).logits) if len(graphs) else None
        scores[part] = None if logits is None else score(logits, data.store.y[graphs], data.task)
    return scores, data.task.metric, predictor.bundle.config.selection


def predict_part(path: Path, part: str, out: Path) -> int:
    """Write what a bundle says about a part of its benchmark; returns the number of rows.

    Columns: number of the graph, its SMILES if it is a molecule, its label for each task (empty when missing), and
    those of `Predictions.columns`.

    Args:
        path: the bundle.
        part: of the benchmark.
        out: CSV, TSV, XLSX or parquet, by its name.

    Raises:
        UsageError: as for `evaluate_bundle`, or there is no such part.
        IntegrityError: as for `evaluate_bundle`.
    """
    if part not in PARTS:
        raise UnknownName("part", part, PARTS)
    predictor = load(path)
    data = _data_of(predictor.bundle, path)
    graphs = data.split[part]
    if not len(graphs):
        raise UsageError(f"{data.name} has no {part} part")
    store = data.store.select(graphs)
    answers = predictor.predict(store)
    given = {"graph": [str(graph) for graph in graphs.tolist()]}
    given |= {} if store.smiles is None else {COLUMN: list(store.smiles)}
    for number, target in enumerate(answers.targets):
        name = f"label_{target}" if len(answers.targets) > 1 else "label"
        given[name] = [_label(value, answers.classes) for value in store.y[:, number].tolist()]
    columns = answers.columns()
    with open_writer(out, list(given), None, list(columns), [is_number(name) for name in columns]) as writer:
        writer.write(list(given.values()), list(columns.values()))
    return len(answers)


def _label(value: float, classes: Sequence[str]) -> str:
    """A label as it is written in a table: a class by its name, a number as it is, nothing when it is missing."""
    if value != value:
        return ""
    return classes[int(value)] if classes else repr(value)


def _data_of(bundle: Bundle, path: Path) -> Benchmark:
    """The benchmark that a bundle was trained on, built anew and checked to be the same."""
    config = bundle.config
    wanted = config.data.get("benchmark")
    if not isinstance(wanted, Mapping) or not isinstance(wanted.get("args"), Mapping):
        raise UsageError(
            f"{path} was trained on a file, not on a benchmark: say what to predict (mphil predict {path} TABLE), or "
            f"what to score (mphil evaluate {path} TABLE, with labels, or the folder that the training wrote)"
        )
    try:
        data = benchmark(str(wanted.get("name")), **wanted["args"])
    except MphilError as error:
        raise UsageError(f"{path}: its benchmark cannot be built here ({error})") from None
    if (data.store.digest(), data.split.digest()) != (config.data["data_digest"], config.data["split_digest"]):
        raise IntegrityError(f"{path}: the data of {data.name} are not those of the training; train it anew")
    return data


def _as_file(run: Run | TreeRun, *, molecules: bool) -> Benchmark:
    """The data of a run with what a bundle says about a file; test parts that must not be scored are empty."""
    data = run.benchmark
    origin = data.split.provenance
    words = {"file": f"the benchmark {data.name}", "split": str(origin.get("split", origin.get("rule", data.name)))}
    split = replace(data.split, provenance={**origin, **words})
    if run.config.train.scored == "validation":
        none = torch.empty(0, dtype=torch.long)
        split = replace(split, id_test=none, ood_test=none)
    extras = {"domain_id": torch.full((len(data.store),), -1), **data.store.extras}
    store = replace(data.store, extras=extras, smiles=data.store.smiles if molecules else None)
    numbers = tuple(map(str, range(data.task.n_classes)))
    return replace(data, store=store, split=split, classes=data.classes or numbers)


def fingerprints_of(data: Benchmark) -> NDArray[np.uint8] | None:
    """(n, bytes) of all molecules; None for graphs, and for molecules that are not read as those of a table are."""
    store = data.store
    if store.smiles is None or store.node_features.schema not in {schema.name for schema in SCHEMAS.values()}:
        return None
    smiles = list(store.smiles)
    batch = read_molecules(smiles, {"wanted": ["fingerprint"]})
    found: Any = batch.arrays["fingerprint"]
    return None if batch.issues else cast("NDArray[np.uint8]", found)
