"""The methods as a classifier in the manner of scikit-learn."""

from mphil.estimator.classifier import MPHILClassifier
from mphil.estimator.inputs import InputError, UnreadableRows

__all__ = ["InputError", "MPHILClassifier", "UnreadableRows"]
