"""One thread for torch: how it divides a sum among threads changes rounding, and with it a result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch uses one thread inside, so that results do not depend on the caller's number, which is restored after.

    The number belongs to the calling Python thread: blocks that are open elsewhere at the same time do not matter.
    """
    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
