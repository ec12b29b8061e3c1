"""Hostile labels: refused with a sentence, or left out as missing, and no number that is none gets into a model."""

import math

import numpy as np
import pytest

from mphil.errors import MphilError
from mphil.model.product import prepare
from mphil.training.run import train
from tests.products import TINY, molecules, write_table

pytestmark = pytest.mark.promise("hostile labels")

N = len(molecules())
TEXTS = ("nan", "NaN", "inf", "-inf", "1e999", "-1e999", "active?", "<1", ">10", "=1+1", "\0", "", " ", "NA", "1e308")
COLUMNS = {
    "all missing": [""] * N,
    "all NaN": ["nan"] * N,
    "all infinite": ["inf"] * N,
    "one class": ["1"] * N,
    "one class and missing": ["1", ""] * (N // 2),
    "all different texts": [f"text {i}" for i in range(N)],
    "one label": ["1"] + [""] * (N - 1),
    "two labels": ["1", "0"] + [""] * (N - 2),
    "huge numbers": [f"{i}e300" for i in range(N)],
    "numbers and infinities": [str(i) if i % 3 else "inf" for i in range(N)],
    "numbers and texts": [str(i / 7) if i % 3 else "high" for i in range(N)],
    **{f"yes, no and {text!r}": [("1", "0", text)[i % 3] for i in range(N)] for text in TEXTS},
    **{f"numbers and {text!r}": [str(i / 7) if i % 5 else text for i in range(N)] for text in TEXTS},
}

REFUSED = {"all missing", "all NaN", "all infinite", "one class", "one class and missing", "one label"}


def outcome(path):
    """`refused`, or `trained` after a short training in which every loss, weight and label is a number."""
    try:
        wanted = {"benchmark": {"path": str(path), "target": "y"}, "method": {"name": "erm"}, **TINY}
        data = prepare(wanted).data
    except MphilError:
        return "refused"
    assert not np.isinf(data.store.y.numpy()).any()
    try:
        run = train(data, "erm", train={"epochs": 1, "batch_size": 20}, encoder=TINY["encoder"])
    except MphilError:
        return "refused"
    assert all(value.isfinite().all() for value in run.method.state_dict().values())
    for epoch in run.history:
        assert all(map(math.isfinite, epoch["losses"].values()))
        assert all(score is None or math.isfinite(score) for score in epoch["scores"].values())
    return "trained"


def test_every_column(tmp_path, amount, figure):
    names = list(COLUMNS)
    found = {}
    for name in names[:: -(-len(names) // amount("columns of labels"))]:
        path = write_table(tmp_path / "assay.csv", {"smiles": molecules(), "y": COLUMNS[name]})
        found[name] = outcome(path)
    for name in REFUSED & found.keys():
        assert found[name] == "refused", name
    refused = sum(one == "refused" for one in found.values())
    figure(f"{len(found)} columns of labels, {refused} refused, the others trained without a number that is none")
