"""From a bundle to answers: the only way by which a trained model is asked about new molecules or graphs."""

from mphil.predictor.asking import Outputs
from mphil.predictor.core import Predictor, load
from mphil.predictor.molecules import Molecules, as_molecules
from mphil.predictor.predictions import Predictions

__all__ = ["Molecules", "Outputs", "Predictions", "Predictor", "as_molecules", "load"]
