"""Trees on a benchmark: the baseline forest, and settings in, the result of a run out, without epochs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mphil.benchmarks.catalogue import Benchmark
from mphil.config import NamedArgs, RunConfig
from mphil.errors import DataError, UsageError
from mphil.files import cores, write_json
from mphil.graphs.split import TESTS, Part, Split
from mphil.model.committee.fitting import probabilities
from mphil.model.committee.trees import MoleculeFeatures, TreeKind, read_features
from mphil.model.committee.weights import as_logits
from mphil.model.product.members import BASELINE, Trained, train_trees
from mphil.nn.fast.library import path_taken
from mphil.task import Task
from mphil.training.distributed import launched
from mphil.training.metrics import score
from mphil.training.run import fingerprint, open_folder, origin
from mphil.training.settings import Wanted, resolve
from mphil.training.trainable import check_labels
from mphil.training.trainer import RULES

TREES = 200
TREES_IN_ALL = 4_000
LEAST_TREES = 25
"""With very many tasks each forest is smaller, down to this."""

MOST_ROWS = 50_000
"""Training rows; of more, so many are drawn: a forest wants all of them in memory, bit by bit."""

TESTED: tuple[Part, ...] = ("id_test", "ood_test")


def forest_scores(
    fingerprints: NDArray[np.uint8],
    y: Tensor,
    split: Split,
    task: Task,
    *,
    parts: Sequence[Part] = TESTED,
    seed: int = 0,
    advance: Callable[[int], object] = lambda done: None,
) -> dict[str, float | None]:
    """Train on the training part, rows without a label left out, and score other parts.

    Args:
        fingerprints: (n, bytes) packed bits of all molecules.
        y: (n, tasks) labels, NaN = missing.
        split: which molecule is in which part.
        task: what is asked.
        parts: the parts to score.
        seed: of the trees.
        advance: told of every task that is done.

    Returns:
        The task's metric of each part, None where it is not defined.
    """
    scored = {part: split[part] for part in parts}
    rows = torch.cat(list(scored.values()))
    logits = np.zeros((len(rows), task.n_outputs))
    for number in range(task.n_tasks):
        answers = _task_logits(fingerprints, y[:, number], split.train, rows, task, seed)
        logits[:, slice(None) if task.kind == "multiclass" else slice(number, number + 1)] = answers
        advance(1)
    plain = replace(task, means=(), scales=())  # trees answer in the unit of the labels
    pieces = np.split(logits, np.cumsum([len(graphs) for graphs in scored.values()])[:-1])
    return {
        part: score(torch.from_numpy(piece), y[graphs], plain) if len(graphs) else None
        for (part, graphs), piece in zip(scored.items(), pieces, strict=True)
    }


def n_trees(task: Task) -> int:
    """Trees of the forest of each task."""
    return max(LEAST_TREES, min(TREES, TREES_IN_ALL // task.n_tasks))


def _task_logits(
    fingerprints: NDArray[np.uint8], y: Tensor, train: Tensor, rows: Tensor, task: Task, seed: int
) -> NDArray[np.float64]:
    """(rows, classes) shares of one task, or (rows, 1) the positive share less one half or the predicted number."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    labelled = train[~y[train].isnan()]
    if len(labelled) > MOST_ROWS:
        order = torch.randperm(len(labelled), generator=torch.Generator().manual_seed(seed))
        labelled = labelled[order[:MOST_ROWS].sort().values]
    if task.kind == "regression":
        if not len(labelled) or not len(rows):
            return np.zeros((len(rows), 1))
        trees = RandomForestRegressor(n_trees(task), random_state=seed, n_jobs=cores())
        trees.fit(_bits(fingerprints, labelled), y[labelled].numpy())
        return np.asarray(trees.predict(_bits(fingerprints, rows)), np.float64)[:, None]
    shares = np.zeros((len(rows), task.n_classes))
    if len(labelled) and len(rows):
        forest = RandomForestClassifier(n_trees(task), random_state=seed, n_jobs=cores())
        forest.fit(_bits(fingerprints, labelled), y[labelled].numpy().astype(np.int64))
        shares[:, forest.classes_] = forest.predict_proba(_bits(fingerprints, rows))
    return shares if task.kind == "multiclass" else shares[:, 1:] - 0.5


def _bits(fingerprints: NDArray[np.uint8], rows: Tensor) -> NDArray[np.uint8]:
    return np.unpackbits(fingerprints[rows.numpy()], axis=1, bitorder="little")


SCORED = "scored"
"""The one setting of training that trees have."""


@dataclass(frozen=True, eq=False)
class TreeRun:
    """Trees grown on a benchmark: settings, result, the trees, and the folder if there is one."""

    config: RunConfig
    result: dict[str, Any]
    trained: Trained
    benchmark: Benchmark
    folder: Path | None = None

    @property
    def scores(self) -> dict[str, dict[str, float | None]]:
        """Score of each part under each selection rule, which all say the same."""
        return {rule: chosen["scores"] for rule, chosen in self.result["selections"].items()}


def check_tree_settings(wanted: Wanted) -> None:
    """Refuse settings that only networks have.

    Args:
        wanted: what a user set, as merged from all layers.

    Raises:
        UsageError: there is one.
    """
    kind = wanted["method"]["name"]
    _check_options(wanted)
    given = [f"encoder.{key}" for key in wanted.get("encoder", {})]
    given += [f"train.{key}" for key in wanted.get("train", {}) if key != SCORED]
    if given:
        raise UsageError(f"{given[0]} is a setting of networks, and method {kind} grows trees; leave it out")


def tree_refusal(kind: TreeKind, data: Benchmark) -> str | None:
    """Why trees cannot be grown on a benchmark; None when they can."""
    if data.store.smiles is not None:
        return None
    return f"method {kind} takes molecules, and the graphs of {data.name or 'the data'} are no molecules"


def tree_config(wanted: Wanted, data: Benchmark | None = None) -> tuple[RunConfig, Benchmark]:
    """As `resolve`, for trees: the settings of a network, of which only the seed and the scored parts matter.

    Raises:
        UsageError: the trees are given options.
        DataError: the graphs are no molecules.
    """
    kind = cast(TreeKind, wanted["method"]["name"])
    _check_options(wanted)
    config, data = resolve({**wanted, "method": {"name": BASELINE}}, data)
    if reason := tree_refusal(kind, data):
        raise DataError(f"{reason}; use one of `mphil methods` that takes them")
    return config.model_copy(update={"method": NamedArgs(name=kind)}), data


def execute_trees(config: RunConfig, data: Benchmark, folder: Path | None = None, *, resume: bool = False) -> TreeRun:
    """Grow trees and score them; there is no epoch to choose, so every selection rule reports the same scores.

    Args:
        config: from `tree_config`.
        data: molecules and their split.
        folder: for the settings and the result; None keeps nothing.
        resume: repeat the run of the folder, which holds no state in between.
    """
    if launched():
        raise UsageError(f"several processes can train a network; method {config.method.name} takes one process")
    check_labels(data.name or "the data", data.store.y, data.split.train, data.task)
    identity = fingerprint(config, data)
    with ExitStack() as stack:
        if folder is not None:
            stack.enter_context(open_folder(folder, config, identity, resume))
        began, cpu = time.monotonic(), _cpu_seconds()
        trained = train_trees(cast(TreeKind, config.method.name), config, data, _features(data), None)
        spent = {"seconds": time.monotonic() - began, "cpu_seconds": _cpu_seconds() - cpu}
        result = origin(config, data, identity) | _outcome(_scores(trained, data, config)) | spent
        result["versions"]["scikit-learn"] = version("scikit-learn")
        if folder is not None:
            write_json(folder / "result.json", result)
    return TreeRun(config, result, trained, data, folder)


def _features(data: Benchmark) -> MoleculeFeatures:
    """Of the molecules of all parts; those of no part are not read."""
    assert data.store.smiles is not None
    rows = torch.cat([graphs for _, graphs in data.split]).sort().values.tolist()
    return read_features([data.store.smiles[row] for row in rows]).placed(rows, len(data.store))


def _outcome(scores: dict[str, float | None]) -> dict[str, Any]:
    """What a result says of the model: epoch 0 everywhere."""
    chosen = {"epoch": 0, "scores": scores}
    return {
        "selections": {rule: chosen for rule in RULES if scores[rule] is not None},
        "last": chosen,
        "last5": scores,
        "earlier_stages": [],
        "notes": [],
        "parameters": None,
        "path": path_taken("cpu"),
    }


def _scores(trained: Trained, data: Benchmark, config: RunConfig) -> dict[str, float | None]:
    """Of every part; None where it has no label to score or is not to be scored."""
    (trees,), features, task = trained.trees.values(), trained.features, data.task
    assert features is not None
    found: dict[str, float | None] = {}
    for part, graphs in data.split:
        if not len(graphs) or (config.train.scored == "validation" and part in TESTS):
            found[part] = None
            continue
        said = as_logits(probabilities(trees, features.matrix(graphs.numpy()), task), task.kind)
        found[part] = score(torch.from_numpy(said), data.store.y[graphs], task)
    return found


def _check_options(wanted: Wanted) -> None:
    if given := sorted(wanted["method"].keys() - {"name"}):
        raise UsageError(f"method {wanted['method']['name']} has no options or presets; leave out method.{given[0]}")


def _cpu_seconds() -> float:
    """Of this process and of those that it has waited for, which read molecules."""
    return sum(os.times()[:4])
