"""Any PyTorch module as an encoder."""

from __future__ import annotations

import copy

import pytest
import torch
from torch_geometric.nn import GAT, GCN, GIN, GraphSAGE

import mphil
from mphil.errors import UsageError
from mphil.methods import METHODS, build_method
from mphil.nn.encoders import admit, build_encoder
from mphil.nn.encoders.from_settings import takes_weights
from mphil.testing import method_checks
from tests.graphs import TASKS, random_store, small_encoder, whole
from tests.unit.nn.encoders import modules

HERE = modules.__name__
WEIGHING = (
    "aia",
    "ciga-v1",
    "ciga-v2",
    "dir",
    "disc",
    "disco",
    "dive",
    "gala",
    "gil",
    "gsat",
    "igm",
    "leci",
    "lirs",
    "prune",
)
PYG = tuple(f"torch_geometric.nn:{name}" for name in ("GraphSAGE", "GCN", "GIN", "GAT"))


def settings(name, store=None, **other):
    kind = name if ":" in name else f"{HERE}:{name}"
    return small_encoder(store or random_store(nodes="categorical", edges="categorical"), kind=kind, **other)


@pytest.mark.parametrize("kind", [*PYG, f"{HERE}:ByConfig", f"{HERE}:MustHaveWeights"])
@pytest.mark.parametrize("nodes", ["constant", "float", "categorical"])
@pytest.mark.parametrize("edges", ["none", "float", "categorical"])
def test_gives_a_row_a_node(kind, nodes, edges):
    store = random_store(nodes=nodes, edges=edges)
    config = settings(kind, store, width=8)
    admit(config)
    batch = whole(store)
    encoder = build_encoder(config).eval()
    assert encoder(batch).shape == (len(batch.x), 8)
    alone = [encoder(store.batch(torch.tensor([graph]))) for graph in range(len(store))]
    torch.testing.assert_close(encoder(batch), torch.cat(alone), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", PYG)
def test_pyg_models_are_trained(kind):
    data = mphil.benchmark("decoy-scaffold", graphs=120)
    encoder = {"kind": kind, "width": 16, "layers": 2, "dropout": 0.1}
    run = mphil.train(data, "erm", train={"epochs": 4, "batch_size": 24, "lr": 0.01}, encoder=encoder)
    losses = [sum(epoch["losses"].values()) for epoch in run.history]
    assert losses[-1] < losses[0]
    assert run.method.encoder.module.__class__.__name__ == kind.partition(":")[2]


def test_edges_and_graphs_are_handed_on_to_those_who_ask():
    store = random_store(nodes="float", edges="float", graphs=3)
    encoder, batch = build_encoder(settings("SeesEverything", store, width=8)), whole(store)
    encoder(batch)
    assert encoder.module.seen == {"edge_attr": (len(batch.edge_attr), 8), "batch": batch.batch.tolist()}
    assert build_encoder(settings(PYG[3], store)).module.convs[0].edge_dim == 6


@pytest.mark.parametrize("name", ["ByConfig", "MustHaveWeights", "torch_geometric.nn:GCN"])
def test_an_edge_of_weight_0_is_no_edge(name):
    store = random_store(nodes="float")
    encoder, batch = build_encoder(settings(name, store)).double().eval(), whole(store, torch.float64)
    kept = torch.rand(batch.edge_index.shape[1]) < 0.5
    without = copy.copy(batch)
    without.edge_index = batch.edge_index[:, kept]
    torch.testing.assert_close(encoder(batch, edge_weight=kept.double()), encoder(without))
    torch.testing.assert_close(encoder(batch, edge_weight=torch.ones(len(kept)).double()), encoder(batch))


def test_who_takes_weights():
    assert [takes_weights(cls) for cls in (GCN, modules.ByConfig)] == [True, True]
    # These have the argument, and pass it on to nobody.
    assert [takes_weights(cls) for cls in (GraphSAGE, GIN, GAT, modules.Narrow, modules.Own)] == [False] * 5


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Graphwise", r"kind='.*:Graphwise' must return shape \(5, 6\), .* not shape \(2, 6\)"),
        ("Narrow", r"must return shape \(5, 6\), .* not shape \(5, 1\)"),
        ("Pair", r"must return shape .* not a tuple"),
        ("OwnNarrow", r"must return shape .* not shape \(5, 1\)"),
        ("Fails", r"fails on two small graphs: RuntimeError: no luck"),
        ("WantsMore", r"forward must take x and edge_index.*it takes x, edge_index, positions"),
        ("WantsArguments", r"cannot be built with in_channels: .*temperature.*`config`"),
        ("NoNetwork", r"a subclass of torch.nn.Module is expected, and it is another kind of class"),
        ("NUMBER", r"a subclass of torch.nn.Module is expected, and it is a int"),
        ("Missing", r"there is no such name"),
        ("no_such_module.at_all:Net", r"cannot be imported \(ModuleNotFoundError.*PYTHONPATH.*--plugin"),
    ],
)
def test_refused_before_training(name, message):
    data = mphil.benchmark("good-motif-basis", graphs=60)
    kind = name if ":" in name else f"{HERE}:{name}"
    with pytest.raises(UsageError, match=message) as refusal:
        mphil.train(data, "erm", encoder={"kind": kind, "width": 6}, train={"epochs": 1, "batch_size": 8})
    assert "encoder.kind" in str(refusal.value)


def test_a_wrong_shape_is_refused_without_the_trial_too():
    store = random_store(nodes="float")
    with pytest.raises(UsageError, match="must return shape"):
        build_encoder(settings("Narrow", store))(whole(store))


def test_the_trial_draws_no_random_numbers():
    state = torch.get_rng_state()
    admit(settings("ByConfig"))
    assert torch.equal(torch.get_rng_state(), state)


class TestMethodsThatWeighEdges:
    @pytest.mark.parametrize("method", WEIGHING)
    def test_refuse_encoders_that_take_no_weights(self, method):
        store = random_store(nodes="float")
        message = (
            rf"{method} weighs edges, and encoder.kind='torch_geometric.nn:GraphSAGE' .* use gat, gcn, gin, gps, vgin"
        )
        with pytest.raises(UsageError, match=message):
            build_method(method, TASKS["multiclass"], settings(PYG[0], store), {})

    def test_are_those_that_say_so(self):
        assert {name for name in METHODS if "edge_weight" in METHODS[name].needs} == set(WEIGHING)

    def test_are_trained_with_those_that_do(self):
        data = mphil.benchmark("decoy-scaffold", graphs=120)
        encoder = {"kind": "torch_geometric.nn:GCN", "width": 16, "layers": 2}
        mphil.train(data, "gsat", train={"epochs": 1, "batch_size": 24}, encoder=encoder)

    def test_weights_for_an_encoder_without_them_are_an_error(self):
        store = random_store(nodes="float")
        batch = whole(store)
        with pytest.raises(UsageError, match="takes no edge_weight"):
            build_encoder(settings(PYG[0], store))(batch, node_weight=torch.ones(len(batch.x)))

    def test_those_that_need_features_of_their_own_refuse_encoders_that_do_not_go_on(self):
        store = random_store(nodes="float")
        with pytest.raises(UsageError, match=r"kind='.*:Own' cannot go on .* use gat, gcn, gin, gps, vgin"):
            build_method("hse", TASKS["multiclass"], settings("Own", store), {})


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=f"{'-'.join(encoder.values())}-{check.name}")
        for encoder in (
            *({"kind": kind} for kind in ("gcn", "gat", "gps", "torch_geometric.nn:GraphSAGE")),
            {"readout": "attention"},
        )
        for check in method_checks("erm", encoder=encoder)
        if check.name.startswith("binary")
    ],
)
def test_erm_keeps_its_promises_with_every_encoder(check):
    check()
