"""Processes of a training: what it asks of the operating system, and several that train together under `torchrun`.

Each process takes its share of every batch, and all take the same step. Rank 0 alone reads and writes files, shows
progress and evaluates; the others are told.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as render_tensors
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from mphil.errors import IntegrityError, UsageError
from mphil.files import lock, remove_drafts
from mphil.methods.base import METHODS, Method
from mphil.nn import world
from mphil.training.checkpoint import Checkpoints


@contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Hold a run folder for this process; made if it is missing, tidied of what a killed holder was writing.

    The system releases the lock when the holder ends, however it ends. The file `.lock` stays; it names the holder
    while there is one.

    Raises:
        IntegrityError: another holder is at work in the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            lock(handle, wait=False)
        except BlockingIOError:
            # A holder that has the lock but has not yet written its number is possible, hence the second wording.
            holder = os.read(handle, 32).decode(errors="replace").strip()
            who = f"process {holder}" if holder.isdigit() else "another process"
            raise IntegrityError(f"{folder} is in use by {who}; wait for it or choose another --out") from None
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        remove_drafts(folder)
        try:
            yield
        finally:
            os.ftruncate(handle, 0)
    finally:
        os.close(handle)


class Interrupt(AbstractContextManager["Interrupt"]):
    """Holds back the first Ctrl-C or SIGTERM until `strike` is called; a second one strikes at once.

    What is saved in the middle of a step would be neither before nor after it, and no run could go on from there as if
    nothing had happened. Signals that would not raise an exception here (ignored, or left to end the process) stay as
    they are.

    Attributes:
        held: whether somebody wants to stop.
    """

    def __init__(self) -> None:
        self.held, self._number = False, 0
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if current_thread() is main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                handler = signal.getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    signal.signal(number, self._hold)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def strike(self) -> None:
        """Raise what was held back, if anything; whoever handled the signal before hears of it first."""
        if self._number:
            self._handlers[self._number](self._number, None)
        if self.held:
            raise KeyboardInterrupt

    def _hold(self, number: int, frame: FrameType | None) -> None:
        self.strike()
        self.held, self._number = True, number


TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4
"""Numbers of glibc's settings (malloc.h)."""
EVERYTHING = 2**31 - 1
LARGEST = {MMAP_MAX: 65536, MMAP_THRESHOLD: 32 << 20, TRIM_THRESHOLD: 64 << 20}
"""Where glibc's own rules end up in a process with large tensors."""


@contextmanager
def kept_memory() -> Iterator[None]:
    """Keep what a step frees for the next one, and give it back at the end.

    glibc returns large tensors to the system as soon as they are freed, and the system clears the same pages again
    for every step. Other C libraries are left alone.
    """
    libc = ctypes.CDLL(None) if platform.system() == "Linux" else None
    if libc is None or not hasattr(libc, "malloc_trim"):
        yield
        return
    libc.mallopt(MMAP_MAX, 0)
    libc.mallopt(TRIM_THRESHOLD, EVERYTHING)
    try:
        yield
    finally:
        for setting, value in LARGEST.items():
            libc.mallopt(setting, value)
        libc.malloc_trim(0)


PATIENCE = timedelta(hours=1)
"""How long the others wait for rank 0 to evaluate. One that ends is noticed at once."""
FAREWELL = timedelta(seconds=10)
"""How long one waits for the others before leaving them."""


def launched() -> bool:
    """Whether torchrun started this process beside others."""
    return dist.is_available() and dist.is_torchelastic_launched() and int(os.environ["WORLD_SIZE"]) > 1


def is_first() -> bool:
    """Whether this process is the one that talks to people."""
    return not launched() or os.environ["RANK"] == "0"


@contextmanager
def joined(device: str) -> Iterator[None]:
    """Be one of the processes that torchrun started, if it started several; a group that is already there is used.

    Args:
        device: where tensors live; those on cards travel by nccl, all others by gloo.
    """
    if not launched() or dist.is_initialized():
        yield
        return
    on_card = device.startswith("cuda")
    if on_card:
        torch.cuda.set_device(local_device(device))
    store, rank, size = next(rendezvous("env://", timeout=PATIENCE))
    backend = "cpu:gloo,cuda:nccl" if on_card else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=PATIENCE)
    try:
        yield
        _wait_for_all(store, size)
    except KeyboardInterrupt:
        _wait_for_all(store, size)
        raise
    finally:
        dist.destroy_process_group()


def _wait_for_all(store: Any, size: int) -> None:
    """Who leaves first breaks off what the others have not received yet: wait until everybody is done."""
    with suppress(RuntimeError):  # too long, or the process that keeps the store has gone
        if store.add("mphil/done", 1) == size:
            store.set("mphil/leave", "1")
        store.wait(["mphil/leave"], FAREWELL)


def local_device(device: str) -> str:
    """`cuda` is a card of its own for each process of a machine; every other device is what it says."""
    return f"cuda:{os.environ['LOCAL_RANK']}" if device == "cuda" and "LOCAL_RANK" in os.environ else device


def check_parallel(method: type[Method]) -> None:
    """Refuse to train in several processes what would give another result there."""
    if world.size() > 1 and not method.parallel:
        able = ", ".join(name for name in METHODS if METHODS[name].parallel)
        raise UsageError(
            f"{method.name} cannot be trained by {world.size()} processes: its loss looks at a batch as a whole, and "
            f"each process has a part of it; start it without torchrun, or train one of {able}"
        )


class SharedCheckpoints(Checkpoints):
    """Checkpoints that rank 0 reads and writes; the other ranks, which may not see the folder, get them from it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._files = Checkpoints(folder)

    def write(self, tensors: Mapping[str, Mapping[str, Tensor]], meta: Mapping[str, Any]) -> None:
        if world.rank() == 0:
            self._files.write(tensors, meta)

    def exists(self) -> bool:
        return world.from_first(self._files.exists)

    def meta(self) -> dict[str, Any]:
        return world.from_first(self._files.meta)

    def groups(self) -> list[str]:
        return world.from_first(self._files.groups)

    def load(self, group: str) -> dict[str, Tensor]:
        if world.size() == 1:
            return self._files.load(group)
        rendered = render_tensors(self._files.load(group)) if world.rank() == 0 else b""
        return parse_tensors(world.bytes_from_first(rendered))
