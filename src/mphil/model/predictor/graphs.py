"""Graphs of every form that people have them in, as a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from torch import Tensor

from mphil.config import EncoderConfig
from mphil.graphs.features import Features
from mphil.graphs.store import GraphStore

if TYPE_CHECKING:
    from torch_geometric.data import Data


def as_graphs(given: GraphStore | Sequence[Data] | Sequence[str], encoder: EncoderConfig) -> GraphStore | None:
    """A store of the graphs that were given: a store, or PyG graphs; None if they are none, but SMILES.

    Args:
        given: what somebody wants to be answered about.
        encoder: what the model was trained on; plain graphs do not say by which scheme their features were made.
    """
    if isinstance(given, GraphStore):
        return given
    if isinstance(given, str) or not len(given) or isinstance(given[0], str) or not hasattr(given[0], "edge_index"):
        return None
    store = GraphStore.from_pyg(cast("Sequence[Data]", given))
    return replace(
        store,
        node_features=_understood(store.node_features, store.x, encoder.node),
        edge_features=_understood(store.edge_features, store.edge_attr, encoder.edge),
    )


def _understood(found: Features, values: Tensor | None, wanted: Features) -> Features:
    """What a tensor carries, in the words of the training where that is possible: a column of ones may say nothing."""
    if found.kind == wanted.kind:
        return replace(found, schema=wanted.schema)
    ones = values is not None and wanted.kind == "constant" and bool((values == 1).all())
    return wanted if ones and found.width == wanted.width else found
