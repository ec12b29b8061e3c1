"""Does the exported model say what the original says?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mphil.graphs.features import Features
from mphil.graphs.loader import Loader
from mphil.graphs.store import GraphStore, pointer
from mphil.model.export.formats import Ask
from mphil.model.export.model import TensorModel
from mphil.model.predictor import Predictor

MOLECULES = 64
"""Training molecules that original and export are both asked about."""

LONE = ("C", "O", "[Na+].[Cl-]")
"""Molecules without a bond, which go into a batch of their own."""

BATCHES = (1, 2, 7, MOLECULES)
"""Graphs at a time."""


@dataclass(frozen=True)
class Sample:
    """Graphs to compare on.

    Attributes:
        stores: the graphs; those of the second have no edges.
        what: they are, in words.
    """

    stores: tuple[GraphStore, GraphStore]
    what: str


def sample(predictor: Predictor) -> Sample:
    """Molecules the model was trained on, evenly spread; random graphs for a model that takes graphs."""
    references = predictor.bundle.references
    if predictor.takes_molecules and references.smiles is not None:
        places = np.unique(np.linspace(0, len(references) - 1, MOLECULES).astype(np.int64)).tolist()
        stores = [predictor.read(smiles).store for smiles in ([references.smiles[i] for i in places], LONE)]
        return Sample((stores[0], stores[1]), f"{len(places)} training molecules, and {len(LONE)} without bonds")
    encoder = predictor.bundle.config.encoder
    nodes = np.random.default_rng(0).integers(1, 20, MOLECULES)
    stores = [random_graphs(encoder.node, encoder.edge, *sizes) for sizes in ((nodes, 2), (nodes[:3], 0))]
    return Sample((stores[0], stores[1]), f"{MOLECULES} random graphs, and 3 without edges")


def random_graphs(node: Features, edge: Features, nodes: NDArray[np.int64], density: int) -> GraphStore:
    """Graphs with these numbers of nodes, so many edges a node, and random features of the given kinds."""
    draw = torch.Generator().manual_seed(0)
    counts = torch.from_numpy(nodes) * density
    ends = [torch.randint(int(n), (2, int(n) * density), generator=draw) for n in nodes]
    total = int(counts.sum())
    return GraphStore(
        x=_features(node, int(nodes.sum()), draw),
        edge_index=torch.cat(ends, dim=1).int(),
        edge_attr=None if edge.kind == "none" else _features(edge, total, draw),
        node_ptr=pointer(torch.from_numpy(nodes)),
        edge_ptr=pointer(counts),
        y=torch.full((len(nodes), 1), float("nan")),
        env=torch.full((len(nodes),), -1),
        index=torch.arange(len(nodes)),
        node_features=node,
        edge_features=edge,
    )


def largest_differences(
    predictor: Predictor, model: TensorModel, ask: Ask, stores: Sequence[GraphStore]
) -> dict[str, float]:
    """Output to its largest difference from the original, relative where values exceed 1, over all batch sizes."""
    worst = dict.fromkeys(model.outputs, 0.0)
    for store in stores:
        original = predictor.network(store)
        for size in BATCHES:
            said = [ask(model.arguments(batch)) for batch in Loader(store, torch.arange(len(store)), size)]
            for name, *pieces in zip(model.outputs, *said, strict=True):
                wanted, found = getattr(original, name), np.concatenate(pieces)
                difference = np.abs(found - wanted) / np.maximum(1, np.abs(wanted))
                # NaN must not hide behind a comparison.
                worst[name] = max(worst[name], float(np.nan_to_num(difference, nan=np.inf).max(initial=0.0)))
    return worst


def _features(features: Features, rows: int, draw: torch.Generator) -> torch.Tensor:
    if features.kind == "constant":
        return torch.ones(rows, 1)
    if features.kind == "float":
        return torch.randn(rows, features.width, generator=draw)
    return torch.stack([torch.randint(size, (rows,), generator=draw) for size in features.sizes], dim=1)
