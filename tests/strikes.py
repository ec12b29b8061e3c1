"""Points of a training at which its process is killed, named by what is going on and the step it is going on at."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import mphil.files
import mphil.training.checkpoint
from mphil.training.trainer import Trainer


class Point(NamedTuple):
    """A moment: of which run, what, at which stage and step of training, and the how-manieth of its kind there."""

    run: str
    what: str
    stage: int
    step: int
    number: int


class Strikes:
    """Counts the points of a training; writes them to a file, or kills the process at one of them.

    Args:
        points: where to write them.
        at: where to kill.
    """

    def __init__(self, points: Path | None, at: Point | None) -> None:
        self._points, self._at = points, at
        self._trainer: Trainer | None = None
        self._seen: Counter[tuple[Any, ...]] = Counter()

    def pass_by(self, what: str, before: Callable[[], object] = lambda: None) -> None:
        trainer = self._trainer
        if trainer is None or trainer.checkpoints is None:
            return
        place = (trainer.checkpoints.folder.parent.name, what, trainer.at.stage, trainer.at.step)
        point = Point(*place, self._seen[place])
        self._seen[place] += 1
        if point == self._at:
            before()
            os.kill(os.getpid(), signal.SIGKILL)
        if self._points is not None:
            with self._points.open("a") as file:
                file.write(json.dumps(point) + "\n")

    def install(self) -> None:
        """Wrap what a training does."""
        for name, what in (
            ("_train_step", "step"),
            ("_save", "save"),
            ("_score_epoch", "score"),
            ("_pass_stage", "stage"),
        ):
            self._around(Trainer, name, what)
        self._around(mphil.files, "sync_folder", "folder")
        self._around(mphil.files, "_swap", "folder swap")
        real = mphil.files.replace_file

        def write(path: Path, data: bytes) -> None:
            draft = path.with_name(f".{path.name}.draft-torn")
            self.pass_by("torn file", lambda: draft.write_bytes(data[: len(data) // 2]))
            with real(path) as file:
                file.write(data)
                self.pass_by("before rename", file.flush)
            self.pass_by("after rename")

        mphil.training.checkpoint.write_bytes = write

    def _around(self, owner: Any, name: str, what: str) -> None:
        real = getattr(owner, name)

        def wrapped(*arguments: Any) -> Any:
            if isinstance(arguments[0], Trainer):
                self._trainer = arguments[0]
            self.pass_by(f"before {what}")
            found = real(*arguments)
            self.pass_by(f"after {what}")
            return found

        setattr(owner, name, wrapped)


def points_of(path: Path) -> list[Point]:
    """The points that a training passed, in order."""
    return [Point(*json.loads(line)) for line in path.read_text().splitlines()]


def spread(points: list[Point], number: int, turn: int) -> list[Point]:
    """So many points in their order: the first and the last step among them, the others of kinds that take turns."""
    kinds = sorted({point.what for point in points})
    steps = [point for point in points if point.what == "before step"]
    chosen = {steps[0], steps[-1]} if number > 2 else {steps[-1]}
    while len(chosen) < min(number, len(points)):
        kind = kinds[turn % len(kinds)]
        of_kind = [point for point in points if point.what == kind and point not in chosen]
        if of_kind:
            chosen.add(of_kind[(turn * 7) % len(of_kind)])
        turn += 1
    return [point for point in points if point in chosen]
