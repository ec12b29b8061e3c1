"""What can be done with the folder of a run: go on, score, predict."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from mphil.benchmarks.base import Benchmark, benchmark
from mphil.config import RunConfig
from mphil.errors import IntegrityError, UnknownName, UsageError
from mphil.files import write_text
from mphil.graphs.loader import Loader
from mphil.graphs.split import PARTS
from mphil.methods.base import Method, build_method
from mphil.tables.spreadsheet import csv_text
from mphil.training.checkpoint import Checkpoints
from mphil.training.plugged import check_plugins
from mphil.training.prediction import predict_logits, probabilities, score_parts
from mphil.training.run import fingerprint, read_run_config, read_run_plugins
from mphil.training.trainer import RULES


def stored_run(folder: Path) -> tuple[RunConfig, Benchmark]:
    """Settings and data of the run in a folder, the data built anew and checked to be the same."""
    check_plugins(str(folder), read_run_plugins(folder))
    config, identity = read_run_config(folder)
    try:
        data = benchmark(config.benchmark.name, **config.benchmark.args)
    except UsageError as error:
        raise IntegrityError(f"{folder}: the data of the run cannot be built again ({error})") from None
    if fingerprint(config, data) != identity:
        raise IntegrityError(f"{folder}: the data or the numerics of mphil are not those of the run; train it anew")
    return config, data


def load_run(folder: Path, rule: str = "ood_val") -> tuple[RunConfig, Benchmark, Method]:
    """Settings, data and trained method of a run, with the weights that the selection rule chose."""
    if rule not in RULES:
        raise UnknownName("selection rule", rule, RULES)
    config, data = stored_run(folder)
    if not len(data.split[rule]):
        raise UsageError(f"{folder}: {data.name} has no {rule} part to choose an epoch on; use another --selection")
    checkpoints = Checkpoints(folder / "checkpoint")
    if not checkpoints.exists() or f"best-{rule}" not in checkpoints.groups():
        raise UsageError(f"{folder}: no epoch was chosen on {rule} yet; go on with `mphil resume {folder}`")
    method = build_method(config.method.name, data.task, config.encoder, config.method.args)
    method.load_state_dict(checkpoints.load(f"best-{rule}"))
    return config, data, method.eval()


def evaluate_run(folder: Path, rule: str = "ood_val") -> tuple[dict[str, float | None], str]:
    """Score of the saved model on every part, and the name of the metric."""
    config, data, method = load_run(folder, rule)
    return score_parts(method, data, config.train.eval_batch_size), data.task.metric


def predict_run(folder: Path, part: str, rule: str, out: Path) -> int:
    """Write the predictions of a part as CSV (see `prediction_table`); returns the number of rows."""
    if part not in PARTS:
        raise UnknownName("part", part, PARTS)
    config, data, method = load_run(folder, rule)
    graphs = data.split[part]
    if not len(graphs):
        raise UsageError(f"{config.benchmark.name} has no {part} part")
    logits = predict_logits(method, Loader(data.store, graphs, config.train.eval_batch_size))
    write_text(out, prediction_table(data, graphs, logits))
    return len(graphs)


def prediction_table(data: Benchmark, graphs: Tensor, logits: Tensor) -> str:
    """Predictions as CSV, a row per graph.

    Columns: number of the graph, its SMILES if it is a molecule, then for each task its label (empty when missing), the
    predicted class, and the probability of the positive class, or of every class if there are several. A regression has
    the predicted number instead, in the unit of the labels.

    Args:
        data: where the graphs are.
        graphs: (n,) positions in the store.
        logits: (n, n_outputs) predictions for them.
    """
    task, smiles = data.task, data.store.smiles
    header = ["graph"] if smiles is None else ["graph", "smiles"]
    if task.kind == "regression":
        return _measured_table(data, graphs, logits, header)
    chances = probabilities(logits.double(), task.kind)
    classes = chances.argmax(1, keepdim=True) if task.kind == "multiclass" else (logits > 0).long()
    if task.kind == "multiclass":
        header += ["label", "prediction", *(f"probability_{c}" for c in range(task.n_classes))]
    else:
        suffixes = [f"_{number}" for number in range(task.n_tasks)] if task.n_tasks > 1 else [""]
        header += [f"{column}{suffix}" for suffix in suffixes for column in ("label", "prediction", "probability")]
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(header)
    rows = zip(graphs.tolist(), data.store.y[graphs].tolist(), classes.tolist(), chances.tolist(), strict=True)
    for graph, labels, predicted, chance in rows:
        cells: list[object] = [graph] if smiles is None else [graph, smiles[graph]]
        per_task = [chance] if task.kind == "multiclass" else [[value] for value in chance]
        for label, prediction, values in zip(labels, predicted, per_task, strict=True):
            cells += ["" if math.isnan(label) else int(label), prediction, *values]
        writer.writerow(cells)
    return table.getvalue()


def _measured_table(data: Benchmark, graphs: Tensor, outputs: Tensor, header: Sequence[str]) -> str:
    """The table of a regression: label and predicted number of each task."""
    task, smiles = data.task, data.store.smiles
    suffixes = [f"_{number}" for number in range(task.n_tasks)] if task.n_tasks > 1 else [""]
    lines: list[list[object]] = [[*header, *(f"{name}{end}" for end in suffixes for name in ("label", "predicted"))]]
    predicted = task.to_units(outputs.double().numpy()).tolist()
    for graph, labels, values in zip(graphs.tolist(), data.store.y[graphs].tolist(), predicted, strict=True):
        cells: list[object] = [graph] if smiles is None else [graph, smiles[graph]]
        for label, value in zip(labels, values, strict=True):
            cells += ["" if math.isnan(label) else label, value]
        lines.append(cells)
    return csv_text(lines)
