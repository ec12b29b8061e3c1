"""Groups of similar molecules: Butina's clusters of Morgan fingerprints."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from rdkit.DataStructs import BulkTanimotoSimilarity, CreateFromBinaryText, ExplicitBitVect

SIMILAR = 0.4
"""Tanimoto similarity from which on two molecules are neighbours."""

MOST = 5_000
"""Molecules that are compared with each other; of more, so many are clustered and the others join them."""


Nearest = Callable[
    [npt.NDArray[np.uint8], npt.NDArray[np.uint8]], tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]
]
"""Of packed bits (n, bytes) and references (m, bytes): the nearest reference of each row, and its similarity."""


def similar_groups(
    fingerprints: npt.NDArray[np.uint8], nearest: Nearest, *, similar: float = SIMILAR, most: int = MOST
) -> npt.NDArray[np.int64]:
    """Cluster molecules (Butina, 1999): the one with most neighbours and all of them are a cluster, and so on.

    Of equally many neighbours the molecule that comes first wins. Beyond `most` molecules, the first ones are clustered
    and each of the others joins the most similar centre, or is a cluster of its own when none is similar.

    Args:
        fingerprints: (n, bytes) packed bits.
        nearest: finds the most similar centre by Tanimoto similarity, the first of equals.
        similar: Tanimoto similarity of neighbours.
        most: molecules that are compared with each other.

    Returns:
        (n,) number of the centre of each molecule's cluster: the place of a molecule among the n.
    """
    centre = np.arange(len(fingerprints))
    first, others = fingerprints[:most], fingerprints[most:]
    centre[: len(first)] = _butina([CreateFromBinaryText(row.tobytes()) for row in first], similar)
    if len(others):
        places = np.unique(centre[:most])
        best, similarity = nearest(others, fingerprints[places])
        centre[most:] = np.where(similarity >= similar, places[best], centre[most:])
    return centre


def _butina(vectors: Sequence[ExplicitBitVect], similar: float) -> npt.NDArray[np.int64]:
    neighbours: list[list[npt.NDArray[np.int64]]] = [[] for _ in vectors]
    for place, vector in enumerate(vectors):
        later = place + 1 + np.flatnonzero(np.array(BulkTanimotoSimilarity(vector, vectors[place + 1 :])) >= similar)
        neighbours[place].append(later)
        for other in later.tolist():
            neighbours[other].append(np.array([place]))
    lists = [np.concatenate(found) if found else np.empty(0, np.int64) for found in neighbours]
    centre = np.full(len(vectors), -1)
    for place in sorted(range(len(vectors)), key=lambda place: -len(lists[place])):
        if centre[place] < 0:
            members = lists[place][centre[lists[place]] < 0]
            centre[members] = place
            centre[place] = place
    return centre
