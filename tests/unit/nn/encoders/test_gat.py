"""Graph attention against PyG's."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.nn import GATConv

from mphil.graphs.features import Features
from mphil.nn.encoders.gat import GATLayer, heads_for
from tests.graphs import random_store, whole


@pytest.mark.parametrize("width", [8, 6, 5])
def test_agrees_with_pyg(width):
    batch = whole(random_store(graphs=6), torch.float64)
    ours = GATLayer(3, width, Features.none()).double()
    heads = heads_for(width)
    theirs = GATConv(3, width // heads, heads=heads).double()
    with torch.no_grad():
        theirs.lin.weight.copy_(ours.linear.weight)
        theirs.att_src.copy_(ours.source.unsqueeze(0))
        theirs.att_dst.copy_(ours.target.unsqueeze(0))
        theirs.bias.copy_(ours.bias.normal_())
    torch.testing.assert_close(ours(batch.x, batch.edge_index, None, None), theirs(batch.x, batch.edge_index))


def test_weights_and_edge_features_against_a_loop_over_nodes():
    batch = whole(random_store(graphs=4, edges="float"), torch.float64)
    layer = GATLayer(3, 4, Features("float", (2,))).double()
    weight = torch.rand(batch.edge_index.shape[1], dtype=torch.float64)
    values = layer.linear(batch.x).view(-1, layer.heads, 4 // layer.heads)
    for node in range(len(batch.x)):
        into = (batch.edge_index[1] == node).nonzero().squeeze(1)
        heard = torch.cat([values[batch.edge_index[0, into]], values[[node]]])
        bond = torch.cat([layer.edge(batch.edge_attr[into]), torch.zeros(1, layer.heads)])
        scores = (heard * layer.source).sum(2) + (values[node] * layer.target).sum(1) + bond
        share = torch.where(scores > 0, scores, 0.2 * scores).exp() * torch.cat([weight[into], torch.ones(1)])[:, None]
        expected = ((share / share.sum(0)).unsqueeze(2) * heard).sum(0).flatten() + layer.bias
        torch.testing.assert_close(layer(batch.x, batch.edge_index, weight, batch.edge_attr)[node], expected)


def test_large_scores_do_not_overflow():
    batch = whole(random_store(graphs=3))
    layer = GATLayer(3, 4, Features.none())
    assert layer(batch.x * 1e4, batch.edge_index, None, None).isfinite().all()
