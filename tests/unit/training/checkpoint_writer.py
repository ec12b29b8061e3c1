"""Writes checkpoints until it is killed; run by test_checkpoint.py.

Each line of input starts one writer in a process of its own and prints its number: `0` writes on and on, `k` ends
itself without any cleaning up at its k-th step on the disk.
"""

import os
import sys
from itertools import count
from pathlib import Path

import torch

from mphil.training.checkpoint import Checkpoints


def end_at(step: int) -> None:
    """Let the process vanish just before its `step`-th fsync, rename or removal."""
    steps = count(1)

    def counted(action):
        def act(*args, **kwargs):
            if next(steps) == step:
                os._exit(9)
            return action(*args, **kwargs)

        return act

    os.fsync = counted(os.fsync)
    Path.replace = counted(Path.replace)
    Path.unlink = counted(Path.unlink)


def write(folder: Path, writes: int) -> None:
    checkpoints = Checkpoints(folder)
    meta = checkpoints.meta() if checkpoints.exists() else {"step": 0, "best": 0}
    for step in range(meta["step"] + 1, meta["step"] + 1 + writes):
        groups = {"state": {"weight": torch.full((50, 50), float(step)), "step": torch.tensor(step)}}
        if step % 3 == 1:
            groups["best"] = {"weight": torch.full((20,), float(step))}
            meta["best"] = step
        checkpoints.write(groups, {**meta, "step": step})


def main(folder: Path) -> None:
    for line in sys.stdin:
        step = int(line)
        child = os.fork()
        if child == 0:
            end_at(step)
            write(folder, writes=2 if step else 10**9)
            os._exit(0)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
