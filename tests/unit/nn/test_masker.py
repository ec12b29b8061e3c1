"""Masks of nodes and edges: how they combine, and what an encoder sees through them."""

from __future__ import annotations

import pytest
import torch

from mphil.nn.encoders import build_encoder
from mphil.nn.heads import classifier
from mphil.nn.scorers import Masker, Masks, see_through
from tests.graphs import random_store, small_encoder, whole
from tests.unit.methods.stepping import same, written_gap


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
