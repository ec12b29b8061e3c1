"""A page with sample graphs of a benchmark: a look at the data before any training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mphil.benchmarks.base import Benchmark
from mphil.chem.draw import molecule_svg
from mphil.graphs.split import Part
from mphil.pages.document import RowGroup, image, page, paragraph, section, table
from mphil.pages.graphs import GraphSample, gallery
from mphil.pages.text import escape

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
    counts = table("Graphs of every part", ["part", "graphs", "mean nodes", "mean directed edges"], [RowGroup(rows)])
    drawings = [section(part, part, draw_part(data, part)) for part, graphs in data.split if len(graphs)]
    intro = f"<h1>{escape(data.name)}</h1>" + paragraph(facts["summary"]) + paragraph(facts["source"])
    truth = "Coloured nodes decide the label." if "node_truth" in data.store.extras else ""
    return page(data.name, f"<main>{intro}{counts}{paragraph(truth)}{''.join(drawings)}</main>")


def draw_part(data: Benchmark, part: Part) -> str:
    """Drawings of the first graphs of each class, as HTML."""
    chosen = data.examples(part, PER_CLASS)[:MOST]
    if data.store.smiles is None:
        return gallery([_sample(data, graph) for graph in chosen], columns=3)
    figures = []
    for graph in chosen:
        smiles = data.store.smiles[graph]
        drawing = molecule_svg(smiles, weights=_truth(data, graph) or None)
        caption = escape(_class_name(data, graph))
        figures.append(f"<figure>{image(drawing, smiles)}<figcaption>{caption}</figcaption></figure>")
    return f'<div class="gallery">{"".join(figures)}</div>'


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
