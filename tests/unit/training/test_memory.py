"""Memory kept between steps: counted in pages that the system has to clear."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys

import pytest

from mphil.training.memory import kept_memory

STEPS = """
import resource, sys
from contextlib import nullcontext
import torch
from mphil.training.memory import kept_memory

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
    cleared, at_rest, at_end = pages("kept")
    step = (15 * 1_000_000 + 12_000_000) * 4 // 4096
    assert cleared_without > step
    assert cleared < step / 10
    assert at_rest - at_end > step / 2


def test_other_systems_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Windows")
    monkeypatch.setattr(ctypes, "CDLL", None)
    with kept_memory():
        pass
