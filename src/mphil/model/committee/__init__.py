"""Several models that answer together: trees kept as plain arrays, and the weights that combine all members."""
