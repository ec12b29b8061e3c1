"""The fast path behind the encoder: compiled loops with their gradients, and the same in plain torch."""
