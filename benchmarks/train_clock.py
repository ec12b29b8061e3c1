"""`mphil train` with a clock on imports, wherever they happen, and on what reads molecules.

    OMP_NUM_THREADS=1 python benchmarks/train_clock.py TABLE.csv --target active --out RUN

Its last line of output is JSON: processor seconds of all, of imports and of reading (the table, its molecules, the
split, and everything that RDKit computes of them). Small tables are read in one process, the one that is timed.
"""

from __future__ import annotations

import builtins
import functools
import json
import sys
import time
from collections.abc import Callable
from typing import Any

SPENT = {"imports": 0.0, "reading": 0.0}
_INSIDE: list[str] = []


def clocked(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
    """The same work; what it takes is added to `SPENT`, unless it is part of something that is timed already."""

    @functools.wraps(work)
    def call(*args: Any, **given: Any) -> Any:
        if _INSIDE:
            return work(*args, **given)
        _INSIDE.append(name)
        start = time.process_time()
        try:
            return work(*args, **given)
        finally:
            SPENT[name] += time.process_time() - start
            _INSIDE.pop()

    return call


def main() -> None:
    SPENT["imports"] = time.process_time()
    builtins.__import__ = clocked("imports", builtins.__import__)
    from mphil import cli
    from mphil.model import product
    from mphil.tables.pool import Work

    product.prepare = clocked("reading", product.prepare)
    Work.finish = clocked("reading", Work.finish)  # type: ignore[method-assign]
    sys.argv = ["mphil", "train", *sys.argv[1:]]
    try:
        cli.main()
    except SystemExit as stop:
        if stop.code:
            raise
    print(json.dumps({name: round(value, 2) for name, value in {"all": time.process_time(), **SPENT}.items()}))


if __name__ == "__main__":
    main()
