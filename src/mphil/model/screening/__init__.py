"""Predictions for files of any length: rows stream in, the same rows stream out, each with an answer."""

from mphil.model.screening.folder import FolderSummary, screen_folder
from mphil.model.screening.run import Summary, screen_file, screen_graphs

__all__ = ["FolderSummary", "Summary", "screen_file", "screen_folder", "screen_graphs"]
