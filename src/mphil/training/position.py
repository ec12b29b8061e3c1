"""Where a training stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Position:
    """Where the loop stands; with the tensors, all that is needed to go on as if nothing had happened.

    Attributes:
        stage: stages done.
        epoch: epochs done of the present stage.
        batch: batches done of the present epoch.
        step: batches done of the present stage.
        updates: steps of the optimiser done of the present stage.
        seconds: time spent in all.
        cpu_seconds: processor time spent in all by this process.
        loss_sums: terms of the loss, summed over the batches of the present epoch.
        history: a record of every epoch done of the main stage.
        earlier: a record of every epoch done of the stages before it.
    """

    stage: int = 0
    epoch: int = 0
    batch: int = 0
    step: int = 0
    updates: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    loss_sums: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    earlier: list[dict[str, Any]] = field(default_factory=list)
