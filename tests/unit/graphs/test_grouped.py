"""Batches with equally many graphs of several environments, in an order that is a function of (seed, epoch)."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mphil.graphs.loader import Loader, grouped_order
from tests.graphs import random_store

STORE = random_store(graphs=80)


@st.composite
def cases(draw):
    """A loader on a part of a store, with environments of very different sizes, -1 among them."""
    env = torch.tensor(draw(st.lists(st.integers(-1, 4), min_size=4, max_size=40)))
    groups = draw(st.integers(1, len(env.unique())))
    batch_size = draw(st.integers(groups, 3 * groups + 2))
    graphs = torch.arange(40, 40 + len(env))
    everywhere = torch.full((80,), 9)
    everywhere[graphs] = env
    return Loader(replace(STORE, env=everywhere), graphs, batch_size, env_per_batch=groups)


def orders(batches):
    return [batch.index.tolist() for batch in batches]


@given(cases(), st.integers(0, 50), st.integers(0, 50))
def test_every_batch_has_as_many_graphs_of_each_of_its_environments(loader, seed, epoch):
    groups, size = loader.env_per_batch, loader.batch_size // loader.env_per_batch
    batches = list(loader.epoch(seed, epoch))
    assert len(batches) == len(loader) == -(-len(loader.graphs) // loader.batch_size)
    for batch in batches:
        present, counts = batch.env.unique(return_counts=True)
        assert len(present) == groups
        assert counts.tolist() == [size] * groups
        assert set(batch.index.tolist()) <= set(loader.graphs.tolist())
        for number in present:
            own = batch.index[batch.env == number]
            if (loader.store.env[loader.graphs] == number).sum() >= size:
                assert len(own.unique()) == size, "graphs repeat only where there are too few"


@given(cases(), st.integers(0, 5), st.integers(0, 5), st.integers(0, 12))
def test_a_resumed_epoch_yields_the_tail(loader, seed, epoch, start):
    before = torch.get_rng_state()
    whole = orders(loader.epoch(seed, epoch))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(123)
    assert orders(loader.epoch(seed, epoch, start)) == whole[start:]


@given(cases(), st.integers(1, 4))
def test_shares_make_up_the_batches(loader, processes):
    shares = [
        orders(
            Loader(
                loader.store, loader.graphs, loader.batch_size, "cpu", (rank, processes), loader.env_per_batch
            ).epoch(3, 1)
        )
        for rank in range(processes)
    ]
    for number, batch in enumerate(orders(loader.epoch(3, 1))):
        assert sorted(graph for share in shares for graph in share[number]) == sorted(batch)


def test_seeds_and_epochs_give_other_orders():
    env = torch.arange(60) % 6
    found = {tuple(grouped_order(env, 3, 4, 5, seed, epoch).tolist()) for seed in range(3) for epoch in range(3)}
    assert len(found) == 9


def test_every_graph_comes_up_and_environments_are_equally_likely():
    env = torch.tensor([0] * 90 + [1] * 6 + [2] * 3 + [-1])
    drawn = torch.cat([grouped_order(env, 2, 5, 10, 0, epoch) for epoch in range(200)])
    assert len(drawn.unique()) == 100
    counts = env[drawn].unique(return_counts=True)[1] / len(drawn)
    assert counts.tolist() == pytest.approx([0.25] * 4, abs=0.01)


def test_the_stored_order_knows_no_environments():
    store = random_store(graphs=10, environments=3)
    assert orders(Loader(store, torch.arange(10), 4, env_per_batch=2)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_no_graphs_no_batches():
    assert orders(Loader(random_store(), torch.arange(0), 4, env_per_batch=2).epoch(0, 0)) == []
