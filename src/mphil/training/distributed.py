"""One training in several processes: `torchrun --nproc-per-node 2 -m mphil train ...`.

Each process takes its share of every batch, and all take the same step. Rank 0 alone reads and writes files, shows
progress and evaluates; the others are told.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as render_tensors
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from mphil.errors import UsageError
from mphil.methods.base import METHODS, Method
from mphil.nn import world
from mphil.training.checkpoint import Checkpoints

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
