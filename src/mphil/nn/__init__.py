"""Building blocks: encoders, readouts, losses and the geometry of the sphere."""
