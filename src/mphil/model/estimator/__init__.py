"""The methods as a classifier and a regression in the manner of scikit-learn."""

from mphil.model.estimator.estimators import MPHILClassifier, MPHILRegressor
from mphil.model.estimator.inputs import InputError, UnreadableRows

__all__ = ["InputError", "MPHILClassifier", "MPHILRegressor", "UnreadableRows"]
