"""What every encoder must do, whatever its kind."""

from __future__ import annotations

import copy

import pytest
import torch

from mphil.nn.encoders import ENCODERS, build_encoder, summary
from tests.graphs import random_store, small_encoder, whole

KINDS = ("gat", "gcn", "gin", "gps", "vgin")
KINDS_OF_NODES, KINDS_OF_EDGES = ("constant", "float", "categorical"), ("none", "float", "categorical")


def made(kind, *, nodes="categorical", edges="categorical", graphs=8, embedded=False):
    """An encoder in double precision and evaluation mode, with statistics that are not 0 and 1, and its graphs."""
    torch.manual_seed(1)
    store = random_store(nodes=nodes, edges=edges, graphs=graphs, seed=3)
    encoder = build_encoder(small_encoder(store, kind=kind, layers=3, width=8), embedded=embedded).double()
    batch = whole(store, torch.float64)
    encoder.train()(batch, x=torch.randn(len(batch.x), 8, dtype=torch.float64) if embedded else None)
    return encoder.eval(), store, batch


def renumbered(batch, order):
    """The same graphs, whose nodes have other numbers: node order[i] becomes i. Graphs stay where they are."""
    number = order.argsort()
    other = copy.copy(batch)
    other.x, other.edge_index = batch.x[order], number[batch.edge_index]
    return other


def within_graphs(batch):
    """A random order of the nodes that leaves every node in the place of its graph."""
    return (batch.batch.double() + torch.rand(len(batch.batch))).argsort()


def test_the_table_is_what_this_file_tests():
    assert tuple(ENCODERS) == KINDS
    assert all(summary(kind).endswith(".") for kind in KINDS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("edges", KINDS_OF_EDGES)
@pytest.mark.parametrize("nodes", KINDS_OF_NODES)
def test_gives_a_row_a_node_for_all_features(kind, nodes, edges):
    encoder, _, batch = made(kind, nodes=nodes, edges=edges)
    out = encoder(batch)
    assert out.shape == (len(batch.x), 8)
    assert out.isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
def test_does_not_see_the_order_of_nodes(kind):
    encoder, _, batch = made(kind)
    order = within_graphs(batch)
    torch.testing.assert_close(encoder(renumbered(batch, order)), encoder(batch)[order])


@pytest.mark.parametrize("kind", KINDS)
def test_does_not_see_the_other_graphs_of_a_batch(kind):
    encoder, store, batch = made(kind)
    alone = [encoder(store.batch(torch.tensor([graph]))) for graph in range(len(store))]
    torch.testing.assert_close(encoder(batch), torch.cat(alone))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("edges", ["none", "categorical"])
def test_an_edge_of_weight_0_is_no_edge_and_one_of_weight_1_an_edge(kind, edges):
    encoder, _, batch = made(kind, edges=edges)
    kept = torch.rand(batch.edge_index.shape[1]) < 0.5
    without = copy.copy(batch)
    without.edge_index = batch.edge_index[:, kept]
    if edges != "none":
        without.edge_attr = batch.edge_attr[kept]
    torch.testing.assert_close(encoder(batch, edge_weight=kept.double()), encoder(without))
    torch.testing.assert_close(encoder(batch, edge_weight=torch.ones_like(kept).double()), encoder(batch))
    assert not torch.allclose(encoder(without), encoder(batch))


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_of_weight_0_is_not_heard(kind):
    encoder, store, batch = made(kind, nodes="float", edges="none")
    graph = int(store.n_nodes.argmax())
    hidden = int(batch.ptr[graph])
    weight = torch.ones(len(batch.x), dtype=torch.float64)
    weight[hidden] = 0
    other = copy.copy(batch)
    other.x = batch.x.clone()
    other.x[hidden] += 3
    rest = torch.arange(len(batch.x)) != hidden
    torch.testing.assert_close(encoder(other, node_weight=weight)[rest], encoder(batch, node_weight=weight)[rest])
    assert not torch.allclose(encoder(other)[rest], encoder(batch)[rest])
    torch.testing.assert_close(encoder(batch, node_weight=torch.ones_like(weight)), encoder(batch))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_reach_all_weights_and_the_weights_of_edges(kind):
    encoder, _, batch = made(kind)
    weight = torch.rand(batch.edge_index.shape[1], dtype=torch.float64, requires_grad=True)
    (encoder(batch, edge_weight=weight) * torch.randn(len(batch.x), 8)).sum().backward()
    still = [name for name, p in encoder.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    # The first layer runs before the virtual node speaks, and nobody hears what it gathers last.
    assert [name for name in still if not name.startswith("virtual")] == []
    assert (weight.grad != 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_goes_on_from_given_features(kind):
    encoder, _, batch = made(kind, embedded=True)
    assert encoder.embed is None
    x = torch.randn(len(batch.x), 8, dtype=torch.float64)
    out = encoder(batch, x=x)
    assert out.shape == (len(batch.x), 8)
    assert not torch.allclose(out, encoder(batch, x=2 * x))
    with pytest.raises(ValueError, match="needs x"):
        encoder(batch)


@pytest.mark.parametrize("kind", KINDS)
def test_x_stands_for_what_the_input_layer_makes(kind):
    encoder, _, batch = made(kind)
    torch.testing.assert_close(encoder(batch, x=encoder.embed(batch.x)), encoder(batch))


@pytest.mark.parametrize("kind", KINDS)
def test_takes_graphs_without_edges_and_without_nodes(kind):
    encoder, _, batch = made(kind)
    bare = copy.copy(batch)
    bare.edge_index, bare.edge_attr = batch.edge_index[:, :0], batch.edge_attr[:0]
    assert encoder(bare).shape == (len(batch.x), 8)
    bare.ptr = torch.cat([batch.ptr[:1], batch.ptr])
    bare.batch = batch.batch + 1
    assert encoder(bare).shape == (len(batch.x), 8)
