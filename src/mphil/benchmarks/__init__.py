"""Benchmarks: one file per family, each registers its own."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mphil.benchmarks.catalogue import BENCHMARKS, Benchmark, BenchmarkEntry, benchmark, register

__all__ = ["BENCHMARKS", "Benchmark", "BenchmarkEntry", "benchmark", "register"]


def __getattr__(name: str) -> Any:
    """Imported when it is asked for: the list of publishers' files needs no tensors."""
    if name in __all__:
        return getattr(importlib.import_module("mphil.benchmarks.catalogue"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
