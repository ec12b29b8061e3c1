"""A page with sample graphs of a benchmark: a look at the data before any training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mphil.benchmarks.base import Benchmark
from mphil.chem.draw import molecule_svg
from mphil.pages.graphs import GraphSample, gallery
from mphil.pages.template import Grid, page

PER_CLASS = 2
MOST = 12


def sample_page(data: Benchmark, facts: Mapping[str, Any]) -> str:
    """HTML with the counts of every part and drawings of its first graphs of each class.

    Args:
        data: the benchmark.
        facts: what `Benchmark.statistics` says, with summary and source.
    """
    rows = [
        [
            part,
            f"{count['graphs']:,}",
            *(["-", "-"] if not count["graphs"] else [f"{count['mean_nodes']:.1f}", f"{count['mean_edges']:.1f}"]),
        ]
        for part, count in facts["parts"].items()
    ]
    counts = Grid("Graphs of every part", ["part", "graphs", "mean nodes", "mean directed edges"], rows)
    chosen = {part: data.examples(part, PER_CLASS)[:MOST] for part, graphs in data.split if len(graphs)}
    if data.store.smiles is None:
        drawn = {part: gallery([_sample(data, graph) for graph in own], columns=3) for part, own in chosen.items()}
        shown: dict[str, Any] = {"graphs": drawn, "molecules": {}}
    else:
        shown = {"graphs": {}, "molecules": {part: _molecules(data, own) for part, own in chosen.items()}}
    return page(
        "samples",
        data.name,
        name=data.name,
        about=[facts["summary"], facts["source"]],
        counts=counts,
        marked="node_truth" in data.store.extras,
        **shown,
    )


def _molecules(data: Benchmark, graphs: Sequence[int]) -> list[tuple[str, str, str]]:
    """SMILES, drawing and class of each graph."""
    smiles = data.store.smiles
    assert smiles is not None
    return [(smiles[i], molecule_svg(smiles[i], weights=_truth(data, i) or None), _class_name(data, i)) for i in graphs]


def _sample(data: Benchmark, graph: int) -> GraphSample:
    one = data.store[graph : graph + 1]
    marked = [node for node, weight in enumerate(_truth(data, graph)) if weight]
    return GraphSample(int(one.n_nodes[0]), one.edge_index.T.numpy(), marked, _class_name(data, graph))


def _truth(data: Benchmark, graph: int) -> Sequence[float]:
    marks = data.store[graph : graph + 1].extras.get("node_truth")
    return [] if marks is None else marks.float().tolist()


def _class_name(data: Benchmark, graph: int) -> str:
    if data.task.kind == "regression":
        return f"{float(data.store.y[graph, 0]):g}"
    label = int(data.store.y[graph, 0])
    return data.classes[label] if data.classes else f"class {label}"
