"""The encoder against the same network written in plain PyG, in float64."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import global_add_pool, global_max_pool, global_mean_pool
from torch_geometric.utils import softmax

from mphil.config import EncoderConfig
from mphil.graphs.features import Features
from mphil.graphs.store import Batch, GraphStore
from mphil.nn.encoders import Encoder, blocks, build_encoder
from mphil.nn.encoders import fast_gin as encoder_module
from mphil.nn.encoders.blocks import BatchNorm, CodeEmbedding, mlp
from mphil.nn.fast.library import products_pay, status
from mphil.nn.fast.linear import sparse_linear
from mphil.nn.randomness import Dropout
from mphil.nn.readout import readout
from tests.graphs import random_store, small_encoder, whole
from tests.unit.nn.oracle import PlainEncoder, parameter_pairs, plain_copy, statistics

KINDS = ("gin", "vgin")
DEPTHS = [("gin", layers) for layers in range(1, 6)] + [("vgin", layers) for layers in range(3, 6)]
FEATURES = {
    "molecules": ("categorical", "categorical"),
    "codes": ("categorical", "none"),
    "floats": ("float", "none"),
    "floats, float edges": ("float", "float"),
    "floats, code edges": ("float", "categorical"),
    "constant": ("constant", "none"),
    "constant, code edges": ("constant", "categorical"),
}
SOME_FEATURES = ("molecules", "floats", "floats, code edges", "constant")
POOLS = {"mean": global_mean_pool, "sum": global_add_pool, "max": global_max_pool}


@dataclass
class Pair:
    """Our encoder, the plain one with the same weights, and a batch."""

    ours: Encoder
    plain: PlainEncoder
    batch: Batch

    def agree(self, **weights: Tensor) -> Tensor:
        """Outputs agree; returns ours."""
        out = self.ours(self.batch, **weights)
        close(out, self.plain(self.batch, **weights))
        return out

    def agree_in_gradients(self, **weights: Tensor) -> None:
        """Outputs, and gradients in every parameter and in all float inputs, agree."""
        inputs = [v for v in (self.batch.x, self.batch.edge_attr) if v is not None and v.is_floating_point()]
        inputs += weights.values()
        for tensor in inputs:
            tensor.requires_grad_()
        out, expected = self.ours(self.batch, **weights), self.plain(self.batch, **weights)
        close(out, expected)
        towards = torch.randn_like(out)
        mine, theirs = zip(*parameter_pairs(self.ours, self.plain), strict=True)
        flat = [part for parts in theirs for part in parts]
        got = gradients(out, towards, [*mine, *inputs])
        wanted = gradients(expected, towards, [*flat, *inputs])
        for parts, gradient in zip(theirs, got, strict=False):
            close(gradient, torch.cat([wanted.pop(0) for _ in parts]))
        for left, right in zip(got[len(mine) :], wanted, strict=True):
            close(left, right)


def gradients(out: Tensor, towards: Tensor, of: list[Tensor]) -> list[Tensor]:
    return list(torch.autograd.grad(out, of, towards, allow_unused=True, materialize_grads=True))


def close(left: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-10)


def store_of(features: str, graphs: int = 12, seed: int = 0) -> GraphStore:
    nodes, edges = FEATURES[features]
    return random_store(nodes=nodes, edges=edges, graphs=graphs, seed=seed)


def make(store: GraphStore, *, training: bool = True, **options) -> Pair:
    """An encoder with nothing at its initial value, and its copy."""
    torch.manual_seed(0)
    config = small_encoder(store, **options)
    ours = build_encoder(config).double().train(training)
    with torch.no_grad():
        for norm in (m for m in ours.modules() if isinstance(m, BatchNorm)):
            norm.weight.uniform_(0.5, 1.5)
            norm.bias.normal_()
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2.0)
    return Pair(ours, plain_copy(ours, config), whole(store, torch.float64))


def only(batch: Batch, edges: Tensor) -> Batch:
    """The batch with these edges alone."""
    rest = batch.clone()
    rest.edge_index = batch.edge_index[:, edges]
    rest.edge_attr = None if batch.edge_attr is None else batch.edge_attr[edges]
    return rest


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize(("kind", "layers"), DEPTHS)
@pytest.mark.parametrize("features", FEATURES)
def test_agrees_with_plain_pyg(kind, features, layers, training):
    pair = make(store_of(features), kind=kind, layers=layers, training=training)
    pair.agree_in_gradients()
    for mine, theirs in zip(statistics_in_order(pair.ours), statistics_in_order(pair.plain), strict=True):
        close(mine, theirs)


def statistics_in_order(encoder: nn.Module) -> list[Tensor]:
    return sorted(statistics(encoder), key=lambda value: (len(value), value.sum().item()))


def same_draws(*_: object) -> None:
    torch.manual_seed(1)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("rate", [0.1, 0.5])
@pytest.mark.parametrize("features", FEATURES)
def test_agrees_under_dropout(features, rate, weighted, monkeypatch):
    """The same features are dropped; most are, and without edge features only the others are multiplied."""
    sparse = []
    monkeypatch.setattr(encoder_module, "sparse_linear", lambda *given: sparse.append(given) or sparse_linear(*given))
    pair = make(store_of(features), layers=4, dropout=rate)
    pair.plain.dropout = Dropout(rate)
    for encoder in (pair.ours, pair.plain):
        encoder.register_forward_pre_hook(same_draws)
    weights = {"edge_weight": torch.rand(pair.batch.edge_index.shape[1], dtype=torch.float64)} if weighted else {}
    pair.agree_in_gradients(**weights)
    for mine, theirs in zip(statistics_in_order(pair.ours), statistics_in_order(pair.plain), strict=True):
        close(mine, theirs)
    pays = status("double").library is not None and products_pay()
    assert len(sparse) == (3 if pays and rate == 0.5 and pair.batch.edge_attr is None else 0)


@pytest.mark.parametrize("features", ["floats", "floats, float edges", "constant"])
def test_gradients_of_gradients_under_dropout(features):
    """Also where rows are padded in memory, which a width of five asks for."""
    encoder = make(store_of(features), layers=3, width=5, dropout=0.5).ours
    weights = list(encoder.parameters())
    out = encoder(whole(store_of(features), torch.float64))
    first = torch.autograd.grad(out.square().sum(), weights, create_graph=True)
    second = torch.autograd.grad(sum(one.square().sum() for one in first), weights, materialize_grads=True)
    assert all(one.isfinite().all() for one in second)
    assert any(one.any() for one in second)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", KINDS)
def test_agrees_on_other_graphs(kind, seed):
    make(store_of("molecules", graphs=20, seed=seed), kind=kind, layers=3, width=9).agree_in_gradients()


@pytest.mark.parametrize("features", SOME_FEATURES)
@pytest.mark.parametrize("kind", KINDS)
def test_graphs_without_edges(kind, features):
    # Bare nodes without edges are all equal: normalising a variance of zero leaves nothing but rounding to compare.
    pair = make(store_of(features), kind=kind, layers=3, training=features != "constant")
    none = torch.zeros(pair.batch.edge_index.shape[1], dtype=torch.bool)
    pair.batch = only(pair.batch, none)
    pair.agree_in_gradients()


@pytest.mark.parametrize("kind", KINDS)
def test_graphs_of_one_node(kind):
    store = store_of("molecules", graphs=60)
    single = store.select((store.n_nodes == 1).nonzero().flatten())
    assert len(single) > 1
    make(single, kind=kind, layers=3).agree_in_gradients()


def test_isolated_nodes_occur_in_these_tests():
    batch = whole(store_of("molecules"))
    degree = batch.edge_index[1].bincount(minlength=len(batch.x))
    size = batch.ptr.diff()[batch.batch]
    assert ((degree == 0) & (size > 1)).any()


@pytest.mark.parametrize("training", [True, False])
def test_one_graph(training):
    store = store_of("molecules")
    large = store.select(store.n_nodes.argmax().view(1))
    make(large, layers=3, training=training).agree_in_gradients()


def test_one_graph_with_a_virtual_node_takes_running_statistics_for_it():
    store = store_of("molecules")
    pair = make(store.select(store.n_nodes.argmax().view(1)), kind="vgin", layers=4)
    pair.plain.virtual_network.eval()
    pair.agree_in_gradients()


@pytest.mark.parametrize("features", ["molecules", "floats, float edges", "constant"])
@pytest.mark.parametrize("kind", KINDS)
def test_one_node_takes_running_statistics_everywhere(kind, features):
    store = store_of(features, graphs=60)
    pair = make(store.select((store.n_nodes == 1).nonzero().flatten()[:1]), kind=kind, layers=3)
    assert len(pair.batch.x) == 1
    pair.plain.eval()
    before = [value.clone() for value in statistics(pair.ours)]
    pair.agree_in_gradients()
    assert all(torch.equal(a, b) for a, b in zip(before, statistics(pair.ours), strict=True))


@pytest.mark.parametrize("training", [True, False])
def test_the_normalisations_after_the_layers_may_be_in_another_mode(training):
    pair = make(store_of("molecules"), layers=3, training=training)
    pair.ours.norms.train(not training)
    pair.plain.norms.train(not training)
    pair.agree_in_gradients()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("gradients", [True, False])
def test_the_normalisation_of_a_hidden_layer_may_be_in_another_mode(training, gradients):
    torch.manual_seed(0)
    ours = mlp(4, 8, 3).double().train(training)
    ours[1].train(not training)
    plain = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).double()
    plain.load_state_dict(ours.state_dict())
    plain[1].train(not training)
    x = torch.randn(20, 4, dtype=torch.float64)
    with torch.set_grad_enabled(gradients):
        out = ours(x)
        close(out, plain(x))
    assert out.requires_grad == gradients
    for mine, theirs in zip(ours.buffers(), plain.buffers(), strict=True):
        close(mine, theirs)


def test_batch_norm_is_the_usual_one_from_two_rows_on():
    rows = torch.randn(2, 4, dtype=torch.float64)
    ours, plain = BatchNorm(4).double(), nn.BatchNorm1d(4).double()
    close(ours(rows), plain(rows))
    close(ours.running_var, plain.running_var)


@pytest.mark.parametrize("loops", [True, False])
def test_batch_norm_counts_a_row_as_often_as_it_is_told(loops, monkeypatch):
    """With the compiled loops, if there are any, and without them."""
    if not loops:
        monkeypatch.setattr(blocks, "kernels", lambda like: None)
    rows, counts = torch.randn(3, 4, dtype=torch.float64), torch.tensor([1, 5, 2])
    ours, plain = BatchNorm(4).double(), nn.BatchNorm1d(4).double()
    close(ours(rows, counts).repeat_interleave(counts, 0), plain(rows.repeat_interleave(counts, 0)))
    for mine, theirs in zip(ours.buffers(), plain.buffers(), strict=True):
        close(mine, theirs)


@pytest.mark.parametrize("how", POOLS)
@pytest.mark.parametrize("kind", KINDS)
def test_readout_agrees_with_pyg_pools(kind, how):
    pair = make(store_of("floats"), kind=kind, layers=3, training=False)
    pair.batch.x.requires_grad_()
    pooled = readout(pair.ours(pair.batch), pair.batch.ptr, how)
    expected = POOLS[how](pair.plain(pair.batch), pair.batch.batch)
    close(pooled, expected)
    towards = torch.randn_like(pooled)
    close(*(gradients(out, towards, [pair.batch.x])[0] for out in (pooled, expected)))


@pytest.mark.parametrize("features", SOME_FEATURES)
@pytest.mark.parametrize("kind", KINDS)
class TestEdgeWeight:
    def test_ones_are_nothing(self, kind, features):
        pair = make(store_of(features), kind=kind, layers=3)
        ones = torch.ones(pair.batch.edge_index.shape[1], dtype=torch.float64)
        close(pair.ours(pair.batch, edge_weight=ones), pair.ours(pair.batch))

    def test_zero_removes_the_edge(self, kind, features):
        pair = make(store_of(features), kind=kind, layers=3)
        kept = torch.rand(pair.batch.edge_index.shape[1]) < 0.6
        close(pair.ours(pair.batch, edge_weight=kept.double()), pair.plain(only(pair.batch, kept)))

    def test_any_weight(self, kind, features):
        pair = make(store_of(features), kind=kind, layers=3)
        pair.agree_in_gradients(edge_weight=torch.rand(pair.batch.edge_index.shape[1], dtype=torch.float64) * 3 - 1)


@pytest.mark.parametrize("features", SOME_FEATURES)
@pytest.mark.parametrize("kind", KINDS)
class TestNodeWeight:
    def test_any_weight(self, kind, features):
        pair = make(store_of(features), kind=kind, layers=4)
        pair.agree_in_gradients(
            node_weight=torch.rand(len(pair.batch.x), dtype=torch.float64),
            edge_weight=torch.rand(pair.batch.edge_index.shape[1], dtype=torch.float64),
        )

    def test_zero_hides_the_node_from_all_others(self, kind, features):
        """Whatever a hidden node carries, the others do not notice; where all see it, they do."""
        pair = make(store_of(features), kind=kind, layers=3, width=24, training=False)
        node = pair.batch.edge_index[0, 0]
        visible = torch.ones(len(pair.batch.x), dtype=torch.float64)
        visible[node] = 0
        others = visible > 0
        x = pair.ours.embed(pair.batch.x)
        changed = x.detach().clone()
        changed[node] += torch.randn_like(changed[node])
        hidden = [pair.ours(pair.batch, x=value, node_weight=visible) for value in (x, changed)]
        assert torch.equal(hidden[0][others], hidden[1][others])
        assert not torch.allclose(hidden[0][node], hidden[1][node])
        seen = [pair.ours(pair.batch, x=value) for value in (x, changed)]
        assert not torch.allclose(seen[0][others], seen[1][others])


def test_zero_node_weight_without_virtual_node_is_the_graph_without_outgoing_edges():
    pair = make(store_of("molecules"), layers=3)
    weight = (torch.rand(len(pair.batch.x)) < 0.7).double()
    kept = weight[pair.batch.edge_index[0]] > 0
    close(pair.ours(pair.batch, node_weight=weight), pair.plain(only(pair.batch, kept)))


@pytest.mark.parametrize("features", SOME_FEATURES)
@pytest.mark.parametrize("kind", KINDS)
def test_x_replaces_the_embedded_input(kind, features):
    pair = make(store_of(features), kind=kind, layers=3)
    embedded = pair.ours.embed(pair.batch.x).detach()
    close(pair.ours(pair.batch, x=embedded), pair.plain(pair.batch, x=embedded))
    pair.batch.x = None
    other = torch.randn_like(embedded)
    pair.agree_in_gradients(x=other)


def test_a_weight_leaves_the_softmax_over_incoming_edges_free():
    """Attention over the edges of a node is an edge weight, gradient included: no hook into the encoder is needed."""
    pair = make(store_of("floats"), layers=2)
    scores = torch.randn(pair.batch.edge_index.shape[1], dtype=torch.float64, requires_grad=True)
    outs = [m(pair.batch, edge_weight=softmax(scores, pair.batch.edge_index[1])) for m in (pair.ours, pair.plain)]
    close(*(gradients(out, torch.ones_like(out), [scores])[0] for out in outs))


def test_dropout_follows_every_layer():
    store = store_of("molecules")
    torch.manual_seed(0)
    encoder = build_encoder(small_encoder(store, layers=3, width=64, dropout=0.5, kind="vgin"))
    out = encoder(whole(store))
    assert 0.4 < (out == 0).double().mean() < 0.6
    first, second = encoder.eval()(whole(store)), encoder(whole(store))
    assert torch.equal(first, second)
    assert (first != 0).all()


def test_no_relu_after_the_last_of_several_layers():
    store = store_of("molecules")
    for layers in (1, 2, 3):
        out = make(store, layers=layers).agree()
        assert (out < 0).any() == (layers > 1)


@pytest.mark.parametrize("features", SOME_FEATURES)
@pytest.mark.parametrize("kind", KINDS)
def test_runs_on_any_device(kind, features):
    """A device without memory: a tensor made on another one, or a value read back, would fail."""
    store = store_of(features)
    encoder = build_encoder(small_encoder(store, kind=kind, layers=3)).to("meta")
    batch = whole(store).to("meta")
    weights = {
        "edge_weight": torch.ones(batch.edge_index.shape[1], device="meta"),
        "node_weight": torch.ones(len(batch.x), device="meta"),
    }
    for training in (True, False):
        out = encoder.train(training)(batch, **weights)
        pooled = readout(out, batch.ptr, "mean")
        assert (out.device.type, tuple(out.shape)) == ("meta", (len(batch.x), encoder.width))
        assert (pooled.device.type, tuple(pooled.shape)) == ("meta", (len(store), encoder.width))


def test_code_embedding_is_xavier_uniform_by_column():
    torch.manual_seed(0)
    sizes, width = (119, 5, 2), 300
    tables = CodeEmbedding(sizes, width).table.split(sizes)
    for size, table in zip(sizes, tables, strict=True):
        bound = math.sqrt(6 / (size + width))
        assert 0.95 * bound < table.abs().max() <= bound
        assert abs(table.mean()) < 0.1 * bound


def test_codes_are_looked_up_in_their_own_column():
    embedding = CodeEmbedding((2, 3), 4)
    codes = torch.tensor([[1, 0], [0, 2]])
    expected = torch.stack([embedding.table[1] + embedding.table[2], embedding.table[0] + embedding.table[4]])
    assert torch.equal(embedding(codes), expected)


def test_state_holds_weights_and_statistics_only():
    encoder = build_encoder(
        EncoderConfig(node=Features("categorical", (3, 2)), edge=Features("categorical", (2,)), width=4)
    )
    names = encoder.state_dict()
    assert not any("starts" in name for name in names)
    assert {"embed.table", "layers.0.edge.table", "norms.0.running_mean"} <= names.keys()
