"""What a bundle is worth on labelled rows: those of a table or a folder, or of its own held-out parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mphil.chem.row_issue import OK
from mphil.errors import DataError, UnknownName, UsageError
from mphil.files import cores
from mphil.model.bundle import Trust
from mphil.model.predictor import Predictor, load
from mphil.model.predictor.core import NOT_FINITE
from mphil.model.predictor.predictions import Floats, Numbers
from mphil.model.predictor.reading import as_molecules
from mphil.model.screening import read_ahead
from mphil.progress import screening_bar
from mphil.tables.binary_files import column_texts
from mphil.tables.cell_values import Coded
from mphil.tables.graph_folders import open_graphs
from mphil.tables.pass_through import TableSource, open_source
from mphil.tables.pool import WorkerPool
from mphil.tables.targets import Threshold, read_known
from mphil.task import Task
from mphil.training.metrics import REGRESSION_METRICS, score
from mphil.trust.neighbours import most_similar
from mphil.trust.ood import VERDICTS
from mphil.trust.reliability import expected_calibration_error

ALL = "all"
LEAST = 20
"""Labels below which a verdict gets no figures of its own."""

Figures = dict[str, float | None]


@dataclass(frozen=True)
class Evaluation:
    """How right a model is about rows whose labels are known.

    Attributes:
        source: the table, the folder or the part.
        metric: of the task.
        score: its value over all scored rows; None where it is not defined.
        rows: how many there are.
        scored: rows with an answer and a label.
        unlabelled: rows with an answer and no label.
        unanswered: rows without an answer.
        statuses: why these have none.
        groups: `all`, then each verdict of the domain, to its rows and labels, and to the metric and the calibration
            error, or to the errors of a regression: means over the targets, None with fewer than 20 labels. Errors in
            the units of several targets have no mean.
        targets: where there are several, the same of each, over all rows.
        notes: what the owner of the rows may want to know.
    """

    source: str
    metric: str
    score: float | None
    rows: int
    scored: int
    unlabelled: int
    unanswered: int
    statuses: Mapping[str, int]
    groups: Mapping[str, Mapping[str, float | None]]
    targets: Mapping[str, Mapping[str, float | None]]
    notes: Sequence[str] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Examined:
    """What a model says about rows, before any calibration.

    Attributes:
        status: (n,) of all rows, `ok` for those with an answer.
        logits: (k, outputs) of those with an answer, in order.
        distance: (k,) how far from training they are.
        trained: how many hold a molecule of the training part.
    """

    status: Sequence[str]
    logits: Floats
    distance: Floats
    trained: int = 0

    @property
    def kept(self) -> Numbers:
        """(k,) the rows with an answer."""
        return np.flatnonzero(np.array(self.status) == OK)


def evaluate(
    bundle: Path | str,
    table: Path | str,
    *,
    targets: Sequence[str] = (),
    smiles: str | None = None,
    sheet: str = "",
    workers: int | None = None,
) -> Evaluation:
    """Score a bundle on the labelled rows of a table, which is read as in training, or on a folder of graphs.

    Args:
        bundle: its folder, or the one that it is in.
        table: CSV, TSV, XLSX, parquet, SDF or .smi, also gzip; for a bundle that takes graphs, a folder of them.
        targets: columns of the labels, those of training when empty; of several targets, some may be missing.
        smiles: column of the molecules; that of training, or found, when absent.
        sheet: of a workbook; the first that has molecules when empty.
        workers: processes that read molecules; None chooses by the number of rows and cores.

    Raises:
        UsageError: a file or column that does not exist.
        DataError: the table cannot be read, or no label is one that the model knows.

    Example:
        >>> import mphil
        >>> mphil.evaluate("runs/first/bundle", "new.csv").score  # doctest: +SKIP
        0.8125
    """
    predictor, path = load(bundle), Path(table)
    if not predictor.takes_molecules:
        return _evaluate_graphs(predictor, path)
    reading = predictor.bundle.config.molecules
    assert reading is not None
    source = open_source(path, column=smiles, usual=reading.column, sheet=sheet)
    columns, absent = _label_columns(predictor, source, targets)
    examined, labels = _examine_table(predictor, source, columns, workers)
    y, notes = _known_labels(predictor, columns, labels, str(path))
    if examined.trained:
        notes.append(f"{examined.trained:,} rows hold molecules that the model was trained on, and flatter it")
    return judged(predictor, str(path), examined, y, [*predictor.notes, *source.notes, *absent, *notes])


def _evaluate_graphs(predictor: Predictor, folder: Path) -> Evaluation:
    if not folder.is_dir():
        raise UsageError(f"this bundle takes graphs; give a folder of graphs, not {folder}")
    store, names = open_graphs(folder), predictor.bundle.config.targets
    if store.y.shape[1] != len(names):
        raise UsageError(f"{folder}: {store.y.shape[1]} labels a graph, and the model has {len(names)} targets")
    predictor.check_graphs(store)
    labels = {name: Coded() for name in names}
    for name, column in zip(names, store.y.T.tolist(), strict=True):
        labels[name].extend("" if value != value else repr(value) for value in column)
    with screening_bar(lambda: len(store), shown=True) as advance:
        kept, outputs, distance = predictor.examine(store, advance)
    status = np.full(len(store), NOT_FINITE[0], object)
    status[kept] = OK
    y, notes = _known_labels(predictor, dict(zip(names, names, strict=True)), labels, str(folder))
    return judged(predictor, str(folder), Examined(status.tolist(), outputs.logits, distance), y, notes)


def _label_columns(
    predictor: Predictor, source: TableSource, given: Sequence[str]
) -> tuple[dict[str, str], Sequence[str]]:
    """Target of the model to the column of the table with its labels, and a note on targets that have none."""
    names, have = predictor.bundle.config.targets, source.table.columns
    file = source.table.path.name
    for column in given:
        if column not in have:
            raise UnknownName(f"column of {file}", column, have)
        if column == source.column:
            raise UsageError(f"column {column!r} holds the molecules; name the column of labels with --target")
    if given and len(given) != len(names) and not set(given) <= set(names):
        raise UsageError(
            f"the model has the targets {', '.join(names)}: give a column for each, in this order, or some of these"
        )
    found = dict(zip(names, given, strict=True)) if len(given) == len(names) else {one: one for one in given}
    found = found or {name: name for name in names if name in have}
    if not found:
        raise UnknownName(f"column of {file} (name the labels with --target):", names[0], have)
    absent = [name for name in names if name not in found]
    return found, [f"no labels of {', '.join(absent)}" for _ in absent[:1]]


def _examine_table(
    predictor: Predictor, source: TableSource, columns: Mapping[str, str], workers: int | None
) -> tuple[Examined, dict[str, Coded]]:
    """All rows of a table, piece by piece: what the model says, and the cells of its targets."""
    places = {name: source.table.columns.index(column) for name, column in columns.items()}
    labels = {name: Coded() for name in columns}
    status: list[str] = []
    logits = [np.empty((0, predictor.bundle.config.task.n_outputs))]
    distances = [np.empty(0)]
    references, trained = predictor.bundle.references, 0
    assert references.fingerprints is not None
    known = set(references.smiles or ())
    if workers is None:
        workers = cores() if next(_later(source), None) else 0
    with screening_bar(source.count, True) as advance, WorkerPool(workers) as pool:
        for piece, work in read_ahead(predictor, pool, source.pieces()):
            molecules = as_molecules(work.finish(), len(piece), predictor.reading["schema"])
            alike = most_similar(molecules.fingerprints, references.fingerprints)[1]
            kept, outputs, distance = predictor.examine(molecules.store, similarity=alike, features=molecules.features)
            now = np.full(len(piece), NOT_FINITE[0], object)
            now[molecules.kept[kept]] = OK
            for issue in molecules.issues:
                now[issue.row] = issue.status
            for row, issue in piece.issues.items():
                now[row] = issue.status
            status += now.tolist()
            trained += sum(smiles in known for smiles in molecules.store.smiles or ())
            logits.append(outputs.logits)
            distances.append(distance)
            for name, place in places.items():
                cells = piece.columns[place]
                texts = column_texts(cells) if source.fields is not None else cells
                labels[name].extend(text.strip() for text in texts)
            advance(len(piece))
    return Examined(status, np.concatenate(logits), np.concatenate(distances), trained), labels


def _later(source: TableSource) -> Iterator[object]:
    """The pieces after the first: processes that read take a second to begin."""
    pieces = source.pieces()
    next(pieces, None)
    return pieces


def _known_labels(
    predictor: Predictor, columns: Mapping[str, str], cells: Mapping[str, Coded], source: str
) -> tuple[Floats, list[str]]:
    """(n, tasks) labels as the model was taught them, NaN = missing, and notes on cells that are none."""
    config = predictor.bundle.config
    told = config.data.get("threshold")
    threshold = None if told is None else Threshold.parse(told)
    read = {name: read_known(columns[name], cells[name], config.classes, threshold) for name in columns}
    rows = len(next(iter(read.values())).y)
    y = np.full((rows, len(config.targets)), np.nan)
    notes = []
    for name, target in read.items():
        y[:, config.targets.index(name)] = target.y
        if target.strange:
            first, known = cells[name].values()[target.strange[0]][:40], ", ".join(config.classes) or "numbers"
            count = f"{len(target.strange):,} cell{'s' if len(target.strange) != 1 else ''}"
            notes.append(f"column {target.name!r}: the model knows {known}, and not {count} such as {first!r}")
    if np.isnan(y).all():
        why = notes[0] if notes else f"column {next(iter(read.values())).name!r} has no label at all"
        raise DataError(f"{source}: {why}; name the column of labels with --target")
    return y, notes


def judged(predictor: Predictor, source: str, examined: Examined, y: Floats, notes: Sequence[str] = ()) -> Evaluation:
    """What a model said beside the labels.

    Args:
        predictor: the model.
        source: what the rows are called.
        examined: what it said of n rows.
        y: (n, tasks) their labels, NaN = missing.
        notes: to pass on.
    """
    config, trust = predictor.bundle.config, predictor.bundle.trust
    task, labels = config.task, y[examined.kept]
    labelled = ~np.isnan(labels).all(1)
    groups = {ALL: labelled}
    if trust.bands is not None:
        verdicts = trust.bands.verdict(examined.distance)
        groups |= {verdict: labelled & (verdicts == verdict) for verdict in VERDICTS}
    shown = _shown(examined.logits, trust, task)
    found: dict[str, Mapping[str, float | None]] = {}
    for name, chosen in groups.items():
        figures = _figures(examined.logits[chosen], shown[chosen], labels[chosen], task)
        count = int((~np.isnan(labels[chosen])).sum())
        enough = name == ALL or count >= LEAST
        found[name] = {
            "rows": int(chosen.sum()),
            "labels": count,
            **(figures if enough else dict.fromkeys(figures)),
        }
    one = Task("regression" if task.kind == "regression" else "binary", 1, task.metric)
    targets: dict[str, Mapping[str, float | None]] = {}
    for number, name in enumerate(config.targets if task.n_tasks > 1 else ()):
        of = [number]
        figures = _figures(examined.logits[:, of], shown[:, of], labels[:, of], one)
        targets[name] = {"labels": int((~np.isnan(labels[:, number])).sum()), **figures}
    whole = score(torch.from_numpy(examined.logits), torch.from_numpy(labels), task)
    refused = Counter(status for status in examined.status if status != OK)
    rows, answered, scored = len(examined.status), len(labels), int(labelled.sum())
    counts = (rows, scored, answered - scored, rows - answered, dict(refused.most_common()))
    return Evaluation(source, task.metric, whole, *counts, found, targets, list(notes))


def _shown(logits: Floats, trust: Trust, task: Task) -> Floats:
    """Calibrated probabilities, or the numbers of a regression in the unit of each task."""
    return task.to_units(logits) if task.kind == "regression" else trust.calibration.apply(logits)


def _figures(logits: Floats, shown: Floats, y: NDArray[np.float64], task: Task) -> Figures:
    """The metric and the calibration error; of a regression its errors, means over the targets."""
    if task.kind != "regression":
        return {
            task.metric: score(torch.from_numpy(logits), torch.from_numpy(y), task),
            "calibration_error": expected_calibration_error(shown, y, task),
        }
    known = ~np.isnan(y)
    found: Figures = {}
    for name, metric in REGRESSION_METRICS.items():
        values = [metric(shown[known[:, at], at], y[known[:, at], at]) for at in range(task.n_tasks)]
        defined = [value for value in values if value is not None]
        comparable = task.n_tasks == 1 or name in ("r2", "spearman")
        found[name] = float(np.mean(defined)) if defined and comparable else None
    return found
