"""Write golden losses: `python -m tests.golden.update`, or with the names of the methods that are new.

Losses of a method that had none are added. Losses that were kept may change only with a higher `NUMERICS`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import torch

from mphil.methods import METHODS
from mphil.provenance import NUMERICS
from tests.golden.losses import (
    FILE,
    HISTORY,
    REMEDY,
    Golden,
    digests,
    kinds,
    losses_after_training,
    read,
    read_history,
    same,
    write,
)


def update(found: Golden, numerics: int, methods: Iterable[str], file: Path, history: Path) -> None:
    """Put the losses found now beside those that were kept.

    Args:
        found: losses of the methods that were computed.
        numerics: the present version of the numerics.
        methods: all there are; losses of others are dropped.
        file: golden losses.
        history: their digests, by version of the numerics.

    Raises:
        SystemExit: a loss that was kept has changed and the number has not been raised, or has been lowered.
    """
    before, kept = read(file)
    if numerics < before:
        raise SystemExit(f"NUMERICS is {numerics}, the losses are of {before} already: it never falls")
    golden = {name: dict(losses) for name, losses in kept.items() if name in set(methods)}
    for name, by_kind in found.items():
        for kind, losses in by_kind.items():
            old = golden.setdefault(name, {}).get(kind)
            if old is not None and same(losses, old):
                continue
            if old is not None and numerics == before:
                raise SystemExit(
                    f"the losses of {name} on {kind} were {old}\nand are {losses}\n"
                    f"Records of numerics {numerics} would no longer belong together; {REMEDY}"
                )
            golden[name][kind] = losses
    past = read_history(history)
    past[str(numerics)] = digests(golden) | past.get(str(numerics), {})  # what is written there stays
    write(file, {"numerics": numerics, "losses": golden})
    write(history, past)


def main() -> None:
    torch.set_num_threads(1)
    found: Golden = {}
    for name in sys.argv[1:] or METHODS:
        found[name] = {kind: losses_after_training(name, kind) for kind in kinds(METHODS[name])}
        print(name, found[name])
    update(found, NUMERICS, METHODS, FILE, HISTORY)


if __name__ == "__main__":
    main()
