"""What a benchmark is, and the table of all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from mphil.config import check_arguments, keyword_arguments
from mphil.graphs.split import Part, Split
from mphil.graphs.store import GraphStore
from mphil.registry import Registry
from mphil.task import Task


@dataclass(frozen=True, eq=False)
class Benchmark:
    """Graphs, labels and a split that makes the test part different from the training part.

    Attributes:
        task: what is asked of each graph.
        store: the graphs.
        split: the five parts.
        encoder: recommended encoder settings (layers, width, ...), overridden by the user's.
        classes: names of the classes, when they have any.
        name: name in the registry, set by `benchmark()`.
        args: the arguments it was built with, set by `benchmark()`.
    """

    task: Task
    store: GraphStore
    split: Split
    encoder: Mapping[str, Any] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    name: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)

    def statistics(self) -> dict[str, Any]:
        """Counts of every part: graphs, classes, environments, mean nodes and (directed) edges."""
        parts: dict[str, dict[str, Any]] = {}
        for part, graphs in self.split:
            if not len(graphs):
                parts[part] = {"graphs": 0}
                continue
            y = self.store.y[graphs]
            env, count = torch.unique(self.store.env[graphs], return_counts=True)
            nodes, edges = self.store.n_nodes[graphs].double(), self.store.n_edges[graphs].double()
            parts[part] = {
                "graphs": len(graphs),
                "labels": [label_statistics(column[~column.isnan()], self.task) for column in y.T],
                "missing_labels": int(y.isnan().sum()),
                "environments": {str(int(e)): int(n) for e, n in zip(env, count, strict=True) if e >= 0},
                "mean_nodes": float(nodes.mean()),
                "nodes_range": [int(nodes.min()), int(nodes.max())],
                "mean_edges": float(edges.mean()),
                "edges_range": [int(edges.min()), int(edges.max())],
            }
        return {
            "name": self.name,
            "args": dict(self.args),
            "task": self.task.kind,
            "outputs": self.task.n_outputs,
            "metric": self.task.metric,
            "classes": list(self.classes),
            "graphs": len(self.store),
            "parts": parts,
            "provenance": dict(self.split.provenance),
            "split_digest": self.split.digest(),
        }

    def examples(self, part: Part, per_class: int) -> list[int]:
        """The first graphs of each class in a part, class after class (by the first task).

        Of a regression, so many with the lowest and so many with the highest labels.
        """
        graphs = self.split[part]
        labels = self.store.y[graphs, 0]
        if self.task.kind == "regression":
            order = graphs[labels.nan_to_num(nan=torch.inf).argsort(stable=True)][: int((~labels.isnan()).sum())]
            return list(dict.fromkeys([*order[:per_class].tolist(), *order[-per_class:].tolist()]))
        rows = [torch.nonzero(labels == c).flatten()[:per_class] for c in range(self.task.n_classes)]
        return graphs[torch.cat(rows)].tolist()

    def subset(self, fraction: float, seed: int = 0) -> Benchmark:
        """The same benchmark with a random fraction of its training graphs; the other parts stay whole."""
        keep = max(1, round(fraction * len(self.split.train)))
        order = torch.randperm(len(self.split.train), generator=torch.Generator().manual_seed(seed))
        train = self.split.train[order[:keep].sort().values]
        provenance = {**self.split.provenance, "train_fraction": fraction, "train_fraction_seed": seed}
        return replace(self, split=replace(self.split, train=train, provenance=provenance))


def label_statistics(labels: Tensor, task: Task) -> dict[str, float]:
    """Graphs of each class; of a regression, how many labels there are, with their mean and range."""
    if task.kind != "regression":
        return {str(int(c)): int((labels == c).sum()) for c in torch.unique(labels)}
    if not len(labels):
        return {"count": 0}
    found = {"mean": labels.double().mean(), "lowest": labels.min(), "highest": labels.max()}
    return {"count": len(labels), **{name: float(value) for name, value in found.items()}}


@dataclass(frozen=True)
class BenchmarkEntry:
    """A row of the registry: how to build a benchmark, and what is known of it beforehand.

    The keyword-only arguments of `build` are the benchmark's options; `needs` names the data files it is built from by
    default, as `mphil.benchmarks.sources.SOURCES` calls them.
    """

    name: str
    build: Callable[..., Benchmark]
    summary: str
    source: str
    differs: str = ""
    needs: tuple[str, ...] = ()

    @property
    def options(self) -> dict[str, Any]:
        """Option names with their defaults."""
        return keyword_arguments(self.build)


BENCHMARKS: Registry[BenchmarkEntry] = Registry("benchmark", "mphil.benchmarks", group="mphil.benchmarks")


def register(
    name: str,
    build: Callable[..., Benchmark],
    *,
    summary: str,
    source: str,
    differs: str = "",
    needs: tuple[str, ...] = (),
) -> None:
    """Add a benchmark.

    Args:
        name: what people type.
        build: function with keyword-only arguments that makes the benchmark.
        summary: one sentence.
        source: where the data come from, with the licence.
        differs: what differs from the original, empty when nothing does.
        needs: names of the data files it is built from by default.
    """
    entry = BenchmarkEntry(name, build, summary, source, differs, needs)
    BENCHMARKS.add(name, entry, getattr(build, "__module__", ""))


def benchmark(name: str, **args: Any) -> Benchmark:
    """Build a benchmark by name.

    Example:
        >>> import mphil
        >>> mphil.benchmark("good-motif-basis", graphs=300).split.sizes["train"]
        180
    """
    entry = BENCHMARKS[name]
    args = check_arguments(entry.build, args, f"benchmark {name}")
    return replace(entry.build(**args), name=name, args=args)
