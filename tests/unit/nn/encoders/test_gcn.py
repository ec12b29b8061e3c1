"""Graph convolutions against their sums, one node at a time, and against another implementation."""

from __future__ import annotations

from math import sqrt

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.nn import GCNConv

from mphil.nn.encoders.gcn import GCNLayer
from tests.graphs import random_store, whole
from tests.unit.methods.stepping import same


def graph(seed, graphs=4):
    batch = whole(random_store(graphs=graphs, seed=seed), torch.float64)
    weight = torch.rand(batch.edge_index.shape[1], dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return batch, weight


def written(h, edges, weight, linear):
    degree = [1.0 + sum(w for (_, v), w in zip(edges, weight, strict=True) if v == node) for node in range(len(h))]
    rows = []
    for node in range(len(h)):
        row = [value / degree[node] for value in h[node]]
        for (u, v), w in zip(edges, weight, strict=True):
            if v == node:
                row = [a + w / sqrt(degree[u] * degree[v]) * b for a, b in zip(row, h[u], strict=True)]
        rows.append(
            [
                sum(a * b for a, b in zip(out, row, strict=True)) + bias
                for out, bias in zip(linear.weight.tolist(), linear.bias.tolist(), strict=True)
            ]
        )
    return rows


@settings(max_examples=15, derandomize=True)
@given(seed=st.integers(0, 99), weighted=st.booleans())
def test_a_layer_is_its_formula(seed, weighted):
    batch, weight = graph(seed)
    layer = GCNLayer(3, 5).double()
    found = layer(batch.x, batch.edge_index, weight if weighted else None)
    factors = weight.tolist() if weighted else [1.0] * len(weight)
    same(found, written(batch.x.tolist(), batch.edge_index.T.tolist(), factors, layer.linear))


def test_a_layer_is_that_of_pyg():
    batch, weight = graph(3, graphs=9)
    layer, other = GCNLayer(3, 5).double(), GCNConv(3, 5).double()
    other.lin.weight.data, other.bias.data = layer.linear.weight.data, layer.linear.bias.data
    same(layer(batch.x, batch.edge_index, weight), other(batch.x, batch.edge_index, weight).tolist())


def test_gradients_reach_the_weights_of_edges():
    batch, weight = graph(1)
    layer = GCNLayer(3, 2).double()
    assert torch.autograd.gradcheck(lambda w: layer(batch.x, batch.edge_index, w), weight.requires_grad_())


def test_an_edge_of_weight_zero_is_no_edge():
    batch, weight = graph(2)
    layer = GCNLayer(3, 2).double()
    kept = weight > 0.5
    same(
        layer(batch.x, batch.edge_index, kept.double()),
        layer(batch.x, batch.edge_index[:, kept]).tolist(),
    )
