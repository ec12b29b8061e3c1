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


@pytest.mark.parametrize("wrong", [{"parts": -1}, {"projection": 0}, {"temperature": 0.0}])
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(UsageError, match=r"mphil\+ needs parts"):
        built(small_benchmark("binary", graphs=30), **wrong)
