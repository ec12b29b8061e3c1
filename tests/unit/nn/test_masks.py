"""Masks and subgraphs against loops over graphs."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.nn.encoders import build_encoder
from mphil.nn.masks import (
    clamp_share,
    concrete,
    node_share_of_edges,
    share_penalty,
    straight_through,
    subgraph,
    top_share,
)
from mphil.nn.readout import readout
from tests.graphs import random_store, small_encoder, whole
from tests.unit.nn.test_rationale import joined

SHARES = [0.0, 0.1, 0.25, 0.28, 0.3, 0.5, 0.6, 0.7, 0.8, 1.0]
members = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([-2.0, -0.5, 0.0, 0.1, 3.0])), max_size=30)


def columns(drawn) -> tuple[torch.Tensor, torch.Tensor]:
    group = torch.tensor([g for g, _ in drawn], dtype=torch.long)
    return group, torch.tensor([score for _, score in drawn])


# --- soft masks ------------------------------------------------------------------------------------------------


def test_concrete_is_the_probability_outside_training():
    logits = torch.linspace(-5, 5, 7)
    torch.testing.assert_close(concrete(logits, 0.3, training=False), 1 / (1 + (-logits).exp()))


def test_concrete_adds_logistic_noise():
    logits = torch.tensor([-1.0, 0.0, 2.0], dtype=torch.float64)
    torch.manual_seed(3)
    drawn = concrete(logits, 0.5)
    torch.manual_seed(3)
    noise = [math.log(u) - math.log(1 - u) for u in torch.rand(3, dtype=torch.float64).tolist()]
    expected = [1 / (1 + math.exp(-(s + n) / 0.5)) for s, n in zip(logits.tolist(), noise, strict=True)]
    torch.testing.assert_close(drawn, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)


def test_concrete_is_above_one_half_as_often_as_the_probability_says():
    torch.manual_seed(0)
    share = (concrete(torch.full((20_000,), 1.2)) > 0.5).float().mean().item()
    assert share == pytest.approx(1 / (1 + math.exp(-1.2)), abs=0.02)


def test_concrete_has_finite_values_and_gradients_at_the_ends_of_the_uniform(monkeypatch):
    monkeypatch.setattr(torch, "rand_like", lambda x: torch.tensor([0.0, 1.0]))
    logits = torch.zeros(2, requires_grad=True)
    drawn = concrete(logits)
    drawn.sum().backward()
    assert drawn.isfinite().all()
    assert logits.grad.isfinite().all()
    assert drawn[0] < 1e-5
    assert drawn[1] > 1 - 1e-5


def test_share_penalty_is_the_mean_gap_of_the_groups_that_have_members():
    mask = torch.tensor([0.2, 0.4, 0.9, 0.5], dtype=torch.float64)
    group = torch.tensor([0, 2, 0, 0])
    expected = (abs((0.2 + 0.9 + 0.5) / 3 - 0.7) + abs(0.4 - 0.7)) / 2
    assert share_penalty(mask, group, 5, 0.7).item() == pytest.approx(expected, rel=1e-12)
    assert share_penalty(mask[:0], group[:0], 2, 0.7) == 0


# --- hard masks ------------------------------------------------------------------------------------------------


def first_by_score(places: list[int], scores: list[float], count: int) -> set[int]:
    return set(sorted(places, key=lambda i: (-scores[i], i))[:count])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(drawn=members, share=st.sampled_from(SHARES))
def test_top_share(drawn, share):
    group, scores = columns(drawn)
    kept = set(top_share(scores, group, 5, share).nonzero().flatten().tolist())
    expected = set()
    for g in range(5):
        places = [i for i, owner in enumerate(group.tolist()) if owner == g]
        count = math.ceil(Fraction(str(share)) * len(places))
        expected |= first_by_score(places, scores.tolist(), count)
    assert kept == expected


def test_top_share_rounds_up_what_is_a_whole_number_to_itself():
    assert 0.28 * 25 > 7
    group = torch.zeros(25, dtype=torch.long)
    assert top_share(torch.randn(25), group, 1, 0.28).sum() == 7


@pytest.mark.parametrize(("dtype", "noise"), [(torch.float64, 1e-15), (torch.float32, 1e-8)])
def test_of_equals_the_first_is_kept_whatever_rounding_did_to_them(dtype, noise):
    scores = torch.tensor([0.7, 0.7 + noise, 0.7 - noise, 0.2], dtype=dtype)
    assert top_share(scores, torch.zeros(4, dtype=torch.long), 1, 0.5).tolist() == [True, True, False, False]
    close = torch.tensor([0.2, 0.2 + 1e-5], dtype=dtype)
    assert top_share(close, torch.zeros(2, dtype=torch.long), 1, 0.5).tolist() == [False, True]


def test_an_outlier_in_one_graph_does_not_disturb_the_order_in_thousands_of_others():
    # Sorting (score squeezed into [0, 1] - graph number) in single precision gets most of these graphs wrong.
    torch.manual_seed(0)
    n, size = 4096, 10
    steps = torch.stack([torch.randperm(1000)[:size] for _ in range(n)])  # further apart than equals are taken to be
    scores, group = 1e-5 * (steps - 500), torch.arange(n).repeat_interleave(size)
    scores[0, 0] = 50.0
    kept = top_share(scores.flatten(), group, n, 0.3).view(n, size)
    assert torch.equal(kept.nonzero()[:, 1].view(n, 3), scores.topk(3).indices.sort().values)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(drawn=members, bounds=st.sampled_from([(0.3, 0.7), (0.0, 0.5), (0.5, 1.0), (0.2, 0.2)]), data=st.data())
def test_clamp_share(drawn, bounds, data):
    group, scores = columns(drawn)
    mask = torch.tensor(data.draw(st.lists(st.booleans(), min_size=len(drawn), max_size=len(drawn))), dtype=torch.bool)
    clamped = set(clamp_share(mask, scores, group, 5, *bounds).nonzero().flatten().tolist())
    low, high = (Fraction(str(bound)) for bound in bounds)
    expected = set()
    for g in range(5):
        places = [i for i, owner in enumerate(group.tolist()) if owner == g]
        kept = [i for i in places if mask[i]]
        left_out = [i for i in places if not mask[i]]
        least = math.ceil(low * len(places))
        most = max(least, math.floor(high * len(places)))
        if len(kept) < least:
            kept += first_by_score(left_out, scores.tolist(), least - len(kept))
        expected |= first_by_score(kept, scores.tolist(), most) if len(kept) > most else set(kept)
    assert clamped == expected


# --- subgraphs -------------------------------------------------------------------------------------------------


def test_subgraph_of_a_small_batch():
    # Graph 0: a path 0-1-2; graph 1: two nodes without edges; graph 2: an edge 5-6 and an isolated node 7.
    batch = joined([(0, 1), (1, 0), (1, 2), (2, 1), (5, 6), (6, 5)], [3, 2, 3])
    batch.x, batch.y = torch.arange(8.0).unsqueeze(1), torch.tensor([[0.0], [1.0], [2.0]])
    batch.edge_attr = torch.arange(6)
    part, nodes = subgraph(batch, torch.tensor([False, False, True, False, False, False]))
    assert nodes.tolist() == [1, 2, 3, 4]
    assert part.x.flatten().tolist() == [1, 2, 3, 4]
    assert part.edge_index.tolist() == [[0], [1]]
    assert part.edge_attr.tolist() == [2]
    assert part.ptr.tolist() == [0, 2, 4, 4]
    assert part.batch.tolist() == [0, 0, 1, 1]
    assert part.y is batch.y
    assert batch.x.shape == (8, 1)


def test_a_graph_of_which_nothing_is_left_is_still_there():
    batch = joined([(0, 1), (1, 0), (2, 3), (3, 2)], [2, 2])
    for kept in (slice(0, 2), slice(2, 4), slice(0, 0)):
        mask = torch.zeros(4, dtype=torch.bool)
        mask[kept] = True
        part, _ = subgraph(batch, mask)
        assert readout(torch.ones(len(part.x), 1), part.ptr).shape == (2, 1)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(seed=st.integers(0, 999), share=st.sampled_from([0.0, 0.4, 0.8]))
def test_every_graph_of_a_subgraph_is_made_of_its_own_edges(seed, share):
    store = random_store(nodes="float", edges="float", seed=seed)
    batch = whole(store)
    mask = torch.rand(batch.edge_index.shape[1], generator=torch.Generator().manual_seed(seed)) < share
    part, nodes = subgraph(batch, mask)
    assert torch.equal(nodes[part.edge_index], batch.edge_index[:, mask])
    assert torch.equal(part.x, batch.x[nodes])
    assert torch.equal(part.edge_attr, batch.edge_attr[mask])
    assert torch.equal(part.ptr.diff(), torch.bincount(part.batch, minlength=len(store)))
    for g in range(len(store)):
        own = {v for v in range(len(batch.x)) if batch.batch[v] == g}
        edges = [(u, v) for u, v in batch.edge_index.T.tolist() if u in own]
        kept = [edge for edge, keep in zip(batch.edge_index.T.tolist(), mask.tolist(), strict=True) if keep]
        wanted = {v for edge in kept if edge[0] in own for v in edge} if edges else own
        assert set(nodes[part.batch == g].tolist()) == wanted


def test_a_subgraph_can_be_encoded_and_all_edges_give_the_graph_back():
    store = random_store(nodes="categorical", edges="categorical")
    batch = whole(store)
    encoder = build_encoder(small_encoder(store, layers=3, kind="vgin")).eval()
    part, nodes = subgraph(batch, torch.ones(batch.edge_index.shape[1], dtype=torch.bool))
    degree = torch.bincount(batch.edge_index.flatten(), minlength=len(batch.x))
    graph_has_edges = torch.bincount(batch.batch[batch.edge_index[0]], minlength=len(store)) > 0
    isolated = (degree == 0) & graph_has_edges[batch.batch]
    assert nodes.tolist() == (~isolated).nonzero().flatten().tolist()
    whole_graphs = [g for g in range(len(store)) if not isolated[batch.batch == g].any()]
    rows = torch.isin(part.batch, torch.tensor(whole_graphs))
    torch.testing.assert_close(encoder(part)[rows], encoder(batch)[nodes][rows])


def test_mean_over_incident_edges():
    batch = joined([(0, 1), (1, 0), (1, 2)], [4])
    values = torch.tensor([1.0, 2.0, 6.0])
    assert node_share_of_edges(values, batch).tolist() == [1.5, 3.0, 6.0, 0.0]


def test_straight_through_is_hard_in_every_bit_and_learns_as_the_soft_mask():
    torch.manual_seed(0)
    soft = torch.rand(1000).requires_grad_()
    mask = straight_through(soft > 0.5, soft)
    assert torch.equal(mask, (soft > 0.5).float())
    (mask * torch.arange(1000)).sum().backward()
    assert torch.equal(soft.grad, torch.arange(1000).float())
