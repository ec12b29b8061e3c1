"""The held-out parts of a training on a file, read and scored again."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mphil.benchmarks.own_data import read_survey, table_arguments
from mphil.chem.row_issue import OK
from mphil.errors import IntegrityError, UsageError
from mphil.graphs.split import PARTS as PART_NAMES
from mphil.model.bundle.manifest import is_bundle
from mphil.model.committee.trees import MoleculeFeatures
from mphil.model.predictor import Predictor, load
from mphil.model.predictor.core import NOT_FINITE
from mphil.model.product.build import BUNDLE, PARTS, file_arguments
from mphil.model.scoring import Evaluation, Examined, judged
from mphil.tables.duplicates import settle_duplicates
from mphil.tables.from_smiles import with_descriptors
from mphil.tables.survey import Survey
from mphil.training.place import check_sources, read_record
from mphil.trust.neighbours import most_similar


def evaluate_training(run: Path) -> dict[str, Evaluation]:
    """Score the bundle of a training on each part that it was not trained on.

    Args:
        run: folder of a finished `mphil train FILE`. The file is read again, and `parts.csv` says what is where.

    Raises:
        UsageError: the training is not finished, or an older version recorded too little of it.
        DataError: the file is gone.
        IntegrityError: it has changed, or the parts are not those of the training.
    """
    record, bundle = read_record(run), run / BUNDLE
    if not is_bundle(bundle):
        raise UsageError(f"{run}: the training is not finished; go on with `mphil resume {run}`")
    if "wanted" not in record:
        raise UsageError(
            f"{run} does not say how its file was read: give its `mphil train FILE` command again, which trains "
            f"nothing twice, or score a table: mphil evaluate {bundle} TABLE"
        )
    arguments = file_arguments(record["wanted"])
    read = {name: digest for name, digest in record["files"].items() if name in (arguments["path"], arguments["test"])}
    check_sources(run, read, f"score other rows: mphil evaluate {bundle} TABLE")
    predictor = load(bundle)
    survey = _read(predictor, arguments)
    places = _places(run / PARTS, survey)
    sizes = {part: len(found) for part, found in places.items()}
    if sizes != predictor.bundle.config.data["parts"]:
        raise IntegrityError(f"{run / PARTS} is not the one that the training wrote; restore it")
    return {part: _score(predictor, survey, part, places[part]) for part in PART_NAMES[1:] if sizes[part]}


def _read(predictor: Predictor, arguments: dict[str, Any]) -> Survey:
    """The rows as they were read for the training, its columns by name."""
    config = predictor.bundle.config
    told = table_arguments(arguments)
    if config.molecules is None:
        return read_survey(told["path"], "size", told["options"])[0]
    options = replace(told["options"], smiles=config.molecules.column, targets=config.targets)
    described = predictor.has_trees or predictor.takes_descriptors
    survey = read_survey(told["path"], "scaffold", options, features=described)[0]
    return settle_duplicates(survey, told["duplicates"]).survey


def _places(path: Path, survey: Survey) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
    """Part to the ascending places of its rows, as a table of parts says."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            part = {int(cells["row"]) - 1: cells["part"] for cells in csv.DictReader(file)}
    except (OSError, ValueError, KeyError, TypeError):
        raise IntegrityError(f"{path} cannot be read; restore it") from None
    of = np.array([part.get(row, "") for row in survey.row.tolist()])
    return {name: np.flatnonzero(of == name) for name in PART_NAMES}


def _score(predictor: Predictor, survey: Survey, part: str, places: np.ndarray[Any, np.dtype[np.int64]]) -> Evaluation:
    assert survey.graphs is not None
    graphs = torch.from_numpy(places)
    store = replace(survey.graphs, y=torch.from_numpy(survey.y).float())
    features, similarity = None, None
    if "counts" in survey.facts:
        store = with_descriptors(store, survey.facts)
        features = MoleculeFeatures.of(survey.facts).take(places)
    if (references := predictor.bundle.references.fingerprints) is not None:
        similarity = most_similar(survey.facts["fingerprint"][places], references)[1]
    chosen = store.select(graphs)
    kept, outputs, distance = predictor.examine(chosen, similarity=similarity, features=features)
    status = np.full(len(places), NOT_FINITE[0], object)
    status[kept] = OK
    examined = Examined(status.tolist(), outputs.logits, distance)
    return judged(predictor, part, examined, chosen.y.double().numpy())
