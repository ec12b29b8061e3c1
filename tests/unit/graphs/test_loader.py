"""Batches, in an order that seed and epoch decide."""

import hashlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from mphil.errors import UsageError
from mphil.graphs.loader import Loader, derive_seed, epoch_order
from mphil.graphs.store import GraphStore

SMALL = st.integers(0, 50)
KEYS = st.tuples(SMALL, st.sampled_from(["order", "step", "weights"]), SMALL)
PINNED = 6483105604641719759


@pytest.fixture(scope="module")
def store():
    return GraphStore.from_pyg(
        Data(x=torch.full((1 + i % 3, 1), float(i)), edge_index=torch.zeros(2, i % 2, dtype=torch.long), y=i % 2)
        for i in range(20)
    )


@pytest.fixture(scope="module")
def loader(store):
    return Loader(store, torch.arange(3, 17), batch_size=4)


def orders(batches):
    return [batch.index.tolist() for batch in batches]


def test_stored_order(loader):
    assert orders(loader) == [[3, 4, 5, 6], [7, 8, 9, 10], [11, 12, 13, 14], [15, 16]]
    assert len(loader) == 4
    assert orders(loader) == orders(loader), "a loader can be walked again"


def test_epoch_holds_every_graph_once(loader):
    batches = orders(loader.epoch(seed=5, epoch=2))
    assert [len(batch) for batch in batches] == [4, 4, 4, 2]
    assert sorted(graph for batch in batches for graph in batch) == list(range(3, 17))


def test_order_is_a_function_of_seed_and_epoch(loader):
    reference = orders(loader.epoch(seed=1, epoch=1))
    torch.manual_seed(123)
    torch.rand(7)
    assert orders(loader.epoch(seed=1, epoch=1)) == reference
    others = [orders(loader.epoch(seed=s, epoch=e)) for s, e in [(0, 1), (1, 0), (2, 1), (1, 2)]]
    assert reference not in others


def test_order_leaves_the_global_generator_alone(loader):
    before = torch.get_rng_state()
    list(loader.epoch(seed=0, epoch=0))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("start", range(6))
def test_resumed_epoch_yields_the_tail(loader, start):
    assert orders(loader.epoch(7, 3, start=start)) == orders(loader.epoch(7, 3))[start:]


@pytest.mark.parametrize(("n", "size", "batches"), [(0, 3, 0), (1, 3, 1), (3, 3, 1), (4, 3, 2), (5, 100, 1), (5, 1, 5)])
def test_length_is_the_number_of_batches(store, n, size, batches):
    loader = Loader(store, torch.arange(n), size)
    assert len(loader) == batches == len(list(loader)) == len(list(loader.epoch(0, 0)))


@pytest.mark.parametrize("size", [0, -1])
def test_batch_size_is_positive(store, size):
    with pytest.raises(UsageError, match=f"at least 1, not {size}"):
        Loader(store, torch.arange(3), size)


def test_epoch_order_is_a_permutation():
    order = epoch_order(100, seed=0, epoch=0).tolist()
    assert sorted(order) == list(range(100))
    assert order != list(range(100))


def test_seed_is_the_same_on_every_machine():
    text = b"0,order,2"
    assert derive_seed(0, "order", 2) == int(hashlib.sha256(text).hexdigest()[:16], 16) // 2 == PINNED


@given(st.sets(KEYS, min_size=2, max_size=20))
def test_seeds_of_different_keys_differ(keys):
    assert len({derive_seed(*key) for key in keys}) == len(keys)


@pytest.mark.parametrize(
    ("one", "other"),
    [((1, "a"), (1, "b")), ((5 + 2**32, "a"), (5, "a")), ((1, "a", 23), (12, "a", 3)), ((1, "a"), (-1, "a"))],
)
def test_seeds_of_keys_that_look_alike_differ(one, other):
    assert derive_seed(*one) != derive_seed(*other)


@given(st.integers(-(2**70), 2**70), st.integers(-(2**70), 2**70))
def test_seed_fits_every_generator(seed, number):
    assert 0 <= derive_seed(seed, "step", number) < 2**63
