"""Graphs with foreign surroundings: labels, edges and features stay with their owners."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.methods.igm import graft, random_partners
from tests.graphs import TASKS, random_store, whole
from tests.unit.nn.test_rationale import joined

NAN = float("nan")


def partners_over_time(y, kind, draws=60):
    torch.manual_seed(0)
    seen = [random_partners(torch.tensor(y), TASKS[kind]).tolist() for _ in range(draws)]
    return [set(column) for column in zip(*seen, strict=True)]


# --- partners --------------------------------------------------------------------------------------------------


def test_a_partner_is_any_graph_of_the_next_class_present():
    # Classes 0 and 2 are present: 2 follows on 0, and 0 on 2.
    assert partners_over_time([[0.0], [2.0], [0.0], [2.0]], "multiclass") == [{1, 3}, {0, 2}, {1, 3}, {0, 2}]
    assert partners_over_time([[0.0], [1.0], [2.0], [1.0]], "multiclass") == [{1, 3}, {2}, {0}, {2}]
    assert partners_over_time([[0.0], [1.0], [1.0]], "binary") == [{1, 2}, {0}, {0}]


def test_without_a_next_class_it_is_any_other_graph():
    assert partners_over_time([[1.0]] * 3, "multiclass") == [{1, 2}, {0, 2}, {0, 1}]
    assert partners_over_time([[0.0], [1.0], [NAN]], "binary") == [{1}, {0}, {0, 1}]
    assert partners_over_time([[NAN]] * 2, "binary") == [{1}, {0}]
    assert partners_over_time([[0.0, 1.0, NAN, 1.0]] * 3, "multitask") == [{1, 2}, {0, 2}, {0, 1}]
    assert partners_over_time([[1.0]], "binary") == [{0}]


# --- grafting --------------------------------------------------------------------------------------------------


def test_a_graft_by_hand():
    # Graph 0 keeps 0-1 and loses 1-2; graph 1 keeps 4-5 and loses 3-4; graph 2 has one node.
    edges = [(0, 1), (1, 0), (1, 2), (2, 1), (3, 4), (4, 3), (4, 5), (5, 4)]
    batch = joined(edges, [3, 3, 1])
    batch.x, batch.y = torch.arange(7.0).unsqueeze(1), torch.tensor([[0.0], [1.0], [2.0]])
    kept = torch.tensor([True, True, False, False, False, False, True, True])
    mixed, source = graft(batch, kept, torch.tensor([1, 2, 0]), bridges=0)
    assert mixed.x.flatten().tolist() == [0, 1, 3, 4, 4, 5, 6, 6, 1, 2]
    assert mixed.ptr.tolist() == [0, 4, 7, 10]
    assert mixed.batch.tolist() == [0] * 4 + [1] * 3 + [2] * 3
    found = {(*mixed.x[edge].flatten().int().tolist(), int(mixed.batch[edge[0]])) for edge in mixed.edge_index.T}
    assert found == {(0, 1, 0), (1, 0, 0), (3, 4, 0), (4, 3, 0), (4, 5, 1), (5, 4, 1), (1, 2, 2), (2, 1, 2)}
    assert torch.equal(mixed.x[mixed.edge_index].squeeze(-1), batch.x[batch.edge_index[:, source]].squeeze(-1))
    assert torch.equal(mixed.y, batch.y)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 999), share=st.sampled_from([0.0, 0.5, 1.0]), bridges=st.integers(0, 3))
def test_every_new_graph_is_the_kept_part_of_one_and_the_rest_of_its_partner(seed, share, bridges):
    store = random_store(nodes="float", edges="float", graphs=6, seed=seed)
    batch = whole(store)
    # Rows are unique, so that they tell where a node or an edge comes from.
    batch.x, batch.edge_attr = torch.arange(len(batch.x)).view(-1, 1), torch.arange(len(batch.edge_attr)).view(-1, 1)
    torch.manual_seed(seed)
    kept, partner = torch.rand(len(batch.edge_attr)) < share, torch.randint(6, (6,))
    mixed, source = graft(batch, kept, partner, bridges)

    owner = batch.batch[batch.edge_index[0]]
    new_owner = mixed.batch[mixed.edge_index[0]]
    inner = source >= 0
    assert torch.equal(mixed.batch[mixed.edge_index[1]], new_owner)
    assert torch.equal(mixed.ptr.diff(), torch.bincount(mixed.batch, minlength=6))
    assert torch.equal(mixed.edge_attr[inner].flatten(), source[inner])
    assert torch.equal(mixed.x[mixed.edge_index[:, inner]].squeeze(-1), batch.edge_index[:, source[inner]])
    for i, j in enumerate(partner.tolist()):
        wanted = [e for e in range(len(kept)) if owner[e] == (i if kept[e] else j)]
        assert sorted(source[inner & (new_owner == i)].tolist()) == sorted(wanted)
        sides = []
        for g, chosen in ((i, kept), (j, ~kept)):
            own = (owner == g).nonzero().flatten().tolist()
            nodes = {v for e in own if chosen[e] for v in batch.edge_index[:, e].tolist()}
            sides.append(sorted(nodes if own else (batch.batch == g).nonzero().flatten().tolist()))
        assert mixed.x[mixed.batch == i].flatten().tolist() == sides[0] + sides[1]
        across = mixed.edge_index[:, ~inner & (new_owner == i)] - mixed.ptr[i]
        assert across.shape[1] == (2 * bridges if all(sides) and len(kept) else 0)
        assert ((across < len(sides[0])).sum(0) == 1).all(), "a bridge joins the two sides"
        assert sorted(map(tuple, across.T.tolist())) == sorted(map(tuple, across.flip(0).T.tolist()))


@pytest.mark.parametrize("edges", ["none", "categorical"])
def test_graphs_without_any_edge_are_put_side_by_side(edges):
    store = random_store(nodes="categorical", edges=edges, graphs=3)
    batch = whole(store)
    batch.edge_index = batch.edge_index[:, :0]
    batch.edge_attr = None if edges == "none" else batch.edge_attr[:0]
    mixed, source = graft(batch, torch.zeros(0, dtype=torch.bool), torch.tensor([1, 2, 0]))
    assert mixed.ptr.diff().tolist() == (batch.ptr.diff() + batch.ptr.diff()[[1, 2, 0]]).tolist()
    assert mixed.edge_index.shape == (2, 0)
    assert source.shape == (0,)
