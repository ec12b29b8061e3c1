"""The regression for scikit-learn's tools: numbers in their own unit, intervals, missing labels, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import mphil
from mphil.model.estimator import InputError, MPHILRegressor

QUICK = {"epochs": 12, "lr": 0.01, "width": 16, "layers": 2, "dropout": 0.0}
SMILES = [f"{'C' * (1 + n % 11)}{end}" for n, end in enumerate(("O", "N", "Cl", "S", "C(=O)O", "c1ccccc1") * 11)]
LENGTH = np.array([float(len(smiles)) for smiles in SMILES])
NAN = float("nan")


@pytest.fixture(scope="module")
def fitted():
    return MPHILRegressor("erm", **QUICK).fit(SMILES, 1000 + 10 * LENGTH)


def test_numbers_come_back_in_their_unit(fitted):
    found = fitted.predict(SMILES)
    assert found.shape == (len(SMILES),)
    assert abs(found.mean() - (1000 + 10 * LENGTH).mean()) < 20
    assert fitted.score(SMILES, 1000 + 10 * LENGTH) > 0.5


def test_intervals_hold_the_prediction(fitted):
    ends, found = fitted.predict_interval(SMILES), fitted.predict(SMILES)
    assert ends.shape == (len(SMILES), 2)
    assert (ends[:, 0] <= found).all()
    assert (found <= ends[:, 1]).all()


def test_a_bundle_gives_the_same_numbers(fitted, tmp_path):
    fitted.save(tmp_path / "bundle")
    said = mphil.load(tmp_path / "bundle").predict(SMILES[:5])
    np.testing.assert_allclose(said.predicted[:, 0], fitted.predict(SMILES[:5]))
    columns = said.columns()
    assert list(columns)[:3] == ["predicted", "lower", "upper"]
    assert said.answered.all()


def test_several_columns_with_missing_numbers():
    y = np.stack([LENGTH, -5 * LENGTH], axis=1)
    y[::3, 1] = NAN
    model = MPHILRegressor("mphil+", **QUICK).fit(SMILES, y)
    assert model.predict(SMILES[:4]).shape == (4, 2)
    assert model.predict_interval(SMILES[:4]).shape == (4, 2, 2)
    assert model.bundle_.config.task.metric == "r2"
    assert np.isfinite(model.score(SMILES, y))


@pytest.mark.parametrize("method", ["forest", "extra-trees", "boosting"])
def test_trees_alone(method):
    model = MPHILRegressor(method).fit(SMILES, 1000 + 10 * LENGTH)
    assert model.history_ == []
    assert model.score(SMILES, 1000 + 10 * LENGTH) > 0.5
    assert model.predict_interval(SMILES[:3]).shape == (3, 2)


def test_rows_without_an_answer_are_nan(fitted):
    model = fitted.__class__(**fitted.get_params() | {"on_bad": "skip"})
    model.__dict__.update({name: value for name, value in vars(fitted).items() if name.endswith("_")})
    with pytest.warns(mphil.model.estimator.UnreadableRows):
        found = model.predict(["CCO", "no molecule"])
    assert np.isnan(found).tolist() == [False, True]


@pytest.mark.parametrize(
    ("settings", "y", "message"),
    [
        ({}, np.ones(len(SMILES)), "all numbers of y .* are alike"),
        ({}, LENGTH[:-1], "X has 66 rows and y has 65"),
        ({}, None, "requires y to be passed"),
        ({"method": "vrex"}, LENGTH, "vrex is not defined for regression tasks.*methods that can: .*erm"),
    ],
)
def test_refused(settings, y, message):
    with pytest.raises(InputError, match=message):
        MPHILRegressor(**QUICK | settings).fit(SMILES, y)
