"""scikit-learn's own checks of an estimator."""

from __future__ import annotations

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from mphil.model.estimator import MPHILClassifier, MPHILRegressor
from tests.unit.model.estimator.numbers import FromNumbers, NumbersFromNumbers

pytestmark = pytest.mark.filterwarnings("ignore")

QUICK = {"epochs": 2, "lr": 0.05, "dropout": 0.0, "width": 16, "layers": 1}


@parametrize_with_checks([FromNumbers("erm", **QUICK)])
def test_every_check_that_takes_numbers(estimator, check):
    check(estimator)


def too_small(estimator):
    """Ten rows leave one to choose the epoch by, and the R2 of several columns needs two."""
    return {"check_regressor_multioutput": "ten rows are too few for several columns"}


@parametrize_with_checks([NumbersFromNumbers("erm", **QUICK | {"epochs": 12})], expected_failed_checks=too_small)
def test_every_check_of_a_regression(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", [MPHILClassifier(), MPHILRegressor()], ids=["classifier", "regression"])
def test_checks_that_need_no_matrix(estimator):
    told = check_estimator(estimator, on_fail=None, on_skip=None)
    assert told
    assert [one["check_name"] for one in told if one["status"] != "passed"] == []


@pytest.mark.parametrize(
    "check", ["check_fit_idempotent", "check_methods_subset_invariance", "check_methods_sample_order_invariance"]
)
def test_the_method_of_the_paper_keeps_the_contract_too(check):
    getattr(estimator_checks, check)("FromNumbers", FromNumbers("mphil", **QUICK))


def test_the_checks_can_fail():
    class Forgetful(FromNumbers):
        def predict(self, X):
            return super().predict(X)[:-1]

    with pytest.raises((AssertionError, ValueError)):
        estimator_checks.check_classifiers_train("Forgetful", Forgetful("erm", **QUICK))
