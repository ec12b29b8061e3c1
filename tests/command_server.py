"""Runs the `mphil` command in a process of its own, as often as asked; started by tests/command.py.

The packages are imported once; each request costs a fork. A request is a line of JSON:
`{"run": arguments, "stdout": path, "stderr": path, "columns": width}` answers with the number of the process,
`{"wait": number}` with how that process ended (negative: the signal that ended it).
"""

import json
import os
import signal
import sys
import traceback
from pathlib import Path

# What commands import when they come to it: each would take seconds for it.
import sklearn.ensemble
import sklearn.linear_model  # noqa: F401
import torch._dynamo  # noqa: F401

import mphil.model.product
import mphil.model.product.runs
import mphil.training.run  # noqa: F401
from mphil.benchmarks import BENCHMARKS
from mphil.cli import main
from mphil.methods import METHODS

SECONDS_TO_LIVE = 120
"""A child that hangs must not hang the tests."""


def run(request: dict) -> None:
    code = 1
    try:
        signal.alarm(SECONDS_TO_LIVE)
        # Whoever started the tests in the background may have had interrupts ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, path in enumerate(("/dev/null", request["stdout"], request["stderr"])):
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOCTTY, 0o600)
            os.dup2(handle, number)
        os.environ |= {"TERM": "xterm-256color", "COLUMNS": str(request["columns"])}
        os.chdir(Path(request["stdout"]).parent)
        sys.argv = ["mphil", *request["run"]]
        main()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    assert list(BENCHMARKS)
    assert list(METHODS)
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])
        else:
            answer = os.fork()
            if not answer:
                run(request)
        print(answer, flush=True)
