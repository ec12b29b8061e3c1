"""The methods as a classifier and a regression in the manner of scikit-learn."""

from mphil.estimator.classifier import MPHILClassifier
from mphil.estimator.inputs import InputError, UnreadableRows
from mphil.estimator.regressor import MPHILRegressor

__all__ = ["InputError", "MPHILClassifier", "MPHILRegressor", "UnreadableRows"]
