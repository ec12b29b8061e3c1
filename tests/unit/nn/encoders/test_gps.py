"""Global attention against a loop over graphs."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.graphs.store import GraphBatch, pointer
from mphil.nn.encoders.blocks import pad_by_size
from mphil.nn.encoders.gps import GlobalAttention, attention_groups


def graphs_of(sizes):
    ptr = pointer(torch.tensor(sizes, dtype=torch.long))
    return GraphBatch(ptr=ptr, batch=torch.arange(len(sizes)).repeat_interleave(ptr.diff()))


def attended(layer, h, ptr, weight=None):
    """Every graph for itself, every head for itself."""
    rows = []
    for start, end in zip(ptr.tolist(), ptr.tolist()[1:], strict=False):
        part = h[start:end]
        mixed = []
        for columns in torch.arange(h.shape[1]).chunk(layer.heads):
            q, k, v = (layer.query(part)[:, columns], layer.key(part)[:, columns], layer.value(part)[:, columns])
            share = (q @ k.T / math.sqrt(len(columns))).exp()
            if weight is not None:
                factor = weight[start:end].repeat(len(part), 1)
                share = share * factor.fill_diagonal_(1.0)
            mixed.append(share / share.sum(1, keepdim=True) @ v)
        rows.append(layer.out(torch.cat(mixed, dim=1)))
    return torch.cat(rows)


@pytest.mark.parametrize("weighted", [False, True])
@given(sizes=st.lists(st.integers(0, 9), min_size=1, max_size=6))
@settings(max_examples=20, deadline=None)
def test_agrees_with_a_loop_over_graphs(weighted, sizes):
    batch = graphs_of(sizes)
    torch.manual_seed(0)
    layer = GlobalAttention(8).double()
    h = torch.randn(sum(sizes), 8, dtype=torch.float64)
    weight = torch.rand(len(h), dtype=torch.float64) if weighted else None
    torch.testing.assert_close(layer(h, attention_groups(batch), weight), attended(layer, h, batch.ptr, weight))


@given(sizes=st.lists(st.integers(0, 40), max_size=12))
def test_padding_costs_no_more_than_four_times_the_squares(sizes):
    padded = pad_by_size(pointer(torch.tensor(sizes, dtype=torch.long)))
    assert sum(p.nodes.shape[0] * p.nodes.shape[1] ** 2 for p in padded) <= 4 * sum(n * n for n in sizes)
    rows = torch.cat([p.nodes[p.present] for p in padded]) if padded else torch.empty(0)
    assert rows.sort().values.tolist() == list(range(sum(sizes)))
