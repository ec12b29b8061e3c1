"""What is told about training while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mphil.methods.base import Progress


class Callback:
    """Somebody who watches training: a progress bar, a log, or an object of your own given to `mphil.train`.

    An exception in a callback ends the training and is passed on; the last checkpoint is untouched, so the run can be
    resumed from it.

    Example:
        >>> class Printer(Callback):
        ...     def on_epoch(self, history, progress):
        ...         print(history[-1]["epoch"], history[-1]["scores"])
    """

    def on_step(self, progress: Progress, losses: Mapping[str, float]) -> None:
        """A batch has been trained on; `progress.step` counts it."""

    def on_epoch(self, history: list[dict[str, Any]], progress: Progress) -> None:
        """An epoch of the main stage has been scored; the last of `history` is its record."""
