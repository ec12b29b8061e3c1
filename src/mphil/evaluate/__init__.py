"""Scoring: predictions of a part, metrics, and the choice of an epoch."""
