"""Where to put the nodes of a small graph on paper: stress majorisation, the same picture every time."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

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
