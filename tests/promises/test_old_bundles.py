"""Old bundles: those of earlier versions load, and predict what they predicted then.

A folder of `old/` holds a bundle as an earlier version wrote it, with `predictions.json` of that version. A version of
the numerics, or a change of the format, adds a folder; none is ever changed.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from mphil.model.predictor import load

pytestmark = pytest.mark.promise("old bundles")

OLD = sorted(Path(__file__).with_name("old").iterdir())


@pytest.mark.parametrize("folder", OLD, ids=lambda folder: folder.name)
def test_the_same_predictions(figure, folder):
    told = json.loads((folder / "predictions.json").read_text())
    said = load(folder / "bundle").predict(told["smiles"])
    assert list(said.status) == told["status"]
    then = np.array(told["probability"], float)
    difference = float(np.nanmax(np.abs(said.probability[:, 0] - then)))
    assert (np.isnan(said.probability[:, 0]) == np.isnan(then)).all()
    assert difference < 1e-6
    np.testing.assert_allclose(said.similarity, np.array(told["similarity"], float))
    figure(f"{folder.name}: loads, largest difference {difference:.1e}")
