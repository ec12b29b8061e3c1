"""The fragments of the molecules in a batch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mphil.chem.substructures import brics_bonds
from mphil.errors import DataError
from mphil.graphs.store import Batch


def cut_edges(batch: Batch) -> Tensor:
    """(E,) True for edges, in both directions, that are BRICS bonds; a molecule that is not its graph has none.

    Raises:
        DataError: the batch has no SMILES.
    """
    if "smiles" not in batch:
        raise DataError("fragments are cut from molecules, and this batch has no SMILES; use data made from SMILES")
    sizes, starts = batch.ptr.diff().tolist(), batch.ptr.tolist()
    cuts = [np.zeros((0, 2), np.int64)]
    for text, size, start in zip(batch.smiles, sizes, starts, strict=False):
        n_atoms, bonds = brics_bonds(text)
        if n_atoms == size:
            cuts.append(bonds.astype(np.int64) + start)
    pairs = torch.from_numpy(np.concatenate(cuts)).to(batch.edge_index.device)
    n_nodes = starts[-1]
    keys = pairs[:, 0] * n_nodes + pairs[:, 1]
    source, target = batch.edge_index
    return torch.isin(source * n_nodes + target, keys) | torch.isin(target * n_nodes + source, keys)


def fragments(batch: Batch, cut: Tensor) -> tuple[Tensor, Tensor]:
    """What hangs together without the cut edges, numbered graph by graph.

    Args:
        batch: the graphs.
        cut: (E,) edges to leave out.

    Returns:
        (N,) the fragment of each node, and (F,) the graph of each fragment.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n_nodes = int(batch.ptr[-1])
    source, target = batch.edge_index[:, ~cut].cpu().numpy()
    links = coo_array((np.ones(len(source), bool), (source, target)), shape=(n_nodes, n_nodes))
    _, labels = connected_components(links, directed=False)
    _, first, fragment = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))
    device = batch.ptr.device
    return torch.from_numpy(order[fragment]).to(device), batch.batch[torch.from_numpy(np.sort(first)).to(device)]
