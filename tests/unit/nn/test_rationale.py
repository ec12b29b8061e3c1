"""Scores, masks, and graphs cut in two."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.store import GraphBatch
from mphil.nn.encoders import build_encoder
from mphil.nn.fast.normalise import normalise_by_group
from mphil.nn.rationale import (
    Extractor,
    Masker,
    Masks,
    Scorer,
    cut,
    edge_graph,
    node_importance,
    reverse_edges,
    see_through,
    split_layers,
    unmoved_statistics,
)
from mphil.nn.readout import classifier
from tests.graphs import random_store, small_encoder, whole
from tests.unit.methods.stepping import same, written_gap

WIDTH = 3


def joined(edges: list[tuple[int, int]], n_nodes: list[int]) -> GraphBatch:
    """A batch with these directed edges between nodes numbered through."""
    counts = torch.tensor(n_nodes)
    return GraphBatch(
        x=torch.ones(int(counts.sum()), 1),
        edge_index=torch.tensor(edges, dtype=torch.long).view(-1, 2).T,
        batch=torch.arange(len(n_nodes)).repeat_interleave(counts),
        ptr=torch.tensor([0, *n_nodes]).cumsum(0),
    )


def features(batch: GraphBatch, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return torch.randn(batch.batch.numel(), WIDTH, dtype=torch.float64)


@pytest.mark.parametrize("of", ["node", "edge"])
def test_without_hidden_layers_is_a_linear_map_of_a_node_or_of_source_then_target(of):
    batch = whole(random_store())
    nodes, scorer = features(batch), Scorer(WIDTH, of).double()
    weight, bias = scorer.last.weight[0], scorer.last.bias[0]
    if of == "node":
        expected = [(weight * h).sum() + bias for h in nodes]
    else:
        expected = [(weight * torch.cat([nodes[u], nodes[v]])).sum() + bias for u, v in batch.edge_index.T.tolist()]
    torch.testing.assert_close(scorer(nodes, batch), torch.stack(expected), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("of", ["node", "edge"])
@pytest.mark.parametrize("norm", ["none", "graph", "batch"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_hidden_layers(of, norm, outputs):
    batch = whole(random_store())
    nodes, scorer = features(batch), Scorer(WIDTH, of, hidden=(5, 4), norm=norm, outputs=outputs).double()
    if of == "node":
        rows, owner = nodes, batch.batch
    else:
        rows, owner = torch.cat([nodes[batch.edge_index[0]], nodes[batch.edge_index[1]]], dim=1), edge_graph(batch)
    for linear in scorer.linears:
        rows = rows @ linear.weight.T + (0 if linear.bias is None else linear.bias)
        groups = [torch.arange(len(rows))] if norm == "batch" else [(owner == g).nonzero()[:, 0] for g in range(12)]
        normed = rows.clone()
        for members in groups if norm != "none" else []:
            for j in range(rows.shape[1]):
                column = [rows[i, j] for i in members]
                if not column:
                    continue
                mean = sum(column) / len(column)
                variance = sum((value - mean) ** 2 for value in column) / len(column)
                for i in members:
                    normed[i, j] = (rows[i, j] - mean) / (variance + 1e-5) ** 0.5
        rows = normed.relu()
    expected = rows @ scorer.last.weight.T + scorer.last.bias
    expected = expected[:, 0] if outputs == 1 else expected
    torch.testing.assert_close(scorer(nodes, batch), expected, rtol=1e-10, atol=1e-10)


def test_dropout_only_in_training():
    batch = whole(random_store())
    nodes, scorer = features(batch), Scorer(WIDTH, "node", hidden=(50,), dropout=0.5).double()
    assert not torch.equal(scorer(nodes, batch), scorer(nodes, batch))
    scorer.eval()
    assert torch.equal(scorer(nodes, batch), scorer(nodes, batch))


@pytest.mark.parametrize("norm", ["none", "graph", "batch"])
def test_graphs_without_edges_have_no_scores_and_do_no_harm(norm):
    nodes = torch.randn(3, WIDTH, requires_grad=True)
    scorer = Scorer(WIDTH, "edge", hidden=(4,), norm=norm)
    scores = scorer(nodes, joined([], [1, 2]))
    assert scores.shape == (0,)
    scores.sum().backward()
    between = scorer(torch.randn(5, WIDTH), joined([(1, 2), (2, 1)], [1, 2, 2]))
    assert between.shape == (2,)
    assert between.isfinite().all()


def test_normalisation_of_a_graph_does_not_depend_on_the_others():
    values, group = torch.randn(9, 2, dtype=torch.float64), torch.tensor([0, 2, 0, 2, 2, 3, 0, 2, 2])
    alone = normalise_by_group(values[group == 2], torch.zeros(5, dtype=torch.long), 1)
    torch.testing.assert_close(normalise_by_group(values, group, 5)[group == 2], alone)
    assert (normalise_by_group(values, group, 5)[group == 3] == 0).all()


def test_graph_of_an_edge():
    batch = joined([(3, 4), (0, 1), (4, 3)], [2, 1, 2])
    assert edge_graph(batch).tolist() == [2, 0, 2]


def test_opposite_edges_whatever_their_order():
    batch = joined([(0, 1), (2, 3), (1, 2), (1, 0), (3, 2), (2, 1)], [4])
    assert reverse_edges(batch).tolist() == [3, 4, 5, 0, 1, 2]


def test_an_edge_without_opposite_and_a_loop_are_their_own():
    batch = joined([(0, 1), (1, 1), (2, 0), (1, 2)], [3])
    assert reverse_edges(batch).tolist() == [0, 1, 2, 3]


def test_several_edges_between_two_nodes_are_paired_one_to_one():
    batch = joined([(0, 1), (0, 1), (1, 0), (0, 1), (1, 0)], [2])
    assert reverse_edges(batch).tolist() == [2, 4, 0, 3, 1]


@settings(max_examples=30, deadline=None, derandomize=True)
@given(pairs=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12), seed=st.integers(0, 99))
def test_opposites_of_undirected_graphs_pair_all_edges(pairs, seed):
    edges = pairs + [(v, u) for u, v in pairs]
    order = torch.randperm(len(edges), generator=torch.Generator().manual_seed(seed)).tolist()
    batch = joined([edges[i] for i in order], [6])
    opposite = reverse_edges(batch)
    assert torch.equal(opposite[opposite], torch.arange(len(edges)))
    assert torch.equal(batch.edge_index[:, opposite], batch.edge_index.flip(0))


def setting(seed=0):
    store = random_store(graphs=6, seed=seed)
    torch.manual_seed(seed)
    batch, config = whole(store, torch.float64), small_encoder(store)
    masks = Masks(torch.rand(len(batch.x)).double(), torch.rand(batch.edge_index.shape[1]).double())
    return batch, config, masks


def test_complement_and_union():
    _, _, masks = setting()
    other = Masks(*(torch.rand_like(mask) for mask in masks))
    for kind in ("nodes", "edges"):
        own, theirs = getattr(masks, kind).tolist(), getattr(other, kind).tolist()
        same(getattr(masks.complement(), kind), [1 - value for value in own])
        joined = [a + (1 - a) * b for a, b in zip(own, theirs, strict=True)]
        same(getattr(masks.joined(other), kind), joined)


def test_share_gap_is_that_of_nodes_plus_that_of_edges():
    batch, _, masks = setting()
    edge_owner = batch.batch[batch.edge_index[0]]
    assert len(edge_owner.unique()) < len(batch.y)  # some graph has no edges, and counts for nodes only
    expected = written_gap(masks.nodes, batch.batch, 0.3) + written_gap(masks.edges, edge_owner, 0.8)
    same(masks.share_gap(batch, nodes=0.3, edges=0.8), expected)


@pytest.mark.parametrize("halvings", [0, 3])
def test_masks_are_between_0_and_1_and_follow_their_scorers(halvings):
    batch, config, _ = setting()
    masker = Masker(build_encoder(config), 6, halvings).double().eval()
    masks = masker(batch)
    assert masks.nodes.shape == batch.batch.shape
    assert masks.edges.shape == batch.edge_index[0].shape
    assert all(0 < value < 1 for mask in masks for value in mask.tolist())
    h = masker.backbone(batch)
    same(masks.nodes, (1 / (1 + (-masker.nodes(h, batch)).exp())).tolist())
    same(masks.edges, (1 / (1 + (-masker.edges(h, batch)).exp())).tolist())
    assert [layer.out_features for layer in masker.edges.linears] == [6, 3, 1][:halvings]
    assert [layer.out_features for layer in masker.nodes.linears] == [3, 1, 1][:halvings]


def test_full_masks_hide_nothing_and_empty_ones_everything():
    batch, config, masks = setting()
    encoder = build_encoder(config, embedded=True).double().eval()
    x = torch.randn(len(batch.x), 6, dtype=torch.float64)
    full, empty = (Masks(*(torch.full_like(mask, value) for mask in masks)) for value in (1.0, 0.0))
    same(see_through(encoder, x, batch, full), encoder(batch, x=x).tolist())
    unseen = see_through(encoder, x, batch, empty)
    same(unseen, unseen[:1].expand_as(unseen).tolist())


def test_a_masked_edge_carries_no_message_and_a_masked_node_no_input():
    batch, config, masks = setting()
    encoder = build_encoder(config.model_copy(update={"layers": 1}), embedded=True).double().eval()
    x = torch.randn(len(batch.x), 6, dtype=torch.float64)
    node, edge = int(batch.edge_index[0, 0]), 0
    nodes, edges = torch.ones_like(masks.nodes), torch.ones_like(masks.edges)
    edges[edge] = 0
    pruned = batch.clone()
    pruned.edge_index = batch.edge_index[:, 1:]
    same(see_through(encoder, x, batch, Masks(nodes, edges)), encoder(pruned, x=x).tolist())
    nodes[node], edges[edge] = 0, 1
    hidden = x.clone()
    hidden[node] = 0
    same(see_through(encoder, x, batch, Masks(nodes, edges)), encoder(batch, x=hidden).tolist())


def test_classifiers_are_linear_or_have_a_hidden_layer_of_twice_the_width():
    linear, deep = classifier("linear", 4, 3, 0.0).double(), classifier("mlp", 4, 3, 0.0).double().eval()
    z = torch.randn(5, 4, dtype=torch.float64)
    same(linear(z), (z @ linear.weight.T + linear.bias).tolist())
    first, norm, _, _, last = deep
    hidden = norm(z @ first.weight.T + first.bias).clamp_min(0)
    assert hidden.shape == (5, 8)
    same(deep(z), (hidden @ last.weight.T + last.bias).tolist())


def test_every_edge_is_in_one_part_with_what_it_weighs_there():
    batch = joined([(0, 1), (1, 0), (1, 2), (2, 1), (4, 5), (5, 4)], [3, 1, 2])
    weight = torch.tensor([0.9, 0.2, 0.6, 0.3, 0.8, 0.7], requires_grad=True)
    kept = torch.tensor([True, False, True, False, False, False])
    first, second = cut(batch, weight, kept)
    torch.testing.assert_close(first.edge_weight, torch.tensor([0.9, 0.6]))
    torch.testing.assert_close(second.edge_weight, torch.tensor([0.8, 0.7, 0.2, 0.3]))
    assert first.nodes.tolist() == [0, 1, 2, 3]
    assert second.nodes.tolist() == [0, 1, 2, 3, 4, 5]
    assert first.graphs.ptr.numel() == second.graphs.ptr.numel() == 4
    (first.edge_weight.sum() + 2 * second.edge_weight.sum()).backward()
    assert weight.grad.tolist() == [1, -2, 1, -2, -2, -2]


def test_the_extractor_keeps_the_best_edges_of_each_graph():
    store = random_store()
    batch = whole(store)
    torch.manual_seed(0)
    extractor = Extractor(small_encoder(store), 0.4)
    nodes, weight, kept = extractor(batch)
    torch.testing.assert_close(nodes, extractor.encoder(batch))
    torch.testing.assert_close(weight, extractor.scorer(nodes, batch).sigmoid())
    for g in range(len(store)):
        own = batch.batch[batch.edge_index[0]] == g
        count = -(-int(own.sum()) * 2 // 5)
        assert kept[own].sum() == count
        if 0 < count < own.sum():
            assert weight[own & kept].min() >= weight[own & ~kept].max()


def test_importance_counts_edges_that_are_not_kept_as_nothing():
    batch = joined([(0, 1), (1, 0), (1, 2), (2, 1)], [4])
    found = node_importance(torch.tensor([0.8, 0.4, 0.6, 0.2]), torch.tensor([True, True, True, False]), batch)
    torch.testing.assert_close(found, torch.tensor([0.6, 0.45, 0.3, 0.0]))


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5])
def test_a_share_that_keeps_nothing_or_more_than_all_is_refused(share):
    with pytest.raises(UsageError, match="above 0 and at most 1"):
        Extractor(EncoderConfig(width=4), share)


@pytest.mark.parametrize(
    ("kind", "layers", "rest", "rest_kind"),
    [("gin", 3, 1, "gin"), ("vgin", 3, 1, "gin"), ("vgin", 5, 3, "vgin"), ("gin", 1, 1, "gin"), ("vgin", 4, 2, "gin")],
)
def test_two_layers_score_and_the_others_classify(kind, layers, rest, rest_kind):
    first, second = split_layers(EncoderConfig(kind=kind, layers=layers, width=4, dropout=0.5))
    assert (first.kind, first.layers, first.dropout) == ("gin", 2, 0.0)
    assert (second.kind, second.layers, second.dropout) == (rest_kind, rest, 0.5)
    EncoderConfig.model_validate(second.model_dump())


def test_statistics_stay_and_everything_else_is_as_in_training():
    store = random_store(nodes="categorical", edges="categorical")
    batch = whole(store)
    encoder = build_encoder(small_encoder(store, layers=3, kind="vgin"))
    running = {name: value.clone() for name, value in encoder.named_buffers() if "running" in name}
    with unmoved_statistics(encoder):
        inside = encoder(batch)
    assert running
    assert all(torch.equal(value, encoder.get_buffer(name)) for name, value in running.items())
    torch.testing.assert_close(inside, encoder(batch))
    assert not any(torch.equal(value, encoder.get_buffer(name)) for name, value in running.items())
    with pytest.raises(ZeroDivisionError), unmoved_statistics(encoder):
        raise ZeroDivisionError
    assert {norm.momentum for norm in encoder.norms} == {0.1}
