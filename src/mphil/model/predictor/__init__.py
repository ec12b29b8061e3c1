"""From a bundle to answers: the only way by which a trained model is asked about new molecules or graphs."""

from mphil.model.predictor.asking import Outputs
from mphil.model.predictor.core import Predictor, load
from mphil.model.predictor.predictions import Predictions
from mphil.model.predictor.reading import Molecules, as_molecules

__all__ = ["Molecules", "Outputs", "Predictions", "Predictor", "as_molecules", "load"]
