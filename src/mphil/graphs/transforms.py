"""Random changes of training graphs."""

from __future__ import annotations

import copy

import torch

from mphil.graphs.store import Batch


def drop_edges(batch: Batch, largest: float, generator: torch.Generator, untouched: float = 0.5) -> Batch:
    """Remove random edges; both directions of an edge stay or go together.

    Each graph keeps all of its edges with probability `untouched`. Otherwise it draws a rate from [0, largest], and
    each of its edges, self-loops too, goes with this probability. Nodes stay.

    Args:
        batch: the graphs, which are left as they are.
        largest: largest rate, in [0, 1).
        generator: of all draws, on the CPU.
        untouched: share of graphs that are not touched.

    Returns:
        A batch of the graphs with fewer edges; everything but what belongs to edges is shared with `batch`.
    """
    device, graphs = batch.edge_index.device, batch.ptr.numel() - 1
    source, target = batch.edge_index
    pairs = torch.minimum(source, target) * len(batch.batch) + torch.maximum(source, target)
    unique, owner = torch.unique(pairs, return_inverse=True)
    touched = torch.rand(graphs, generator=generator) >= untouched
    rates = (touched * largest * torch.rand(graphs, generator=generator)).to(device)
    draws = torch.rand(len(unique), generator=generator).to(device)
    kept = draws[owner] >= rates[batch.batch[source]]
    dropped = copy.copy(batch)
    for name, value in batch.to_dict().items():
        if name.startswith("edge_") and value is not None:
            dropped[name] = value[:, kept] if name == "edge_index" else value[kept]
    return dropped
