"""The methods as a classifier and a regression in the manner of scikit-learn."""

from mphil.model.estimator.classifier import MPHILClassifier
from mphil.model.estimator.inputs import InputError, UnreadableRows
from mphil.model.estimator.regressor import MPHILRegressor

__all__ = ["InputError", "MPHILClassifier", "MPHILRegressor", "UnreadableRows"]
