"""A page with sample graphs of a benchmark, a look at the data before any training, and where their nodes are drawn.

Nodes are placed by stress majorisation: the same picture every time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mphil.chem.draw import molecule_svg
from mphil.errors import DataError
from mphil.pages.elements import Markup, element, heading, label, number, paint, picture, stroke, tooltip
from mphil.pages.template import Grid, page

if TYPE_CHECKING:
    from mphil.benchmarks.catalogue import Benchmark

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

ROUNDS = 60


def layout(n_nodes: int, edges: Integers) -> Floats:
    """Positions in which drawn distance follows path length; an edge is about 1 long.

    Components are laid out one by one and set side by side, the largest first.

    Args:
        n_nodes: number of nodes.
        edges: (n_edges, 2) pairs of nodes; direction, repetition and loops do not matter.

    Returns:
        (n_nodes, 2) positions.
    """
    positions = np.zeros((n_nodes, 2))
    if not n_nodes:
        return positions
    distance = path_lengths(n_nodes, edges)
    boxes = [(part, _upright(_majorise(distance[np.ix_(part, part)]))) for part in _components(distance)]
    shelf = max(3.0, 1.2 * np.sqrt(sum(np.prod(np.ptp(place, axis=0) + 1) for _, place in boxes)))
    x = y = height = 0.0
    for members, place in boxes:
        extent = np.ptp(place, axis=0)
        if x > 0 and x + extent[0] > shelf:
            x, y, height = 0.0, y + height + 1.0, 0.0
        positions[members] = place - place.min(0) + (x, y)
        x, height = x + extent[0] + 1.0, max(height, extent[1])
    return positions


def path_lengths(n_nodes: int, edges: Integers) -> Floats:
    """(n_nodes, n_nodes) edges on the shortest path between two nodes, infinite where there is none."""
    neighbours: list[set[int]] = [set() for _ in range(n_nodes)]
    for a, b in edges.tolist():
        neighbours[a].add(b)
        neighbours[b].add(a)
    distance = np.full((n_nodes, n_nodes), np.inf)
    for source in range(n_nodes):
        reached, frontier, step = {source: 0}, [source], 0
        while frontier:
            step += 1
            frontier = list({w for v in frontier for w in neighbours[v]} - reached.keys())
            reached.update(dict.fromkeys(frontier, step))
        distance[source, list(reached)] = list(reached.values())
    return distance


def stress(positions: Floats, distance: Floats) -> float:
    """Sum over pairs of (drawn distance / path length - 1) squared."""
    upper = np.triu_indices(len(distance), 1)
    drawn = np.linalg.norm(positions[upper[0]] - positions[upper[1]], axis=1)
    return float(((drawn / distance[upper] - 1) ** 2).sum())


def _components(distance: Floats) -> list[Integers]:
    first = np.isfinite(distance).argmax(0)
    parts = [np.flatnonzero(first == root) for root in np.unique(first)]
    return sorted(parts, key=lambda members: (-len(members), int(members[0])))


def _majorise(distance: Floats) -> Floats:
    """Lower the stress from different beginnings and keep the best end: each alone can end up folded."""
    if len(distance) < 3:
        return np.stack([np.arange(len(distance), dtype=np.float64), np.zeros(len(distance))], axis=1)
    inverse = _inverse(distance)
    starts = (_circle(distance), _flattened(distance, inverse))
    ends = [_descend(start, distance, inverse) for start in starts]
    return min(ends, key=lambda positions: round(stress(positions, distance), 6))


def _inverse(distance: Floats) -> Floats:
    """Inverse of the Laplacian of the weights 1 / distance squared, made regular by a constant; that moves nothing."""
    weight = np.zeros_like(distance)
    np.divide(1.0, distance**2, out=weight, where=distance > 0)
    return np.linalg.inv(np.diag(weight.sum(0)) - weight + 1.0 / len(distance)).astype(np.float64)


def _descend(positions: Floats, distance: Floats, inverse: Floats) -> Floats:
    for _ in range(ROUNDS):
        positions = _step(positions, distance, inverse)
    return positions


def _step(positions: Floats, distance: Floats, inverse: Floats) -> Floats:
    """SMACOF: go to the minimum of a quadratic bound that touches the stress where we stand, so it never rises."""
    gaps = (np.subtract.outer(axis, axis) for axis in positions.T)
    product = distance * np.sqrt(sum(gap * gap for gap in gaps))
    ratio = np.zeros_like(distance)
    np.divide(1.0, product, out=ratio, where=product > 1e-9)
    moved: Floats = inverse @ (ratio.sum(0)[:, None] * positions - ratio @ positions)
    return moved


def _flattened(distance: Floats, inverse: Floats) -> Floats:
    """Lay the graph out in space, where it can pass itself, and press it flat little by little."""
    positions = _scaling(distance)
    for _ in range(ROUNDS):
        positions = _step(positions, distance, inverse) * (1.0, 1.0, 0.93)
    return positions[:, :2]


def _circle(distance: Floats) -> Floats:
    """Nodes on a circle in depth-first order, which already keeps the branches of a tree apart."""
    order, seen, waiting = [], set(), [int(distance.max(0).argmax())]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            order.append(node)
            waiting.extend(int(v) for v in np.flatnonzero(distance[node] == 1)[::-1] if int(v) not in seen)
    angle = np.empty(len(order))
    angle[order] = 2 * np.pi * np.arange(len(order)) / len(order)
    circle: Floats = np.stack([np.cos(angle), np.sin(angle)], axis=1) * distance.max() / 2
    return circle


def _scaling(distance: Floats) -> Floats:
    """(n, 3) classical scaling, by subspace iteration, with a nudge that parts nodes it puts into one place."""
    turn = 2.399963 * np.arange(len(distance))  # the golden angle: no two nodes begin alike
    start: Floats = np.stack([np.cos(turn), np.sin(turn), np.cos(2 * turn)], axis=1)
    square = -0.5 * distance**2
    gram = square - square.mean(0) - square.mean(1)[:, None] + square.mean()
    axes = start
    for _ in range(ROUNDS):
        axes = np.linalg.qr(gram @ axes)[0]
    stretch = np.sqrt(np.linalg.norm(gram @ axes, axis=0))
    flat: Floats = axes * stretch + 0.05 * start
    return flat


def _upright(positions: Floats) -> Floats:
    """Turn the longest side to the horizontal and fix the reflections."""
    centred = positions - positions.mean(0)
    axes = np.linalg.eigh(centred.T @ centred)[1][:, ::-1]
    turned: Floats = centred @ axes
    extreme = turned[np.abs(turned).argmax(0), [0, 1]]
    return turned * np.where(extreme < 0, -1.0, 1.0)


CAPTION = 30
TITLE = 26


@dataclass(frozen=True, eq=False)
class GraphSample:
    """A graph to be drawn in a gallery.

    Attributes:
        n_nodes: number of nodes.
        edges: (n_edges, 2) pairs of nodes.
        highlight: nodes that decide the label.
        caption: line below the drawing.
    """

    n_nodes: int
    edges: ArrayLike
    highlight: Iterable[int] = ()
    caption: str = ""


def draw_graph(
    n_nodes: int,
    edges: ArrayLike,
    *,
    highlight: Iterable[int] = (),
    labels: Mapping[int, str] | None = None,
    size: int = 220,
    said: str = "",
) -> Markup:
    """One graph as SVG text; the drawing is a function of the graph alone.

    Args:
        n_nodes: number of nodes.
        edges: (n_edges, 2) pairs of nodes; both directions or one, loops are left out.
        highlight: nodes drawn in colour, together with the edges between them.
        labels: node to the text of its tooltip; its number when absent.
        size: width and height in pixels.
        said: what a screen reader says; counts of nodes and edges when empty.

    Example:
        >>> draw_graph(3, [(0, 1), (1, 2)], highlight=[1]).startswith("<svg")
        True
    """
    pairs = _pairs(n_nodes, edges)
    chosen = _nodes(n_nodes, highlight)
    drawing = _drawing(n_nodes, pairs, chosen, labels or {}, size)
    return picture(*drawing, size=(size, size), said=said or _counts(n_nodes, pairs, chosen), kind="graph")


def gallery(samples: Sequence[GraphSample], *, title: str = "", columns: int = 4, size: int = 190) -> Markup:
    """Graphs in a grid with their captions, as one SVG that stands by itself.

    Args:
        samples: what to draw, row by row.
        title: line above the grid.
        columns: drawings in a row.
        size: width and height of one drawing in pixels.
    """
    if columns < 1:
        raise DataError(f"a gallery needs at least one column, not {columns}")
    top = TITLE if title else 0
    parts = [heading(title)] if title else []
    for i, sample in enumerate(samples):
        x, y = (i % columns) * size, top + (i // columns) * (size + CAPTION)
        pairs, chosen = _pairs(sample.n_nodes, sample.edges), _nodes(sample.n_nodes, sample.highlight)
        caption = label(size / 2, size + 14, sample.caption, anchor="middle")
        drawing = _drawing(sample.n_nodes, pairs, chosen, {}, size)
        parts.append(element("g", *drawing, caption, transform=f"translate({x} {y})"))
    rows = -(-len(samples) // columns)
    width, height = size * min(columns, max(len(samples), 1)), top + rows * (size + CAPTION)
    return picture(*parts, size=(width, height), said=title or f"{len(samples)} graphs", kind="graph")


def _drawing(n_nodes: int, pairs: Integers, chosen: set[int], labels: Mapping[int, str], size: int) -> list[Markup]:
    place, unit = _fit(layout(n_nodes, pairs), size)
    radius = float(np.clip(0.24 * unit, 0.8, 7.0))
    plain = [(a, b) for a, b in pairs.tolist() if not {a, b} <= chosen]
    strong = [(a, b) for a, b in pairs.tolist() if {a, b} <= chosen]
    return [
        stroke(_segments(plain, place), "slate", max(0.8, radius / 4)),
        stroke(_segments(strong, place), "vermillion", max(1.4, radius / 2)),
        _dots([v for v in range(n_nodes) if v not in chosen], place, radius, "slate", labels),
        _dots(sorted(chosen), place, radius * 1.25, "vermillion", labels),
    ]


def _dots(nodes: Sequence[int], place: Floats, radius: float, colour: str, labels: Mapping[int, str]) -> Markup:
    dots = [
        element("circle", tooltip(labels.get(v, f"node {v}")), cx=place[v, 0], cy=place[v, 1], r=radius) for v in nodes
    ]
    return element("g", *dots, stroke_width=radius / 5, **paint(fill=colour, stroke="paper"))


def _segments(pairs: Iterable[tuple[int, int]], place: Floats) -> str:
    point = [f"{number(x, 1)} {number(y, 1)}" for x, y in place]
    return "".join(f"M{point[a]}L{point[b]}" for a, b in pairs)


def _fit(positions: Floats, size: int) -> tuple[Floats, float]:
    """Scale to the square, centred, and the drawn length of an edge; a tiny graph is not blown up."""
    if not len(positions):
        return positions, 1.0
    low, extent = positions.min(0), np.ptp(positions, axis=0)
    unit = float(min(0.86 * size / max(extent.max(), 1e-9), size / 6))
    return (positions - low - extent / 2) * unit + size / 2, unit


def _pairs(n_nodes: int, edges: ArrayLike) -> Integers:
    """(n_edges, 2) distinct pairs a < b."""
    array: Integers = np.asarray(edges, dtype=np.int64)
    if not array.size:
        return np.empty((0, 2), dtype=np.int64)
    if array.ndim != 2 or array.shape[1] != 2:
        raise DataError(f"edges must be pairs of shape (n_edges, 2), not {array.shape}; transpose an edge_index")
    if strange := [v for v in (array.min(), array.max()) if not 0 <= v < n_nodes]:
        raise DataError(f"an edge names node {strange[0]} of {n_nodes} nodes")
    unique: Integers = np.unique(np.sort(array[array[:, 0] != array[:, 1]], axis=1), axis=0)
    return unique


def _nodes(n_nodes: int, nodes: Iterable[int]) -> set[int]:
    chosen = {int(v) for v in nodes}
    if strange := [v for v in chosen if not 0 <= v < n_nodes]:
        raise DataError(f"highlight names node {strange[0]} of {n_nodes} nodes")
    return chosen


def _counts(n_nodes: int, pairs: Integers, chosen: set[int]) -> str:
    return f"graph of {n_nodes} nodes and {len(pairs)} edges" + (f", {len(chosen)} set off" if chosen else "")


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
