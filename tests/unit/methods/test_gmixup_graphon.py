"""Graphons against adjacency matrices built cell by cell, and what is drawn from them."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.methods.gmixup import (
    Estimate,
    Graphons,
    Recipe,
    RowBank,
    adjacency_sums,
    estimate_graphons,
    join,
    labels,
    ranks,
    singular_threshold,
)
from tests.graphs import EDGES, NODES, random_store, whole


def sorted_nodes(batch, graph):
    """Nodes of a graph by falling degree, equal ones in their order."""
    nodes = range(int(batch.ptr[graph]), int(batch.ptr[graph + 1]))
    return sorted(nodes, key=lambda v: -int((batch.edge_index[0] == v).sum()))


def written_adjacency(batch, graph, size):
    """Sorted, padded and cropped adjacency matrix of one graph."""
    nodes = sorted_nodes(batch, graph)[:size]
    edges = set(map(tuple, batch.edge_index.T.tolist()))
    matrix = [[0] * size for _ in range(size)]
    for i, u in enumerate(nodes):
        for j, v in enumerate(nodes):
            matrix[i][j] = int((u, v) in edges)
    return matrix


def store_batches(nodes="constant", edges="none", kind="multiclass", graphs=40, missing=0.1, seed=0):
    store = random_store(kind, graphs=graphs, nodes=nodes, edges=edges, missing=missing, seed=seed)
    return [store.batch(part) for part in torch.arange(graphs).split(13)]


def estimate(nodes="constant", edges="none", kind="multiclass", **options):
    batches = store_batches(nodes, edges, kind)
    classes = 3 if kind == "multiclass" else 2
    return estimate_graphons(batches, classes, NODES[nodes], EDGES[edges], **options), batches


@settings(max_examples=15, deadline=None, derandomize=True)
@given(seed=st.integers(0, 999), size=st.integers(1, 9), missing=st.sampled_from([0.0, 0.4, 1.0]))
def test_sums_of_sorted_padded_cropped_adjacencies(seed, size, missing):
    batch = whole(random_store(graphs=9, seed=seed, missing=missing))
    place = ranks(batch)
    for graph in range(9):
        for position, node in enumerate(sorted_nodes(batch, graph)):
            assert place[node] == position
    sums = adjacency_sums(batch, labels(batch), place, 3, size)
    for c in range(3):
        expected = torch.zeros(size, size, dtype=torch.long)
        for graph in range(9):
            if batch.y[graph, 0] == c:
                expected += torch.tensor(written_adjacency(batch, graph, size))
        assert sums[c].tolist() == expected.tolist()


def test_an_edge_stored_twice_is_one_edge():
    batch = whole(random_store(graphs=9))
    once = adjacency_sums(batch, labels(batch), ranks(batch), 3, 7)
    place = ranks(batch)
    batch.edge_index = torch.cat([batch.edge_index, batch.edge_index[:, :5]], dim=1)
    assert torch.equal(adjacency_sums(batch, labels(batch), place, 3, 7), once)


def test_small_singular_values_are_dropped():
    torch.manual_seed(0)
    mean = torch.rand(6, 6, dtype=torch.float64)
    mean = (mean + mean.T) / 2
    values, vectors = torch.linalg.eigh(mean)
    expected = torch.zeros(6, 6, dtype=torch.float64)
    for value, vector in zip(values, vectors.T, strict=True):
        if abs(value) >= 0.2 * math.sqrt(6):
            expected += value * torch.outer(vector, vector)
    found = singular_threshold(mean, 0.2)
    torch.testing.assert_close(found, expected.clamp(0, 1), rtol=1e-10, atol=1e-10)
    assert (found - mean).abs().max() > 0.01
    torch.testing.assert_close(singular_threshold(mean, 0.0), mean, rtol=1e-10, atol=1e-10)
    assert singular_threshold(mean, 100.0).abs().max() == 0


def test_graphons_are_thresholded_means_over_the_graphs_of_a_class():
    graphons, batches = estimate(size=5, threshold=0.3)
    for c in range(3):
        members = [
            written_adjacency(batch, g, 5) for batch in batches for g in range(len(batch.y)) if batch.y[g, 0] == c
        ]
        mean = torch.tensor(members, dtype=torch.float64).mean(0)
        torch.testing.assert_close(graphons.weights[c], singular_threshold(mean, 0.3), rtol=1e-10, atol=1e-10)
    assert graphons.classes.tolist() == [0, 1, 2]


def test_the_size_is_the_median_of_the_labelled_graphs():
    graphons, batches = estimate()
    sizes = sorted(n for b in batches for n, y in zip(b.ptr.diff().tolist(), b.y[:, 0], strict=True) if not y.isnan())
    middle = (sizes[(len(sizes) - 1) // 2] + sizes[len(sizes) // 2]) / 2
    assert graphons.weights.shape == (3, int(middle), int(middle))


def test_mean_features_are_means_over_all_graphs_that_reach_the_place():
    """A sum that is overwritten graph by graph would be the last graph's features."""
    graphons, batches = estimate("float", size=6)
    for c in range(3):
        for place in range(6):
            rows = []
            for batch in batches:
                for g in range(len(batch.y)):
                    nodes = sorted_nodes(batch, g)
                    if batch.y[g, 0] == c and len(nodes) > place:
                        rows.append(batch.x[nodes[place]].double())
            if rows:
                torch.testing.assert_close(graphons.means[c, place], torch.stack(rows).mean(0), rtol=1e-10, atol=1e-10)
            assert bool(rows) == (place < graphons.reach[c])


def graphons_of(first, second, **options):
    weights = torch.stack([torch.tensor(first, dtype=torch.float64), torch.tensor(second, dtype=torch.float64)])
    full = {"means": None, "nodes": None, "edges": None, "reach": torch.tensor([len(first)] * 2)}
    return Graphons(torch.arange(2), weights, **full | options)


def test_edges_occur_as_often_as_the_mixed_graphon_says():
    torch.manual_seed(0)
    size, draws = 4, 20_000
    first, second = (torch.rand(size, size).triu(1) for _ in range(2))
    graphons = graphons_of((first + first.T).tolist(), (second + second.T).tolist())
    batch, target = graphons.draw(draws, 0.3, 0.3)
    share = {0: 0.3, 1: 0.7}
    for c in (0, 1):
        chosen = target[:, 0] == share[c]
        expected = share[c] * first + (1 - share[c]) * second
        lost = (1 - expected[expected > 0]).prod()
        edges = torch.bincount(batch.batch[batch.edge_index[0]], minlength=len(target))[chosen].sum() / 2
        tried = chosen.sum() / (1 - lost)
        assert float(edges / tried) == pytest.approx(float(expected.sum()), rel=0.03)


def test_certain_edges_make_the_graph_itself():
    """A path on the first three of four places; the fourth is isolated and removed, with its features."""
    path = [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    means = torch.arange(8, dtype=torch.float64).view(2, 4, 1)
    batch, target = graphons_of(path, path, means=means).draw(3, 0.25, 0.25)
    assert batch.ptr.tolist() == [0, 3, 6, 9]
    assert batch.batch.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    edges = {tuple(pair) for pair in batch.edge_index.T.tolist()}
    assert edges == {(3 * g + u, 3 * g + v) for g in range(3) for u, v in ((0, 1), (1, 0), (1, 2), (2, 1))}
    for g in range(3):
        assert sorted(target[g].tolist()) == [0.25, 0.75]
        mixed = target[g, 0] * means[0, :3] + target[g, 1] * means[1, :3]
        torch.testing.assert_close(batch.x[3 * g : 3 * g + 3], mixed)


def test_graphs_without_an_edge_are_left_out_with_their_labels():
    torch.manual_seed(0)
    rare = [[0, 0.3], [0.3, 0]]
    batch, target = graphons_of(rare, rare).draw(200, 0.1, 0.1)
    assert 30 < len(target) < 90
    assert batch.ptr.diff().tolist() == [2] * len(target)
    nothing, none = graphons_of([[0.0]], [[0.0]]).draw(5, 0.1, 0.1)
    assert (len(nothing.x), nothing.ptr.tolist(), none.shape) == (0, [0], (0, 2))


def test_a_mixture_is_of_two_different_classes_that_exist():
    torch.manual_seed(0)
    recipe = Recipe.draw(500, torch.tensor([1, 4, 5]), 0.005, 0.01)
    pairs = set(zip(recipe.first.tolist(), recipe.second.tolist(), strict=True))
    assert pairs == {(a, b) for a in (1, 4, 5) for b in (1, 4, 5) if a != b}
    assert ((recipe.share >= 0.005) & (recipe.share <= 0.01)).all()
    target = recipe.target(6)
    assert torch.allclose(target.sum(1), torch.ones(500, dtype=torch.float64))
    assert torch.equal(target.argmax(1), recipe.second)
    torch.testing.assert_close(target.gather(1, recipe.first.unsqueeze(1)).squeeze(1), recipe.share)


@pytest.mark.parametrize("kind", ["multiclass", "binary"])
def test_codes_are_rows_that_nodes_of_the_class_have_at_that_place(kind):
    """A mean of codes is no code; and features must stay with their nodes."""
    graphons, batches = estimate("categorical", "categorical", kind, size=6)
    atoms, bonds = set(), set()
    for batch in batches:
        for g in range(len(batch.y)):
            if not batch.y[g, 0].isnan():
                atoms |= {(int(batch.y[g, 0]), p, *batch.x[v].tolist()) for p, v in enumerate(sorted_nodes(batch, g))}
        label = batch.y[batch.batch[batch.edge_index[0]], 0].nan_to_num(nan=-1).long().tolist()
        bonds |= {(c, *row) for c, row in zip(label, batch.edge_attr.tolist(), strict=True)}
    ones = torch.ones_like(graphons.weights)
    certain = Graphons(graphons.classes, ones, graphons.reach, None, graphons.nodes, graphons.edges)
    torch.manual_seed(1)
    drawn, target = certain.draw(50, 0.0, 0.0)
    chosen = target.argmax(1).tolist()
    for g in range(50):
        for place in range(6):
            seen = min(place, int(graphons.reach[chosen[g]]) - 1)
            assert (chosen[g], seen, *drawn.x[6 * g + place].tolist()) in atoms
    for number, graph in enumerate(drawn.batch[drawn.edge_index[0]].tolist()):
        assert (chosen[graph], *drawn.edge_attr[number].tolist()) in bonds
    half = drawn.edge_attr.shape[0] // 2
    assert torch.equal(drawn.edge_index[:, :half], drawn.edge_index[:, half:].flip(0))
    assert torch.equal(drawn.edge_attr[:half], drawn.edge_attr[half:])


def test_codes_come_from_both_classes_with_the_odds_of_the_mixture():
    bank = RowBank(2 * 2)
    bank.offer(torch.tensor([[0], [0], [1], [1]]), torch.arange(4))
    edge = [[0, 1], [1, 0]]
    torch.manual_seed(0)
    batch, target = graphons_of(edge, edge, nodes=bank).draw(4000, 0.2, 0.2)
    mostly_one = target[:, 1] == 0.8
    codes = batch.x.view(-1, 2)[mostly_one].double()
    assert codes.mean() == pytest.approx(0.8, abs=0.02)


def test_a_bank_keeps_a_uniform_choice_of_bounded_size():
    torch.manual_seed(0)
    kept = Counter()
    for _ in range(300):
        bank = RowBank(3, limit=4)
        for first in range(0, 20, 7):
            rows = torch.arange(first, min(first + 7, 20)).unsqueeze(1)
            bank.offer(rows, (rows.squeeze(1) >= 18).long() * 2)
        assert bank.counts.tolist() == [4, 0, 2]
        assert sorted(bank.rows[4:, 0].tolist()) == [18, 19]
        kept.update(bank.rows[:4, 0].tolist())
    assert set(kept) == set(range(18))
    assert max(kept.values()) < 2 * min(kept.values())


def test_a_bank_draws_every_row_of_a_key_and_no_other():
    bank = RowBank(3)
    bank.offer(torch.tensor([[7, 7], [1, 1], [2, 2]]), torch.tensor([2, 0, 0]))
    torch.manual_seed(0)
    drawn = bank.draw(torch.tensor([0] * 40 + [2] * 5))
    assert {tuple(row) for row in drawn[:40].tolist()} == {(1, 1), (2, 2)}
    assert drawn[40:].tolist() == [[7, 7]] * 5
    assert bank.draw(torch.empty(0, dtype=torch.long)).shape == (0, 2)


def test_nothing_to_mix_without_two_classes_that_have_edges():
    batches = store_batches()
    for y in (torch.full((40, 1), math.nan), torch.zeros(40, 1)):
        for batch in batches:
            batch.y = y[batch.index]
        assert estimate_graphons(batches, 3, NODES["constant"], EDGES["none"]) is None
    edgeless = Estimate(3, 4, NODES["constant"], EDGES["none"], torch.device("cpu"))
    assert edgeless.graphons(0.2) is None
    assert estimate_graphons([], 3, NODES["constant"], EDGES["none"]) is None


@pytest.mark.parametrize(("nodes", "edges"), [("constant", "none"), ("float", "float"), ("categorical", "categorical")])
def test_joined_graphs_lie_one_after_the_other(nodes, edges):
    graphons, _ = estimate(nodes, edges, size=6)
    batch = whole(random_store(nodes=nodes, edges=edges, graphs=5))
    torch.manual_seed(0)
    more, target = graphons.draw(4, 0.1, 0.2)
    both = join(batch, more)
    n, nodes_before = len(batch.y), len(batch.batch)
    assert both.ptr.numel() - 1 == n + len(target)
    assert torch.equal(both.ptr.diff(), torch.cat([batch.ptr.diff(), more.ptr.diff()]))
    assert torch.equal(both.batch, torch.arange(n + len(target)).repeat_interleave(both.ptr.diff()))
    assert both.x.dtype == batch.x.dtype
    torch.testing.assert_close(both.x[nodes_before:], more.x.to(batch.x.dtype))
    edges_before = batch.edge_index.shape[1]
    assert torch.equal(both.edge_index[:, edges_before:] - nodes_before, more.edge_index)
    assert torch.equal(both.edge_index[:, :edges_before], batch.edge_index)
    assert (both.edge_attr is None) == (edges == "none")
    assert both.edge_attr is None or len(both.edge_attr) == both.edge_index.shape[1]
