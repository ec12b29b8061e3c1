"""`python -m mphil` is the `mphil` command; torchrun starts it so."""

from __future__ import annotations

import os
import signal
from types import FrameType


def main() -> None:
    """Import the command line and run it; an interrupt while it is being imported ends with one sentence."""
    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    signal.signal(signal.SIGTERM, _leave)
    from mphil.cli import main as run

    signal.signal(signal.SIGINT, interrupt)
    run()


def _leave(number: int, frame: FrameType | None) -> None:
    # Nothing has begun, and an exception in the middle of an import may be taken for another one.
    os.write(2, b"stopped; give the same command again\n")
    os._exit(128 + number)


if __name__ == "__main__":
    main()
