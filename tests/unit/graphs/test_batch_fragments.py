"""Fragments of a batch: found by a walk over the edges that are left."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.chem.substructures import brics_bonds
from mphil.errors import DataError
from mphil.graphs.batch_fragments import cut_edges, fragments
from mphil.testing.trial import MOLECULES, labelled_molecules
from tests.graphs import TASKS, random_store, whole

ORDER = torch.tensor([5, 0, 4, 2, 9, 0])


def molecules(order=ORDER):
    return labelled_molecules(TASKS["binary"]).batch(order)


def test_cut_edges_are_the_bonds_in_both_directions():
    batch = molecules()
    expected = set()
    for place, number in enumerate(ORDER.tolist()):
        start = int(batch.ptr[place])
        for u, v in brics_bonds(MOLECULES[number])[1].tolist():
            expected |= {(start + u, start + v), (start + v, start + u)}
    found = {tuple(edge) for edge in batch.edge_index[:, cut_edges(batch)].T.tolist()}
    assert found == expected
    assert len(found) > 0


def test_a_graph_that_is_not_its_molecule_is_left_whole():
    batch = molecules()
    cut = cut_edges(batch)
    owner = batch.batch[batch.edge_index[0]]
    batch.smiles = ["CCOC(C)=O", *batch.smiles[1:]]
    assert cut[owner == 0].any()
    assert torch.equal(cut_edges(batch), cut & (owner != 0))


def test_without_smiles_there_are_no_fragments():
    with pytest.raises(DataError, match="no SMILES"):
        cut_edges(whole(random_store()))


def walk(batch, cut):
    """The fragment of each node: the smallest node it can reach."""
    neighbours = {v: {v} for v in range(len(batch.batch))}
    for e, (u, v) in enumerate(batch.edge_index.T.tolist()):
        if not cut[e]:
            neighbours[u].add(v)
            neighbours[v].add(u)
    first = []
    for v in neighbours:
        reached, frontier = {v}, [v]
        while frontier:
            new = neighbours[frontier.pop()] - reached
            reached |= new
            frontier += new
        first.append(min(reached))
    return first


@settings(max_examples=15, derandomize=True)
@given(st.integers(1, 9), st.integers(0, 99), st.sampled_from([0.0, 0.4, 1.0]))
def test_fragments_are_what_hangs_together(graphs, seed, share):
    batch = whole(random_store(graphs=graphs, seed=seed))
    cut = torch.rand(batch.edge_index.shape[1], generator=torch.Generator().manual_seed(seed)) < share
    fragment, graph = fragments(batch, cut)
    first = walk(batch, cut)
    numbers = {v: number for number, v in enumerate(sorted(set(first)))}
    assert fragment.tolist() == [numbers[v] for v in first]
    assert graph.tolist() == [int(batch.batch[v]) for v in sorted(set(first))]


def test_parts_of_a_salt_are_fragments():
    batch = molecules(torch.tensor([9]))
    fragment, graph = fragments(batch, cut_edges(batch))
    assert fragment.tolist() == [0, 1, 1, 1, 1]
    assert graph.tolist() == [0, 0]
