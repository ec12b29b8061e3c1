"""A benchmark with fewer graphs: the same ones in every run, and told in the provenance of its split."""

from __future__ import annotations

from dataclasses import replace

import torch

from mphil.benchmarks.base import Benchmark


def thin(data: Benchmark, fraction: float, eval_fraction: float) -> Benchmark:
    """The benchmark with a share of its training graphs and of its other graphs: the same ones in every run."""
    if fraction < 1:
        data = data.subset(fraction)
    if eval_fraction < 1:
        data = _thin_evaluation(data, eval_fraction)
    return data


def _thin_evaluation(data: Benchmark, fraction: float) -> Benchmark:
    parts = {}
    for number, (part, graphs) in enumerate(data.split):
        if part != "train" and len(graphs):
            order = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(number))
            parts[part] = graphs[order[: max(1, round(fraction * len(graphs)))].sort().values]
    provenance = {**data.split.provenance, "eval_fraction": fraction}
    return replace(data, split=replace(data.split, **parts, provenance=provenance))
