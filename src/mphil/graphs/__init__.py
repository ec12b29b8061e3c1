"""Graphs as data: flat stores, splits, batches and what is kept of them on disk."""
