"""GALA against its definition, and what the public version makes easy to get wrong."""

from __future__ import annotations

from math import exp, log

import pytest
import torch

from mphil.errors import UsageError
from mphil.methods import Parts, Progress
from mphil.methods.gala import GALA, repetitions
from mphil.nn.posthoc import nearest_centre
from tests.graphs import TASKS
from tests.unit.methods.loops import gradient_size, known_labels, make, mean, risk, same

KINDS = sorted(TASKS)
FIRST, MAIN = Progress(stage="assistant"), Progress()


def written_contrast(z, y, groups):
    """Over tasks and anchors; `groups` has a row a graph and a column a task."""
    z = [[value / sum(x * x for x in row) ** 0.5 for value in row] for row in z.tolist()]
    closeness = [[sum(a * b for a, b in zip(u, v, strict=True)) for v in z] for u in z]
    terms = []
    for t in range(y.shape[1]):
        known = [i for i, task in known_labels(y) if task == t]
        alike = {(i, j): bool(y[i, t] == y[j, t]) for i in known for j in known if i != j}
        apart = {(i, j): bool(groups[i, t] != groups[j, t]) for i, j in alike}
        positives = {pair for pair in alike if alike[pair] and apart[pair]} or {pair for pair in alike if alike[pair]}
        negatives = {pair for pair in alike if not alike[pair] and not apart[pair]}
        for i in known:
            own = [j for j in known if (i, j) in positives]
            counted = [closeness[i][j] for j in known if (i, j) in positives | negatives]
            if own:
                terms.append(mean([log(sum(map(exp, counted))) - closeness[i][j] for j in own]))
    return mean(terms)


@pytest.mark.parametrize("several", [True, False], ids=["groups", "one-group"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_main_stage(kind, several):
    method, batch = make(GALA, kind, missing=0.3, contrast=2.0, graphs=12)
    n = len(batch.y)
    groups = (torch.arange(n * batch.y.shape[1]).view(n, -1) // 3 % 3).double() * several
    copies = torch.tensor([1, 3] * (n // 2))
    method.groups.write(batch.index, groups)
    method.repeats.write(batch.index, copies.unsqueeze(1))
    rows = [i for i in range(n) for _ in range(copies[i])]
    z = method.network.embed(batch)[rows]
    losses = method.loss(batch, MAIN)
    assert set(losses) == {"classification", "contrast"}
    same(losses["classification"], risk(method.network.head(z), batch.y[rows], method.task))
    same(losses["contrast"], 2.0 * written_contrast(z, batch.y[rows], groups[rows]))
    assert losses["contrast"] > 0


def test_copies_weigh_the_loss_as_a_longer_training_set_would():
    method, batch = make(GALA, "binary", contrast=0.0)
    copies = torch.tensor([1, 1, 2, 1, 3, 1, 1, 2, 1])
    method.repeats.write(batch.index, copies.unsqueeze(1))
    logits = method.predict(batch)
    each = [risk(logits[i : i + 1], batch.y[i : i + 1], method.task) for i in range(9)]
    expected = sum(c * value for c, value in zip(copies.tolist(), each, strict=True)) / int(copies.sum())
    same(method.loss(batch, MAIN)["classification"], expected)


@pytest.mark.parametrize("assistant", ["erm", "same"])
def test_the_assistant_is_trained_first_and_stands_still_afterwards(assistant):
    method, batch = make(GALA, "multiclass", assistant=assistant, training=True)
    losses = method.loss(batch, FIRST)
    same(losses["classification"], risk(method.assistant.head(method.assistant.embed(batch)), batch.y, method.task))
    losses.total.backward()
    assert gradient_size(method.assistant) > 0
    assert gradient_size(method.network) == 0
    method.zero_grad()
    before = {name: value.clone() for name, value in method.assistant.state_dict().items()}
    method.loss(batch, MAIN).total.backward()
    assert gradient_size(method.assistant) == 0
    assert gradient_size(method.network.scorer) > 0
    assert all(torch.equal(value, before[name]) for name, value in method.assistant.state_dict().items())
    assert [group for group, _ in method.steps(batch, FIRST)] == ["assistant"]
    assert set(method.param_groups()["assistant"]) == set(method.assistant.parameters())


@pytest.mark.parametrize("environments", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_remembered_of_the_assistant(kind, environments):
    method, batch = make(GALA, kind, missing=0.2, graphs=12, environments=environments, copies=4, training=True)
    torch.manual_seed(0)
    method.end_stage(Parts([batch]), FIRST)
    assert method.training
    method.eval()
    vectors = method.assistant.embed(batch)
    logits = method.assistant.head(vectors)
    predicted = logits.argmax(1, keepdim=True) if kind == "multiclass" else (logits > 0)
    groups = method.groups.read(batch.index)
    if environments == 1:
        assert torch.equal(groups, predicted.double())
    else:
        assert (groups == groups[:, :1]).all()
        centres = torch.stack(
            [torch.nn.functional.normalize(vectors, dim=1)[groups[:, 0] == g].sum(0) for g in groups.unique()]
        )
        numbers = {int(g): number for number, g in enumerate(groups.unique())}
        nearest = nearest_centre(vectors, centres, cosine=True).tolist()
        assert nearest == [numbers[int(g)] for g in groups[:, 0]]
    wrong, right = [], []
    for i in range(12):
        own = [bool(predicted[i, t] == batch.y[i, t]) for j, t in known_labels(batch.y) if j == i]
        if own:
            (wrong if own.count(False) > len(own) / 2 else right).append(i)
    expected = [4.0 if i in wrong and len(right) > len(wrong) else 1.0 for i in range(12)]
    assert method.repeats.read(batch.index)[:, 0].tolist() == expected


@pytest.mark.parametrize(
    ("right", "wrong", "copies", "expected"),
    [(9, 2, 0, 2), (5, 3, 0, 1), (9, 2, 3, 3), (9, 2, 1, 1), (2, 9, 3, 1), (3, 3, 3, 1), (5, 0, 3, 1)],
)
def test_how_often_a_wrong_graph_counts(right, wrong, copies, expected):
    mask = torch.tensor([True] * wrong + [False] * right)
    assert repetitions(mask, right, copies).tolist() == [expected] * wrong + [1] * right


def test_a_graph_never_seen_counts_once():
    method, batch = make(GALA, "binary")
    same(method.loss(batch, MAIN)["classification"], risk(method.predict(batch), batch.y, method.task))


def test_the_contrast_waits():
    method, batch = make(GALA, "binary", warm_up=0.5)
    assert "contrast" not in method.loss(batch, Progress(step=4, total_steps=10))
    assert "contrast" in method.loss(batch, Progress(step=5, total_steps=10))


def test_importance_is_the_weight_of_the_edges_that_are_kept():
    method, batch = make(GALA, "binary", keep=0.5)
    _, weights, kept = method.network.weigh(batch)
    found = method.node_importance(batch)
    for v in range(len(found)):
        own = [(weights[e] * kept[e]).item() for e, ends in enumerate(batch.edge_index.T.tolist()) if v in ends]
        assert found[v].item() == pytest.approx(mean(own), abs=1e-10)


@pytest.mark.parametrize("options", [{"environments": 0}, {"copies": -1}, {"keep": 0.0}])
def test_impossible_settings(options):
    with pytest.raises(UsageError):
        make(GALA, "binary", **options)
