"""Several models that answer together: trees kept as plain arrays, and the weights that combine all members."""

from mphil.model.committee.trees import MoleculeFeatures, Trees
from mphil.model.committee.weights import combine, fit_weights, spread

__all__ = ["MoleculeFeatures", "Trees", "combine", "fit_weights", "spread"]
