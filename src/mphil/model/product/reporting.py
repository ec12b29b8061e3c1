"""The report for regulators, from the folder of a bundle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from mphil.errors import UsageError
from mphil.model.bundle.folder import trust_values, weights_digest
from mphil.model.predictor import Predictor, load
from mphil.pages.regulatory import chapters
from mphil.pages.template import Section
from mphil.training.metrics import score


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
