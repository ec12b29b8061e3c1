"""Training: one loop for all methods, runs that survive anything."""
