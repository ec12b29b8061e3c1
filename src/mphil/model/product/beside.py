"""Networks of a committee that are trained beside this process, in processes of their own, with the same results.

Every network has a folder, and whoever finds a finished run in it goes on from there. A helper process therefore hands
over nothing: when it has ended, for whatever reason, this process carries out the same runs and finds them done, or
does what is missing.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType

import torch
from rich.console import Console

from mphil.benchmarks.base import Benchmark
from mphil.config import RunConfig
from mphil.nn.threads import divided_cores
from mphil.training.run import Run, execute

GRACE_SECONDS = 30.0
"""A helper that is to stop has so long to save before it is killed."""
GLANCE_SECONDS = 0.2

Work = Sequence[tuple[RunConfig, Path]]
"""Runs and their folders."""


@dataclass
class Beside:
    """Runs that several processes take from one queue.

    Attributes:
        work: the runs, at most 256.
        data: what they are trained on.
        queue: descriptor to read the numbers of runs from that nobody has taken, a byte each.
        helpers: the other processes.
        said: the last line that one of them wrote.
    """

    work: Work
    data: Benchmark
    queue: int
    helpers: list[BaseProcess] = field(default_factory=list)
    said: str = ""

    def carry_out(self) -> dict[Path, Run]:
        """Carry out one run after the other until none is left."""
        done = {}
        while number := os.read(self.queue, 1):
            config, folder = self.work[number[0]]
            done[folder] = execute(config, self.data, folder, resume=True)
        return done

    def finish(self) -> dict[Path, Run]:
        """Help with the runs that are left and wait for the helpers; returns the runs of this process by folder."""
        done = self.carry_out()
        console = Console(stderr=True)
        for helper in self.helpers:
            with console.status(self.said) as status:
                while helper.is_alive():
                    helper.join(GLANCE_SECONDS)
                    status.update(self.said)
        return done


@contextmanager
def trained_beside(work: Work, data: Benchmark, processes: int) -> Iterator[Beside]:
    """Begin with runs in other processes, as long as the block runs; `finish` is to be called inside.

    If the block is left by an exception, Ctrl-C for example, the helpers save what they have and end; so they do when
    this process is killed.

    Args:
        work: runs with their folders; those that have a result are left alone.
        data: what they are trained on.
        processes: processes in all. With 1, `finish` does everything.
    """
    work = [(config, folder) for config, folder in work if not (folder / "result.json").exists()]
    forkable = sys.platform == "linux" and all(config.train.device == "cpu" for config, _ in work)
    count = min(processes - 1, len(work)) if forkable else 0
    queue, alive, said = os.pipe(), os.pipe(), os.pipe()
    os.write(queue[1], bytes(range(len(work))))
    os.close(queue[1])
    beside = Beside(work, data, queue[0])
    context = multiprocessing.get_context("fork")
    with divided_cores(count + 1):
        for _ in range(count):
            begun = context.Process(target=_help, args=(beside, alive, said), daemon=True)
            with warnings.catch_warnings():
                # Newer versions of Python warn of threads, which other libraries keep, and which do nothing meanwhile.
                warnings.simplefilter("ignore", DeprecationWarning)
                begun.start()
            beside.helpers.append(begun)
        os.close(said[1])
        listener = threading.Thread(target=_listen, args=(beside, said[0]), daemon=True)
        listener.start()
        try:
            yield beside
        finally:
            os.close(alive[1])
            try:
                for helper in beside.helpers:
                    helper.join(GRACE_SECONDS)
            finally:  # a second Ctrl-C does not wait
                for helper in beside.helpers:
                    helper.kill()
                    helper.join()
                listener.join()
                for reading, _ in (queue, alive, said):
                    os.close(reading)


def _listen(beside: Beside, said: int) -> None:
    """Pass on what helpers write; on a terminal, where bars are drawn, the last line is kept for later."""
    terminal = Console(stderr=True).is_terminal
    with open(said, encoding="utf-8", errors="replace", closefd=False) as lines:
        for line in lines:
            beside.said = line.strip()
            if not terminal:
                sys.stderr.write(line)
                sys.stderr.flush()


def _help(beside: Beside, alive: tuple[int, int], said: tuple[int, int]) -> None:
    """What a helper does, in a session of its own: Ctrl-C on the terminal reaches the first process alone."""
    os.setsid()
    signal.signal(signal.SIGTERM, _interrupt)
    os.close(alive[1])
    os.dup2(said[1], 2)
    logging.disable()  # the first process will say the same
    torch.set_num_threads(1)
    threading.Thread(target=_end_with, args=(alive[0],), daemon=True).start()
    try:
        beside.carry_out()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGTERM)
    except Exception as error:
        sys.stderr.write(f"a process beside this one gave up, and this one takes over ({error})\n")
        sys.exit(1)


def _end_with(alive: int) -> None:
    """Ask for an interrupt, which training holds back until it has saved, when the first process lets go."""
    os.read(alive, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
