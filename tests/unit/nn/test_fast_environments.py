"""Nodes that look alike: found exactly, and computed once without anybody noticing."""

from __future__ import annotations

import math
from collections import Counter
from copy import deepcopy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mphil.errors import DataError
from mphil.graphs.store import Batch
from mphil.nn.encoders import Encoder, build_encoder
from mphil.nn.encoders import fast_gin as encoder_module
from mphil.nn.fast.environments import (
    Wiring,
    classes,
    countable,
    every_code,
    kinds,
    number_codes,
    share_wiring,
)
from mphil.nn.fast.library import status
from tests.graphs import random_store, small_encoder, whole
from tests.unit.nn.oracle import plain_copy, statistics

pytestmark = pytest.mark.skipif(status().library is None, reason=status().reason)
EMPTY = torch.empty(0, dtype=torch.long)


def environment(node: int, colour, source, target, code) -> tuple:
    """What a class is, in words of Python."""
    around = Counter(
        (0 if code is None else int(code[e]), int(colour[source[e]])) for e in range(len(source)) if target[e] == node
    )
    return int(colour[node]), frozenset(around.items())


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    nodes=st.integers(0, 25),
    edges=st.integers(0, 60),
    colours=st.integers(1, 4),
    coded=st.booleans(),
)
def test_classes_are_environments(seed, nodes, edges, colours, coded):
    draw = torch.Generator().manual_seed(seed)
    edges = edges if nodes else 0
    colour = torch.randint(colours, (nodes,), generator=draw)
    source, target = (torch.randint(max(nodes, 1), (edges,), generator=draw) for _ in range(2))
    code = torch.randint(3, (edges,), generator=draw) if coded else None
    label, first = classes(colour, source, target, code)
    seen: dict[tuple, int] = {}
    for node in range(nodes):
        expected = seen.setdefault(environment(node, colour, source, target, code), len(seen))
        assert label[node] == expected
    assert len(first) == len(seen)
    assert label[first].tolist() == list(range(len(first)))


@pytest.mark.parametrize("bad", [{"source": [2]}, {"target": [-1]}, {"code": [-1]}, {"colour": [0, 1 << 40]}])
def test_what_does_not_exist_is_refused(bad):
    given_ = {"colour": [0, 1], "source": [0], "target": [1], "code": [0]} | bad
    with pytest.raises(DataError):
        classes(*map(torch.tensor, given_.values()))


def test_code_numbers():
    sizes = (3, 2, 4)
    every = every_code(sizes)
    assert number_codes(every, sizes).tolist() == list(range(24))
    assert every_code((3,)).tolist() == [[0], [1], [2]]
    assert countable(sizes, 24)
    assert not countable(sizes, 23)
    assert not countable((), 24)


def test_it_is_left_alone_where_it_does_not_pay():
    assert share_wiring(torch.arange(10).unsqueeze(1), Wiring(EMPTY, EMPTY), depth=3) is None


@settings(max_examples=60)
@given(
    rows=st.lists(st.tuples(*[st.sampled_from([0.0, -0.0, 1.0, 0.1, math.nan])] * 3), max_size=20),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.float16]),
)
def test_kinds_are_rows_with_the_same_bits(rows, dtype):
    given_ = torch.tensor(rows, dtype=dtype).view(-1, 3)
    kind, first = kinds(given_)
    seen: dict[bytes, int] = {}
    for number, row in zip(kind.tolist(), given_, strict=True):
        assert number == seen.setdefault(row.numpy().tobytes(), len(seen))
    assert kind[first].tolist() == list(range(len(seen)))


def test_rows_with_gradients_of_their_own_are_not_shared():
    store = random_store(graphs=12, nodes="float", edges="float").select(torch.arange(30) % 12)
    encoder, batch = build_encoder(small_encoder(store)).double(), whole(store, torch.float64)
    assert classes_used(encoder, batch)
    batch.edge_attr.requires_grad_()
    assert not classes_used(encoder, batch)
    encoder(batch).square().sum().backward()
    assert (batch.edge_attr.grad != 0).any()
    batch.edge_attr = batch.edge_attr.detach()
    batch.x.requires_grad_()
    assert not classes_used(encoder, batch)


def plain_run(encoder: Encoder, batch: Batch, monkeypatch: pytest.MonkeyPatch) -> Tensor:
    """The same encoder, every node computed for itself."""
    with monkeypatch.context() as patch:
        patch.setattr(encoder_module, "share_wiring", lambda *_: None)
        patch.setattr(encoder_module, "WORTHWHILE", 0.0)
        return encoder(batch)


def classes_used(encoder: Encoder, batch: Batch) -> list[int]:
    """Rows of every layer that works on classes."""
    copy = deepcopy(encoder)  # an input layer may keep statistics
    wirings = encoder_module.fast_gin(copy, batch, None, None, *copy.bonds(batch)).wirings
    return [len(wiring.counts) for wiring in wirings if wiring.counts is not None]


STORES = {
    "molecules": {"nodes": "categorical", "edges": "categorical"},
    "codes": {"nodes": "categorical", "edges": "none"},
    "constant": {"nodes": "constant", "edges": "none"},
    "numbers": {"nodes": "float", "edges": "float"},
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("kind", ["gin", "vgin"])
@pytest.mark.parametrize("features", STORES)
@pytest.mark.parametrize("training", [True, False])
def test_nobody_notices(features, kind, dtype, training, monkeypatch):
    """Outputs, gradients and running statistics are those of nodes computed one by one, in float64."""
    store = random_store(graphs=12, seed=3, **STORES[features])
    store = store.select(torch.arange(30) % 12)
    torch.manual_seed(0)
    config = small_encoder(store, layers=3, width=16, kind=kind)
    shared, alone = build_encoder(config).to(dtype).train(training), build_encoder(config).double().train(training)
    alone.load_state_dict(shared.state_dict())
    batch = whole(store, dtype)
    used = classes_used(shared, batch)
    assert len(used) >= 1
    assert used[0] < 0.9 * len(batch.x)
    outs = shared(batch), plain_run(alone, whole(store, torch.float64), monkeypatch)
    close(*outs)
    for out in outs:
        (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)).sum().backward()
    largest = max(p.grad.abs().max() for p in alone.parameters() if p.grad is not None)
    for mine, theirs in zip(shared.parameters(), alone.parameters(), strict=True):
        if theirs.grad is not None:
            # In float32 a unit that is nearly at rest may be taken for one that is.
            close(mine.grad / largest, theirs.grad / largest, single=1e-4)
    for mine, theirs in zip(statistics(shared), statistics(alone), strict=True):
        close(mine, theirs)


def close(left: Tensor, right: Tensor, single: float = 1e-5) -> None:
    tolerance = 1e-10 if left.dtype == torch.float64 else single
    torch.testing.assert_close(left.double(), right, rtol=tolerance, atol=tolerance)


def test_all_layers_without_dropout_and_one_with_it():
    store = random_store(graphs=80, nodes="constant", edges="none")
    batch = whole(store)
    still = build_encoder(small_encoder(store, layers=3))
    assert len(classes_used(still, batch)) > 1
    dropping = build_encoder(small_encoder(store, layers=3, dropout=0.5))
    assert len(classes_used(dropping, batch)) == 1
    assert len(classes_used(dropping.eval(), batch)) > 1
    assert len(classes_used(build_encoder(small_encoder(store, layers=3, kind="vgin")).eval(), batch)) == 1


def test_dropout_treats_equal_nodes_differently(monkeypatch):
    """The mask is drawn for every node, and it is the same as without classes."""
    store = random_store(graphs=60, nodes="constant", edges="none")
    encoder, batch = (
        build_encoder(small_encoder(store, layers=1, width=16, dropout=0.5)).double(),
        whole(store, torch.float64),
    )
    outs = []
    for run in (encoder, lambda b: plain_run(encoder, b, monkeypatch)):
        torch.manual_seed(5)
        outs.append(run(batch))
    torch.testing.assert_close(*outs, rtol=1e-9, atol=1e-9)
    label = classes(torch.zeros(len(batch.x), dtype=torch.long), *batch.edge_index, None)[0]
    largest = outs[0][label == label.mode().values]
    assert len(largest.unique(dim=0)) > 1


@pytest.mark.parametrize("weights", ["edge_weight", "node_weight"])
def test_weighted_nodes_are_not_alike(weights):
    store = random_store(graphs=30, nodes="categorical", edges="categorical")
    torch.manual_seed(0)
    encoder = build_encoder(small_encoder(store, layers=2)).double().eval()
    batch = whole(store, torch.float64)
    n = len(batch.x) if weights == "node_weight" else batch.edge_index.shape[1]
    given_ = {weights: torch.rand(n, dtype=torch.float64)}
    expected = plain_copy(encoder, small_encoder(store, layers=2))(batch, **given_)
    torch.testing.assert_close(encoder(batch, **given_), expected, rtol=1e-10, atol=1e-10)


def test_values_that_are_not_constant_after_all():
    """A method may put other numbers where the data had ones."""
    store = random_store(graphs=30, nodes="constant", edges="none")
    encoder, batch = build_encoder(small_encoder(store, layers=2)).double().eval(), whole(store, torch.float64)
    batch.x = torch.rand_like(batch.x).round(decimals=1)
    expected = plain_copy(encoder, small_encoder(store, layers=2))(batch)
    torch.testing.assert_close(encoder(batch), expected, rtol=1e-10, atol=1e-10)
