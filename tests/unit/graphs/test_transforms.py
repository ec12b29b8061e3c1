"""Random changes of training graphs."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from mphil.graphs.transforms import add_distractors, drop_edges, mix_features
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


class TestDistractors:
    @settings(max_examples=40)
    @given(st.integers(0, 10**6), st.sampled_from(["none", "float", "categorical"]), st.floats(0, 1))
    def test_a_graph_stays_and_a_scrambled_one_stands_beside_it(self, seed, edges, share):
        batch = random_store(edges=edges, seed=seed % 100).batch(torch.arange(12))
        before = batch.clone()
        found = add_distractors(batch, share, draws(seed))
        assert found.y is batch.y
        assert all(torch.equal(v, batch[k]) for k, v in before.to_dict().items() if torch.is_tensor(v))
        assert found.batch.tolist() == sorted(found.batch.tolist())
        assert torch.equal(found.ptr.diff(), torch.bincount(found.batch, minlength=12))
        assert as_set(found) == {(v, u) for u, v in as_set(found)}
        assert len(as_set(found)) == found.edge_index.shape[1], "no edge stands twice"
        sizes = batch.ptr.diff().tolist()
        for graph in range(12):
            start, stop = found.ptr[graph : graph + 2].tolist()
            own, beside = range(start, start + sizes[graph]), range(start + sizes[graph], stop)
            assert len(beside) in {0, *sizes}
            told = {(u - start, v - start) for u, v in as_set(found) if u in own}
            first = int(batch.ptr[graph])
            assert told == {(u - first, v - first) for u, v in as_set(batch) if u in range(first, first + sizes[graph])}
            assert torch.equal(found.x[own.start : own.stop], batch.x[first : first + sizes[graph]])
            assert all(v in beside and u != v for u, v in as_set(found) if u in beside), "a component of its own"

    def test_a_scrambled_graph_has_nodes_degrees_and_edge_attributes_of_one_graph_of_the_batch(self):
        """Nodes are numbered, so that each says where it comes from; the graphs are sparse and of different sizes."""
        batch = random_store(edges="float", seed=3, graphs=40).batch(torch.arange(40))
        batch.x = torch.arange(len(batch.batch)).unsqueeze(1)
        batch.node_truth, batch.edge_truth = batch.x[:, 0] % 7, batch.edge_attr[:, 0]
        degree = torch.bincount(batch.edge_index[0], minlength=len(batch.batch))
        attributes = [
            set(map(tuple, batch.edge_attr[batch.batch[batch.edge_index[0]] == graph].tolist())) for graph in range(40)
        ]
        found = add_distractors(batch, 1.0, draws())
        assert torch.equal(found.node_truth, found.x[:, 0] % 7)
        assert torch.equal(found.edge_truth, found.edge_attr[:, 0])
        now = torch.bincount(found.edge_index[0], minlength=len(found.batch))
        partners, moved = [], 0
        for graph, size in enumerate(batch.ptr.diff().tolist()):
            rows = range(int(found.ptr[graph]) + size, int(found.ptr[graph + 1]))
            old = found.x[rows.start : rows.stop, 0]
            (partner,) = set(batch.batch[old].tolist())
            assert old.tolist() == list(range(*batch.ptr[partner : partner + 2].tolist()))
            assert (now[rows.start : rows.stop] <= degree[old]).all()
            columns = [column for column, u in enumerate(found.edge_index[0].tolist()) if u in rows]
            assert {tuple(found.edge_attr[column].tolist()) for column in columns} <= attributes[partner]
            pairs = {tuple(found.x[found.edge_index[:, column], 0].tolist()) for column in columns}
            moved += bool(pairs - as_set(batch))
            partners.append(partner)
        assert sorted(partners) == list(range(40)), "each is scrambled once"
        assert moved > 10, "the ends are paired anew"
        assert partners != list(range(40))

    def test_both_directions_have_the_same_attributes(self):
        batch = whole(graphs=30)
        batch.edge_attr = batch.edge_attr.sum(1, keepdim=True)
        found = add_distractors(batch, 1.0, draws())
        attr = dict(zip(map(tuple, found.edge_index.T.tolist()), found.edge_attr.tolist(), strict=True))
        assert all(attr[pair] == attr[pair[::-1]] for pair in attr)

    def test_the_generator_decides_and_a_share_of_none_adds_nothing(self):
        batch = whole(graphs=20)
        one, again, other = (add_distractors(batch, 0.5, draws(seed)).edge_index for seed in (0, 0, 1))
        assert torch.equal(one, again)
        assert not torch.equal(one, other)
        assert torch.equal(add_distractors(batch, 0.0, draws()).edge_index, batch.edge_index)

    def test_graphs_without_edges(self):
        bare = Data(
            x=torch.ones(3, 1),
            edge_index=torch.empty(2, 0, dtype=torch.long),
            batch=torch.tensor([0, 0, 1]),
            ptr=torch.tensor([0, 2, 3]),
        )
        assert add_distractors(bare, 1.0, draws()).ptr.tolist() in ([0, 3, 6], [0, 4, 6])


class TestMixedFeatures:
    @settings(max_examples=40)
    @given(st.integers(0, 10**6), st.floats(0, 1))
    def test_all_nodes_of_a_graph_are_multiplied_by_one_matrix(self, seed, share):
        batch = random_store(seed=seed % 100, graphs=20).batch(torch.arange(20))
        batch.x = torch.randn(len(batch.batch), 3)
        before = batch.x.clone()
        found = mix_features(batch, share, draws(seed))
        assert torch.equal(batch.x, before)
        assert found.edge_index is batch.edge_index
        for start, stop in batch.ptr.unfold(0, 2, 1).tolist():
            own, mixed = before[start:stop].double(), found.x[start:stop].double()
            matrix = torch.linalg.lstsq(own, mixed).solution
            assert torch.allclose(own @ matrix, mixed, atol=1e-4)

    def test_a_share_of_the_graphs_with_their_length_in_the_mean(self):
        batch = whole(graphs=4000)
        batch.x = torch.randn(len(batch.batch), 3)
        found = mix_features(batch, 0.25, draws())
        changed = (found.x != batch.x).any(1)
        by_graph = torch.stack([changed[start:stop].any() for start, stop in batch.ptr.unfold(0, 2, 1).tolist()])
        assert by_graph.float().mean() == pytest.approx(0.25, abs=0.03)
        assert found.x[changed].square().mean() == pytest.approx(float(batch.x[changed].square().mean()), rel=0.1)

    def test_the_generator_decides_and_a_share_of_none_changes_nothing(self):
        batch = whole(graphs=20)
        batch.x = torch.randn(len(batch.batch), 2)
        one, again, other = (mix_features(batch, 0.5, draws(seed)).x for seed in (0, 0, 1))
        assert torch.equal(one, again)
        assert not torch.equal(one, other)
        assert torch.equal(mix_features(batch, 0.0, draws()).x, batch.x)
