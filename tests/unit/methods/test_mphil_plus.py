"""MPHIL+: parts on the sphere against a slow reference, where they match, and what each node adds."""

import numpy as np
import pytest
import torch

from mphil.errors import UsageError
from mphil.methods import build_method
from mphil.methods.base import Progress
from mphil.methods.mphil_plus import TIE
from tests.graphs import small_encoder
from tests.toys import small_benchmark

KINDS = ("binary", "multiclass", "multitask")


def built(data, encoder=None, **options):
    torch.manual_seed(0)
    return build_method("mphil+", data.task, small_encoder(data.store, **encoder or {}), options).eval()


@pytest.fixture(params=KINDS)
def data(request):
    return small_benchmark(request.param, graphs=30)


@pytest.fixture
def batch(data):
    return data.store.batch(torch.arange(12))


def slow_logits(method, batch, *, sphere=True, parts=True, pool=None):
    """Graph by graph and part by part, in NumPy."""
    with torch.no_grad():
        nodes = method.encoder(batch)
        z = method.projector(nodes).double().numpy()
    weight, bias = (p.detach().double().numpy() for p in (method.head.weight, method.head.bias))
    prototypes = method.prototypes.detach().double().numpy() if parts else np.eye(z.shape[1])
    if sphere:
        z = z / np.linalg.norm(z, axis=1, keepdims=True)
        prototypes = prototypes / np.linalg.norm(prototypes, axis=1, keepdims=True)
    rows = []
    for start, stop in zip(batch.ptr[:-1].tolist(), batch.ptr[1:].tolist(), strict=True):
        best = [max(float(z[v] @ m) for v in range(start, stop)) / method.temperature for m in prototypes]
        extra = [] if pool is None else pool(nodes[start:stop].double().numpy(), axis=0).tolist()
        rows.append(weight @ np.array(best + extra) + bias)
    return np.array(rows)


@pytest.mark.parametrize(
    ("options", "reference"),
    [
        ({}, {}),
        ({"sphere": False}, {"sphere": False}),
        ({"parts": 0}, {"parts": False}),
        ({"parts": 5, "temperature": 1.0}, {}),
        ({"pooled": True}, {"pool": np.mean}),
    ],
)
def test_logits_are_those_of_the_formula(data, batch, options, reference):
    method = built(data, **options)
    np.testing.assert_allclose(
        method.predict(batch).detach().numpy(), slow_logits(method, batch, **reference), rtol=1e-4, atol=1e-4
    )


def test_pooled_features_have_the_readout_of_the_encoder(data, batch):
    method = built(data, {"readout": "sum"}, pooled=True)
    expected = slow_logits(method, batch, pool=np.sum)
    np.testing.assert_allclose(method.predict(batch).detach().numpy(), expected, rtol=1e-4, atol=1e-4)


def test_evidence_is_bounded_whatever_the_size(data, batch):
    evidence = built(data).embed(batch)
    assert evidence.abs().max() <= 1 / 0.2 + 1e-5


def test_a_part_matches_where_it_is_most_similar(data, batch):
    method = built(data)
    similarity = method.similarity(method.encoder(batch))
    found = method.match(batch)
    for graph, (start, stop) in enumerate(zip(batch.ptr[:-1].tolist(), batch.ptr[1:].tolist(), strict=True)):
        inside = similarity[start:stop]
        assert torch.equal(found.similarity[graph], inside.amax(0))
        assert torch.equal(found.node[graph] - start, (inside >= inside.amax(0) - TIE).int().argmax(0))


@pytest.mark.parametrize("pooled", [False, True])
def test_what_the_nodes_add_is_the_whole_decision(pooled):
    data = small_benchmark("binary", graphs=30)
    batch = data.store.batch(torch.arange(12))
    method = built(data, {"readout": "sum"}, pooled=pooled)
    added = torch.zeros(12).index_add(0, batch.batch, method.node_importance(batch))
    logits = method.predict(batch).squeeze(1)
    torch.testing.assert_close(added, (logits - method.head.bias) * logits.sign(), rtol=1e-4, atol=1e-4)


def test_missing_labels_count_for_nothing():
    data = small_benchmark("multitask", graphs=30)
    batch = data.store.batch(torch.arange(12))
    batch.y[:6] = torch.nan
    half = data.store.batch(torch.arange(6, 12))
    method = built(data)
    torch.testing.assert_close(method.loss(batch, Progress()).total, method.loss(half, Progress()).total)


def test_unlike_nodes_are_far_from_the_parts(data, batch):
    method = built(data)
    similarity = method.similarity(method.encoder(batch)).amax(1).detach()
    means = [-float(similarity[batch.batch == g].mean()) for g in range(12)]
    np.testing.assert_allclose(method.ood_score(batch).detach().numpy(), means, rtol=1e-5)


class TestGate:
    def test_is_absent_by_default(self, data):
        assert not any(name.startswith("gate") for name in built(data).state_dict())

    def test_weighs_both_directions_of_an_edge_alike(self, data, batch):
        scores = built(data, keep=0.5).score_edges(batch)
        seen = {}
        for (u, v), score in zip(batch.edge_index.T.tolist(), scores.tolist(), strict=True):
            seen.setdefault((min(u, v), max(u, v)), []).append(score)
        assert all(abs(first - second) < 1e-5 for first, second in seen.values())

    def test_predictions_weigh_messages_by_its_probability(self, data, batch):
        method = built(data, keep=0.5)
        weight = method.score_edges(batch).sigmoid()
        torch.testing.assert_close(method.encode(batch), method.encoder(batch, edge_weight=weight))

    @pytest.mark.parametrize(("step", "wanted"), [(0, 1.0), (25, 0.75), (50, 0.5), (99, 0.5)])
    def test_is_closed_little_by_little(self, data, batch, step, wanted):
        method = built(data, keep=0.5, keep_weight=2.0)
        losses = method.loss(batch, Progress(step=step, total_steps=100))
        open_share = method.score_edges(batch).sigmoid().mean()
        torch.testing.assert_close(losses["gate"], 2 * (open_share - wanted).abs())

    def test_gets_a_gradient_from_the_labels(self, data, batch):
        method = built(data, keep=0.5, keep_weight=0.0).train()
        method.loss(batch, Progress()).total.backward()
        assert method.gate_score[0].weight.grad.abs().sum() > 0

    def test_graphs_without_edges_have_nothing_to_weigh(self, data):
        method, batch = built(data, keep=0.5), data.store.batch(torch.arange(3))
        batch.edge_index = batch.edge_index[:, :0]
        batch.edge_attr = None if batch.edge_attr is None else batch.edge_attr[:0]
        assert method.predict(batch).isfinite().all()
        assert method.loss(batch, Progress()).total.isfinite()

    def test_a_virtual_node_stays_with_the_first_network(self):
        data = small_benchmark("binary", graphs=30)
        method = built(data, {"kind": "vgin", "layers": 3}, keep=0.5)
        assert method.encoder.virtual is not None
        assert method.gate_encoder.virtual is None


@pytest.mark.parametrize("wrong", [{"keep": 0.0}, {"keep": 1.5}, {"keep": 0.5, "anneal": 0.0}, {"gate_layers": 0}])
def test_an_impossible_gate_is_refused(wrong):
    with pytest.raises(UsageError, match=r"mphil\+ needs 0 < keep"):
        built(small_benchmark("binary", graphs=30), **wrong)


@pytest.mark.parametrize("wrong", [{"parts": -1}, {"projection": 0}, {"temperature": 0.0}])
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(UsageError, match=r"mphil\+ needs parts"):
        built(small_benchmark("binary", graphs=30), **wrong)
