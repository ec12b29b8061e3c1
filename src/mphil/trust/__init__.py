"""How far to trust a prediction: distance from training, calibrated probabilities, sets with a stated error."""
