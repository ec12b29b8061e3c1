"""The diffusion against a dense inverse, the estimator against its definition."""

from __future__ import annotations

from math import exp, log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.nn.infomax import Infomax, diffusion, jensen_shannon, spread
from tests.graphs import random_store, small_encoder, whole


def written_diffusion(batch, restart=0.2):
    """(N, N) over the whole batch at once; zero between graphs."""
    n = len(batch.batch)
    adjacency = torch.eye(n, dtype=torch.float64)
    for u, v in batch.edge_index.T.tolist():
        adjacency[v, u] += 1
    scale = torch.diag(adjacency.sum(1) ** -0.5)
    return restart * torch.linalg.inv(torch.eye(n, dtype=torch.float64) - (1 - restart) * scale @ adjacency @ scale)


@settings(max_examples=15, derandomize=True)
@given(st.integers(1, 12), st.integers(0, 99))
def test_the_diffusion_is_the_dense_one_whatever_the_sizes(graphs, seed):
    batch = whole(random_store(graphs=graphs, seed=seed), torch.float64)
    nodes = torch.randn(len(batch.batch), 3, dtype=torch.float64)
    blocks = diffusion(batch, torch.float64)
    torch.testing.assert_close(spread(nodes, blocks), written_diffusion(batch) @ nodes, rtol=0, atol=1e-10)
    assert sum(block.matrix.numel() for block in blocks) <= 4 * sum(size**2 for size in batch.ptr.diff().tolist())


def test_single_precision_is_close():
    batch = whole(random_store(graphs=8))
    nodes = torch.randn(len(batch.batch), 3)
    dense = written_diffusion(batch).float() @ nodes
    torch.testing.assert_close(spread(nodes, diffusion(batch, torch.float32)), dense, rtol=1e-5, atol=1e-5)


def test_a_walk_that_stays_at_home():
    batch = whole(random_store(graphs=5), torch.float64)
    nodes = torch.randn(len(batch.batch), 2, dtype=torch.float64)
    torch.testing.assert_close(spread(nodes, diffusion(batch, torch.float64, restart=1.0)), nodes)


def written_estimate(graphs, nodes, owner, hidden):
    own, other = [], []
    for g in range(len(graphs)):
        for v in range(len(nodes)):
            s = sum(a * b for a, b in zip(graphs[g].tolist(), nodes[v].tolist(), strict=True))
            softplus = log(1 + exp(-s))
            if owner[v] == g and not hidden[v]:
                own.append(log(2) - softplus)
            else:
                other.append(softplus + s - log(2))
    return (sum(other) / len(other) if other else 0.0) - (sum(own) / len(own) if own else 0.0)


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("graphs", [1, 6])
def test_the_estimator(graphs, share):
    batch = whole(random_store(graphs=graphs), torch.float64)
    torch.manual_seed(0)
    n = len(batch.batch)
    g, h = torch.randn(graphs, 4, dtype=torch.float64), torch.randn(n, 4, dtype=torch.float64)
    hidden = torch.arange(n) < share * n
    found = jensen_shannon(g, h, batch, hidden if share else None)
    assert found.item() == pytest.approx(written_estimate(g, h, batch.batch.tolist(), hidden.tolist()), abs=1e-10)


@pytest.mark.parametrize(("nodes", "edges"), [("constant", "none"), ("categorical", "categorical"), ("float", "float")])
def test_the_loss_pairs_each_view_with_the_other_and_the_embedding_is_their_sum(nodes, edges):
    store = random_store(graphs=6, nodes=nodes, edges=edges)
    torch.manual_seed(0)
    model = Infomax(small_encoder(store, kind="vgin", layers=3), width=8, layers=2).double().eval()
    batch = whole(store, torch.float64)
    (h1, h2), (g1, g2) = model(batch)
    none = [False] * len(batch.batch)
    owner = batch.batch.tolist()
    expected = (written_estimate(g1, h2, owner, none) + written_estimate(g2, h1, owner, none)) / 2
    assert model.loss(batch).item() == pytest.approx(expected, abs=1e-10)
    torch.testing.assert_close(model.embed(batch), g1 + g2)


def test_the_embedding_of_a_graph_does_not_depend_on_its_batch():
    store = random_store(graphs=9)
    model = Infomax(small_encoder(store), width=8, layers=2).double().eval()
    together = model.embed(whole(store, torch.float64))
    for i in range(len(store)):
        alone = model.embed(whole(store.select(torch.tensor([i])), torch.float64))
        torch.testing.assert_close(alone[0], together[i])


def test_training_tells_graphs_apart():
    store = random_store(graphs=10, nodes="categorical")
    torch.manual_seed(0)
    model = Infomax(small_encoder(store), width=16, layers=2)
    batch = whole(store)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(30):
        loss = model.loss(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.3


def test_places_a_part_in_order_and_nothing_of_an_empty_one():
    store = random_store("multitask", graphs=7, missing=0.3)
    model = Infomax(small_encoder(store), width=8, layers=2).eval()
    halves = [store.batch(torch.tensor([4, 2, 6])), store.batch(torch.tensor([0]))]
    index, y, points = model.place(halves)
    assert index.tolist() == [4, 2, 6, 0]
    assert torch.equal(y.nan_to_num(9), store.y[index].nan_to_num(9))
    torch.testing.assert_close(points[:3], model.embed(halves[0]))
    assert model.place([]) == ()
