"""MPHIL+: parts on the sphere against a slow reference, where they match, and which nodes decide."""

import numpy as np
import pytest
import torch

import mphil
from mphil.benchmarks.catalogue import Benchmark
from mphil.errors import UsageError
from mphil.explain.faithfulness import measure
from mphil.graphs.features import Features
from mphil.graphs.split import Split
from mphil.graphs.store import GraphStore, pointer
from mphil.methods import build_method
from mphil.methods.base import Progress
from mphil.methods.mphil_plus import TIE
from mphil.task import Task
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


def slow_importance(method, store, graph):
    """What every node of a graph costs: neighbourhood by neighbourhood, with lists of neighbours, in NumPy."""
    batch = store.batch(torch.tensor([graph]))
    n, near = len(batch.x), [{v} for v in range(len(batch.x))]
    for u, v in batch.edge_index.T.tolist():
        near[u].add(v)
    weight, bias = (p.detach().double().numpy() for p in (method.head.weight, method.head.bias))
    with torch.no_grad():
        first = method.encoder.embed(batch.x).double().numpy()
        prototypes = method.prototypes.double().numpy()
        prototypes /= np.linalg.norm(prototypes, axis=1, keepdims=True)
        scores = method.score_edges(batch)

    def logits(hidden, silent):
        x = np.array([first.mean(0) if v in hidden else first[v] for v in range(n)])
        gate = None if scores is None else scores.sigmoid()
        with torch.no_grad():
            nodes = method.encoder(batch, x=torch.from_numpy(x).float(), edge_weight=gate)
            z = method.projector(nodes).double().numpy()
        cosines = z / np.linalg.norm(z, axis=1, keepdims=True) @ prototypes.T
        heard = [cosines.min(0) if v in silent else cosines[v] for v in range(n)]
        pooled = nodes.double().numpy().mean(0) if method.pooled else []
        return weight @ np.concatenate([np.max(heard, 0) / method.temperature, pooled]) + bias

    whole = logits(set(), set())
    falls = []
    for centre in range(n):
        lost = whole - logits(near[centre], set().union(*(near[v] for v in near[centre])))
        if method.task.kind == "multiclass":
            falls.append(lost[whole.argmax()] - lost.mean())
        else:
            falls.append((lost * np.sign(whole)).mean())
    falls = [np.sign(fall) * max(abs(fall) - 1e-4, 0) for fall in falls]
    return [np.mean([falls[u] for u in near[v]]) for v in range(n)]


@pytest.mark.parametrize("options", [{}, {"pooled": True}, {"keep": 0.5}])
def test_importance_is_what_hiding_a_neighbourhood_costs(data, options):
    method, batch = built(data, **options), data.store.batch(torch.arange(12))
    with torch.no_grad():
        method.head.weight *= 10
    expected = np.concatenate([slow_importance(method, data.store, graph) for graph in range(12)])
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(method.node_importance(batch).numpy(), expected, rtol=1e-3, atol=1e-5)


def test_nodes_that_look_alike_do_not_stand_out():
    """A ring of equal nodes: whatever is hidden, the same is left."""
    ring = torch.arange(6)
    pairs = torch.stack([ring, ring.roll(1)])
    batch = small_benchmark("binary", graphs=30).store.batch(torch.tensor([0]))
    batch.x, batch.edge_index = batch.x[:1].expand(6, -1), torch.cat([pairs, pairs.flip(0)], 1)
    batch.batch, batch.ptr = torch.zeros(6, dtype=torch.long), torch.tensor([0, 6])
    assert not built(small_benchmark("binary", graphs=30), pooled=True).node_importance(batch).any()


def turned_pairs(graphs):
    """Random trees of nodes of kinds 2 to 4 from which a node of kind 0 and one of kind 1 hang: which way round?"""
    draw = torch.Generator().manual_seed(0)
    kinds, edges, counts = [], [], []
    labels = torch.arange(graphs) % 2
    for label in labels.tolist():
        size = int(torch.randint(8, 15, (), generator=draw))
        parents = [int(torch.randint(0, v, (), generator=draw)) for v in range(1, size + 1)]
        pairs = torch.tensor([[*parents, size], range(1, size + 2)])
        kinds += [torch.randint(2, 5, (size,), generator=draw), torch.tensor([1 - label, label])]
        edges += [pairs, pairs.flip(0)]
        counts.append(size + 2)
    x, nodes = torch.cat(kinds), torch.tensor(counts)
    store = GraphStore(
        x=x.unsqueeze(1),
        edge_index=torch.cat(edges, 1).int(),
        edge_attr=None,
        node_ptr=pointer(nodes),
        edge_ptr=pointer(2 * nodes - 2),
        y=labels.float().unsqueeze(1),
        env=torch.zeros(graphs, dtype=torch.long),
        index=torch.arange(graphs),
        node_features=Features("categorical", (5,)),
        edge_features=Features.none(),
        extras={"node_truth": x < 2},
    )
    parts = torch.arange(graphs).split([graphs * 6 // 10, *[graphs // 10] * 4])
    return Benchmark(task=Task("binary", 1, "accuracy"), store=store, split=Split(*parts))


@pytest.mark.parametrize("pooled", [False, True])
def test_a_trained_one_names_the_nodes_that_decide(pooled):
    """Where nothing else can be learned, they come before all others in nearly every graph."""
    data = turned_pairs(400)
    sections = {"train": {"epochs": 20, "batch_size": 20}, "encoder": {"width": 16, "layers": 3, "dropout": 0.0}}
    method = mphil.train(data, {"name": "mphil+", "pooled": pooled}, seed=0, **sections).method.eval()
    batch = data.store.batch(data.split.ood_test)
    assert ((method.predict(batch) > 0) == (batch.y > 0.5)).float().mean() > 0.95
    assert measure(method, data.store, data.split.ood_test).auc > 0.98


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
