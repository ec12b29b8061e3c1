"""The `mphil` command in tests: called in this process, or run in another one that can be killed."""

from __future__ import annotations

import io
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from mphil.cli import main

PATIENCE = 60.0
"""Seconds to wait for something that must happen; only a failing test waits that long."""


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code (negative: a signal) and what it said."""

    code: int
    out: str
    err: str


def call(*arguments: object) -> Ended:
    """Run the command in this process."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    argv, handler = sys.argv, signal.getsignal(signal.SIGTERM)
    sys.argv = ["mphil", *map(str, arguments)]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv = argv
        signal.signal(signal.SIGTERM, handler)
    return Ended(code, out.getvalue(), err.getvalue())


def wait_until(condition: Callable[[], bool]) -> None:
    """Return as soon as the condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


def saved_step(folder: Path) -> int:
    """The step of the last checkpoint, 0 when there is none."""
    try:
        return int(json.loads((folder / "checkpoint" / "checkpoint.json").read_text())["meta"]["at"]["step"])
    except FileNotFoundError:
        return 0


class Process:
    """A running command."""

    def __init__(self, server: CommandServer, pid: int, out: Path, err: Path) -> None:
        self._server, self.pid, self._out, self._err = server, pid, out, err

    def send(self, number: int) -> None:
        # Safe even when it has just ended: the number stays taken until `wait`.
        os.kill(self.pid, number)

    def wait(self) -> Ended:
        code = self._server.ask({"wait": self.pid})
        err = self._err.read_text() if self._err.is_file() else ""
        return Ended(code, self._out.read_text(), err)


class CommandServer:
    """Starts commands in processes of their own, without importing everything again each time."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._numbers = folder, itertools.count()
        script = Path(__file__).with_name("command_server.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, request: dict) -> int:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(request) + "\n")
        stdin.flush()
        return int(stdout.readline())

    def start(self, *arguments: object, stderr: Path | None = None, columns: int = 80) -> Process:
        """Start a command; `stderr` may be a terminal, of so many columns."""
        number = next(self._numbers)
        out, err = self._folder / f"{number}.out", stderr or self._folder / f"{number}.err"
        run = {"run": [str(a) for a in arguments], "stdout": str(out), "stderr": str(err), "columns": columns}
        pid = self.ask(run)
        return Process(self, pid, out, err)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
