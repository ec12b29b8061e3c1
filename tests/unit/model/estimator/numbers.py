"""scikit-learn's checks hand matrices of numbers to an estimator; here every row of one becomes a graph."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted, validate_data
from torch_geometric.data import Data

from mphil.model.estimator import MPHILClassifier, MPHILRegressor


class _Front:
    """Makes graphs of numbers: a node with all the numbers of a row.

    Checking that the numbers are numbers is the front's own work; whatever else the checks ask is the estimator's.
    """

    def fit(self, X, y, groups=None):
        return super().fit(as_graphs(validate_data(self, X)), y, groups)

    def _ask(self, X):
        check_is_fitted(self)
        return super()._ask(as_graphs(validate_data(self, X, reset=False)))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.one_d_array, tags.input_tags.string = True, False, False
        return tags


class FromNumbers(_Front, MPHILClassifier):
    """The classifier behind such a front."""


class NumbersFromNumbers(_Front, MPHILRegressor):
    """The regression behind such a front."""


def as_graphs(X) -> list[Data]:
    rows = torch.from_numpy(np.asarray(X, np.float32))
    return [Data(x=row[None], edge_index=torch.empty(2, 0, dtype=torch.long)) for row in rows]
