"""Random edges go, and nothing else changes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from mphil.graphs.transforms import drop_edges
from tests.graphs import random_store


def draws(seed=0):
    return torch.Generator().manual_seed(seed)


def as_set(batch):
    return set(map(tuple, batch.edge_index.T.tolist()))


def whole(graphs=200, nodes=6):
    """Complete graphs with self-loops; the two directions of an edge lie far apart."""
    source, target = torch.meshgrid(torch.arange(nodes), torch.arange(nodes), indexing="ij")
    one = torch.stack([source.flatten(), target.flatten()])
    edge_index = torch.cat([one + nodes * g for g in range(graphs)], dim=1)
    return Data(
        x=torch.ones(graphs * nodes, 1),
        edge_index=edge_index,
        edge_attr=edge_index.T.float(),
        batch=torch.arange(graphs).repeat_interleave(nodes),
        ptr=torch.arange(graphs + 1) * nodes,
        y=torch.zeros(graphs, 1),
    )


@settings(max_examples=40)
@given(
    st.integers(0, 10**6),
    st.sampled_from(["none", "float", "categorical"]),
    st.floats(0, 1, exclude_max=True),
    st.floats(0, 1),
)
def test_a_symmetric_subset_of_the_edges(seed, edges, largest, untouched):
    batch = random_store(edges=edges, seed=seed % 100).batch(torch.arange(12))
    before = batch.clone()
    found = drop_edges(batch, largest, draws(seed), untouched)
    assert as_set(found) <= as_set(batch)
    assert as_set(found) == {(v, u) for u, v in as_set(found)}
    for name, value in before.to_dict().items():
        if torch.is_tensor(value):
            assert torch.equal(value, batch[name]), "the input is left alone"
            if not name.startswith("edge_"):
                assert found[name] is batch[name]
    if edges != "none":
        known = dict(zip(map(tuple, batch.edge_index.T.tolist()), batch.edge_attr.tolist(), strict=True))
        kept = zip(map(tuple, found.edge_index.T.tolist()), found.edge_attr.tolist(), strict=True)
        assert all(known[pair] == attr for pair, attr in kept)


def test_half_of_the_graphs_are_untouched_and_the_rest_lose_half_of_the_largest_rate():
    batch = whole(graphs=2000)
    found = drop_edges(batch, 0.8, draws())
    kept = torch.bincount(found.batch[found.edge_index[0]], minlength=2000)
    # Of those touched, a few draw so small a rate that nothing goes: for 21 pairs, 1 / 22 / 0.8 of them or so.
    assert (kept == 36).float().mean() == pytest.approx(0.5 + 0.5 / 22 / 0.8, abs=0.04)
    assert 1 - kept.float().mean() / 36 == pytest.approx(0.5 * 0.4, abs=0.02)
    loops = (found.edge_index[0] == found.edge_index[1]).sum() / (2000 * 6)
    assert 1 - loops == pytest.approx(0.2, abs=0.02), "self-loops go as often"


def test_untouched_graphs_keep_edges_and_features_in_order():
    batch = whole(graphs=20)
    found = drop_edges(batch, 0.9, draws(), untouched=1.0)
    assert torch.equal(found.edge_index, batch.edge_index)
    assert torch.equal(found.edge_attr, batch.edge_attr)
    for graph in range(20):
        mine, theirs = (
            b.edge_index[:, b.batch[b.edge_index[0]] == graph] for b in (drop_edges(batch, 0.9, draws()), batch)
        )
        assert mine.shape[1] < 36 or torch.equal(mine, theirs)


def test_the_generator_decides():
    batch = whole(graphs=20)
    first, again, other = (drop_edges(batch, 0.5, draws(seed)).edge_index for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_other_tensors_of_edges_follow_and_no_edges_are_no_problem():
    batch = whole(graphs=4)
    batch.edge_truth = torch.arange(batch.num_edges)
    found = drop_edges(batch, 0.9, draws(), untouched=0.0)
    assert torch.equal(batch.edge_index[:, found.edge_truth], found.edge_index)
    bare = Data(
        x=torch.ones(2, 1), edge_index=torch.empty(2, 0).long(), batch=torch.tensor([0, 1]), ptr=torch.arange(3)
    )
    assert drop_edges(bare, 0.9, draws()).edge_index.shape == (2, 0)
