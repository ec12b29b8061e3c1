"""Benchmarks: one file per family, each registers its own."""

from mphil.benchmarks.base import BENCHMARKS, Benchmark, BenchmarkEntry, benchmark, register

__all__ = ["BENCHMARKS", "Benchmark", "BenchmarkEntry", "benchmark", "register"]
