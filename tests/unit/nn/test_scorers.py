"""Scores of nodes and edges against loops over them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.graphs.store import Batch
from mphil.nn.fast.groups import normalise_by_group
from mphil.nn.scorers import Scorer, edge_graph, reverse_edges
from tests.graphs import random_store, whole

WIDTH = 3


def joined(edges: list[tuple[int, int]], n_nodes: list[int]) -> Batch:
    """A batch with these directed edges between nodes numbered through."""
    counts = torch.tensor(n_nodes)
    return Batch(
        x=torch.ones(int(counts.sum()), 1),
        edge_index=torch.tensor(edges, dtype=torch.long).view(-1, 2).T,
        batch=torch.arange(len(n_nodes)).repeat_interleave(counts),
        ptr=torch.tensor([0, *n_nodes]).cumsum(0),
    )


def features(batch: Batch, seed: int = 0) -> torch.Tensor:
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
