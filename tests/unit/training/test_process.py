"""A run folder is held by one process; Ctrl-C waits for the end of a step; memory stays with the process."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import subprocess
import sys
import threading

import pytest

from mphil.errors import IntegrityError
from mphil.files import write_text
from mphil.training.process import Interrupt, kept_memory, lock_run

HOLD = """
import sys
from pathlib import Path
from mphil.training.process import lock_run
with lock_run(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock of `tmp_path` until its input ends or it is killed."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_second_process_is_refused_until_the_first_is_killed(tmp_path, holder):
    refusal = f"in use by process {holder.pid}; wait for it or choose another --out"
    with pytest.raises(IntegrityError, match=refusal), lock_run(tmp_path):
        pytest.fail("two holders")
    holder.kill()
    holder.wait()
    with lock_run(tmp_path):
        assert (tmp_path / ".lock").read_text() == f"{os.getpid()}\n"


def test_second_open_in_one_process_is_refused(tmp_path):
    with lock_run(tmp_path):
        with pytest.raises(IntegrityError, match=f"process {os.getpid()}"), lock_run(tmp_path):
            pytest.fail("two holders")
        with pytest.raises(IntegrityError), lock_run(tmp_path):
            pytest.fail("a refusal must not release the lock of the holder")


def test_released_after_success_and_after_an_error(tmp_path):
    with lock_run(tmp_path):
        pass
    with pytest.raises(ZeroDivisionError), lock_run(tmp_path):
        raise ZeroDivisionError
    with lock_run(tmp_path):
        pass


def test_other_folders_are_free_and_missing_ones_are_made(tmp_path):
    with lock_run(tmp_path / "one"), lock_run(tmp_path / "deep" / "two"):
        assert (tmp_path / "deep" / "two").is_dir()


def test_holder_without_a_number_yet(tmp_path):
    with lock_run(tmp_path):
        (tmp_path / ".lock").write_text("")
        with pytest.raises(IntegrityError, match="in use by another process"), lock_run(tmp_path):
            pytest.fail("two holders")


def test_new_holder_sweeps_drafts_and_nothing_else(tmp_path):
    write_text(tmp_path / "result.json", "kept")
    (tmp_path / ".result.json.draft-0123456789ab").write_text("half")
    (tmp_path / ".hidden").write_text("kept")
    with lock_run(tmp_path):
        assert sorted(p.name for p in tmp_path.iterdir()) == [".hidden", ".lock", "result.json"]


def raise_interrupt(number, frame):
    raise KeyboardInterrupt


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_held_until_the_moment_comes(number):
    before = signal.signal(number, raise_interrupt)
    try:
        with Interrupt() as interrupt:
            interrupt.strike()
            signal.raise_signal(number)
            assert interrupt.held
            with pytest.raises(KeyboardInterrupt):
                interrupt.strike()
        assert signal.getsignal(number) is raise_interrupt
    finally:
        signal.signal(number, before)


def test_the_second_one_strikes_at_once():
    with Interrupt():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_signals_that_raise_nothing_are_left_alone(handler):
    before = signal.signal(signal.SIGTERM, handler)
    try:
        with Interrupt():
            assert signal.getsignal(signal.SIGTERM) is handler
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)


def test_handlers_come_back_after_an_error():
    with pytest.raises(ValueError, match="oh"), Interrupt():
        raise ValueError("oh")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_hold_nothing():
    seen = []

    def work():
        with Interrupt():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


STEPS = """
import resource, sys
from contextlib import nullcontext
import torch
from mphil.training.process import kept_memory

def step():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    [torch.ones(1_000_000) for _ in range(15)] + [torch.ones(12_000_000)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])

with kept_memory() if sys.argv[1] == "kept" else nullcontext():
    for _ in range(3):
        step()
    at_rest = resident()
    cleared = sum(step() for _ in range(3))
print(cleared, at_rest, resident())
"""

glibc_only = pytest.mark.skipif(
    platform.system() != "Linux" or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library is not glibc"
)


def pages(how: str) -> tuple[int, int, int]:
    """Pages cleared in three steps, those held before them, and those held at the end."""
    done = subprocess.run([sys.executable, "-c", STEPS, how], capture_output=True, text=True, check=True)
    cleared, at_rest, at_end = map(int, done.stdout.split())
    return cleared, at_rest, at_end


@glibc_only
def test_steps_find_the_memory_of_the_one_before_and_the_end_gives_it_back() -> None:
    cleared_without, _, _ = pages("not kept")
    step = (15 * 1_000_000 + 12_000_000) * 4 // 4096
    assert cleared_without > step
    # A system that reclaims idle pages by itself adds to what is cleared, now and then.
    tries = (pages("kept") for _ in range(3))
    assert any(cleared < step / 10 and at_rest - at_end > step / 2 for cleared, at_rest, at_end in tries)


def test_other_systems_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Windows")
    monkeypatch.setattr(ctypes, "CDLL", None)
    with kept_memory():
        pass
