"""LIRS against its definition, and the defects of the public version."""

from __future__ import annotations

from math import exp, log

import pytest
import torch

from mphil.errors import UsageError
from mphil.methods import Parts, Progress
from mphil.methods.gsat import information
from mphil.methods.lirs import LIRS, marked
from mphil.nn.losses import label_probability
from tests.graphs import TASKS
from tests.unit.methods.loops import gradient_size, known_labels, make, mean, risk, same

KINDS = sorted(TASKS)
FIRST, SECOND, MAIN = Progress(stage="attention"), Progress(stage="infomax"), Progress()


def build(kind="binary", **options):
    return make(LIRS, kind, **{"missing": 0.2, "graphs": 12, **options})


def give_clusters(method, batch):
    torch.manual_seed(0)
    tasks, k = method.task.n_tasks, method.clusters
    targets = torch.rand(len(batch.y), tasks, k, dtype=torch.float64).softmax(2)
    importance = torch.rand(len(batch.y), tasks, dtype=torch.float64)
    method.targets.write(batch.index, targets.flatten(1))
    method.importance.write(batch.index, importance)
    return targets, importance


@pytest.mark.parametrize("kind", KINDS)
def test_the_main_stage(kind):
    method, batch = build(kind, weight=0.6, clusters=4)
    targets, importance = give_clusters(method, batch)
    g = method.embed(batch)
    out = method.cluster_head(g).tolist()
    classes, terms = method.task.n_classes, []
    for i, t in known_labels(batch.y):
        first = (t * classes + int(batch.y[i, t])) * 4
        own = out[i][first : first + 4]
        total = log(sum(map(exp, own)))
        entropy = sum(p * (total - value) for p, value in zip(targets[i, t].tolist(), own, strict=True))
        terms.append(importance[i, t].item() * entropy)
    losses = method.loss(batch, MAIN)
    assert set(losses) == {"classification", "clusters"}
    same(losses["classification"], risk(method.head(g), batch.y, method.task))
    same(losses["clusters"], 0.6 * mean(terms))


@pytest.mark.parametrize(("fraction", "prior"), [(0.0, 0.9), (0.15, 0.8), (0.5, 0.7), (1.0, 0.7)])
def test_the_first_stage_sees_the_whole_schedule_of_its_prior(fraction, prior):
    method, batch = build("binary")
    at = Progress(step=round(20 * fraction), total_steps=20, stage="attention")
    drawn = method.gsat.attend(batch)
    same(method.loss(batch, at)["information"], information(drawn, prior).item())


def test_both_heads_have_three_layers():
    method, _ = build("multiclass", width=5)
    for head, outputs in ((method.head, 3), (method.cluster_head, 9)):
        shapes = [tuple(p.shape) for p in head.parameters() if p.dim() == 2]
        assert shapes == [(5, 5), (5, 5), (outputs, 5)]


def test_the_second_head_learns_and_classes_have_outputs_of_their_own():
    method, batch = build("multiclass", training=True)
    give_clusters(method, batch)
    method.loss(batch, MAIN)["clusters"].backward()
    assert gradient_size(method.cluster_head) > 0
    assert gradient_size(method.encoder) > 0
    assert set(method.cluster_head.parameters()) <= set(method.param_groups()["main"])
    method.zero_grad()
    batch.y[:] = 1.0
    method.loss(batch, MAIN)["clusters"].backward()
    moved = method.cluster_head[-1].bias.grad.view(3, method.clusters).abs().amax(1) > 0
    assert moved.tolist() == [False, True, False]


@pytest.mark.parametrize("kind", KINDS)
def test_nodes_are_marked_if_the_label_needs_the_edges_between_them(kind):
    method, batch = build(kind, marked=3, drop=1e-4)
    gsat = method.gsat
    attention = gsat.attend(batch)
    edges = batch.edge_index.T.tolist()
    weight = torch.stack([attention[u] * attention[v] for u, v in edges])
    top = set()
    for g in range(12):
        own = [v for v in range(len(attention)) if batch.batch[v] == g]
        top |= set(sorted(own, key=lambda v: -attention[v])[:3])
    without = torch.stack([w * 0 if u in top and v in top else w for (u, v), w in zip(edges, weight, strict=True)])

    def truth(edge_weight):
        nodes = gsat.encoder(batch, edge_weight=edge_weight)
        logits = gsat.head(torch.stack([nodes[batch.batch == g].mean(0) for g in range(12)]))
        p = label_probability(logits, batch.y, method.task)
        return [mean([p[i, t].item() for i, t in known_labels(batch.y) if i == g]) for g in range(12)]

    falls = [a - b for a, b in zip(truth(weight), truth(without), strict=True)]
    expected = {v for v in top if falls[int(batch.batch[v])] >= 1e-4}
    method.end_stage(Parts([batch]), FIRST)
    marks = method.marks.read(batch.index).long()
    found = set(marked(marks, batch).nonzero().flatten().tolist())
    assert found == expected
    assert 0 < len(found) < len(top)
    assert marks.count_nonzero(1).max() > 1, "every node of a graph is marked, not one"


def test_marked_nodes_are_strangers_to_their_graphs():
    method, batch = build()
    free = method.loss(batch, SECOND).total
    marks = torch.zeros(12, 8, dtype=torch.long)
    marks[:, 0] = 1
    method.marks.write(batch.index, marks)
    hidden = torch.zeros(len(batch.batch), dtype=torch.bool)
    hidden[batch.ptr[:-1]] = True
    torch.testing.assert_close(method.loss(batch, SECOND).total, method.infomax.loss(batch, hidden))
    assert not torch.isclose(method.loss(batch, SECOND).total, free)


@pytest.mark.parametrize("kind", KINDS)
def test_clusters_are_those_of_the_own_class(kind):
    method, batch = build(kind, clusters=2, focus=0.5, graphs=24)
    torch.manual_seed(0)
    side = torch.randint(2, (24,))
    points = torch.stack([20.0 * side, torch.randn(24)], dim=1).double()
    method.cluster(batch.index, batch.y, points)
    targets = method.targets.read(batch.index).view(24, method.task.n_tasks, 2)
    importance = method.importance.read(batch.index)
    for t in range(method.task.n_tasks):
        for label in range(method.task.n_classes):
            own = [i for i in range(24) if batch.y[i, t] == label]
            for i in own:
                beside = [j for j in own if side[j] == side[i]]
                assert importance[i, t].item() == pytest.approx((1 - (len(beside) / len(own)) ** 0.5) / 0.5, abs=1e-6)
                if 2 < len(beside) < len(own) - 2:
                    assert len({int(targets[j, t].argmax()) for j in beside}) == 1
    missing = batch.y.isnan()
    assert not targets[missing].any()
    assert not importance[missing].any()


def test_every_stage_moves_its_own_network_only():
    method, batch = build(training=True)
    networks = {"attention": method.gsat, "infomax": method.infomax, "main": method.encoder}
    for progress in (FIRST, SECOND, MAIN):
        method.zero_grad()
        ((group, losses),) = method.steps(batch, progress)
        losses.total.backward()
        assert group == progress.stage
        assert {name for name, network in networks.items() if gradient_size(network) > 0} == {group}
    assert list(method.stages()) == ["attention", "infomax"]


def test_both_stages_leave_what_the_next_one_needs():
    method, batch = build("multitask", training=True)
    method.end_stage(Parts([batch]), FIRST)
    assert method.marks.values.shape == (12, 8)
    assert len(method.targets.values) == 0
    method.end_stage(Parts([batch]), SECOND)
    assert method.training
    soft = method.targets.read(batch.index).view(12, 4, 3)[~batch.y.isnan()]
    torch.testing.assert_close(soft.sum(1), torch.ones(len(soft), dtype=torch.float64))
    assert method.loss(batch, MAIN)["clusters"] > 0


@pytest.mark.parametrize("options", [{"clusters": 1}, {"focus": 0.0}, {"marked": 0}])
def test_impossible_settings(options):
    with pytest.raises(UsageError, match="lirs needs"):
        build(**options)
