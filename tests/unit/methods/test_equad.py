"""EQuAD against its definition, and the defects of the public version."""

from __future__ import annotations

from math import exp, log

import pytest
import torch

import mphil.methods.equad as module
from mphil.errors import UsageError
from mphil.methods import Parts, Progress
from mphil.methods.equad import EQuAD
from tests.graphs import TASKS, as_dtype, random_store
from tests.unit.methods.loops import gradient_size, known_labels, label_loss, make, mean, risk, same

KINDS = sorted(TASKS)
FIRST, MAIN = Progress(stage="infomax"), Progress()


def build(kind="binary", **options):
    """`width` and `layers` are those of the encoder; the embeddings keep their defaults."""
    return make(EQuAD, kind, **{"missing": 0.2, "graphs": 12, **options})


def soft_loss(logits, target, t, kind):
    """Cross-entropy of one label against a probability."""
    values = logits.tolist()
    if kind == "multiclass":
        total = log(sum(map(exp, values)))
        return sum(p * (total - value) for p, value in zip(target.tolist(), values, strict=True))
    return log(1 + exp(values[t])) - target[t].item() * values[t]


@pytest.mark.parametrize("kind", KINDS)
def test_the_main_stage(kind):
    method, batch = build(kind, weight=0.6, focus=0.7, kept=3, temperature=0.1)
    torch.manual_seed(0)
    outputs = method.task.n_outputs
    targets = torch.rand(12, 3, outputs, dtype=torch.float64)
    targets = targets / targets.sum(2, keepdim=True) if kind == "multiclass" else targets
    scores = [0.5, 0.62, 0.41]
    method.spurious.write(batch.index, targets.flatten(1))
    method.scores.copy_(torch.tensor(scores))
    g = method.embed(batch)
    aux = method.auxiliary(g)
    weights = [exp(-s / 0.1) for s in method.scores.tolist()]
    weights = [w / sum(weights) for w in weights]
    terms = []
    for i, t in known_labels(batch.y):
        p = exp(-label_loss(aux[i], batch.y[i], t, method.task))
        omega = (1 - p**0.7) / 0.7
        terms.append(omega * sum(weights[m] * soft_loss(aux[i], targets[i, m], t, kind) for m in range(3)))
    losses = method.loss(batch, MAIN)
    assert set(losses) == {"classification", "decorrelation"}
    same(losses["classification"], risk(method.head(g), batch.y, method.task))
    same(losses["decorrelation"], 0.6 * mean(terms))


def test_every_kept_prediction_and_the_second_head_learn():
    method, batch = build("multiclass", training=True)
    torch.manual_seed(0)
    soft = torch.rand(12, 5, 3, dtype=torch.float64).softmax(2)
    method.spurious.write(batch.index, soft.flatten(1))
    method.scores.fill_(0.5)
    losses = method.loss(batch, MAIN)
    losses["decorrelation"].backward()
    assert gradient_size(method.auxiliary) > 0
    assert gradient_size(method.encoder) > 0
    assert set(method.auxiliary.parameters()) <= set(method.param_groups()["main"])
    gradients = []
    for m in range(5):
        method.zero_grad()
        method.scores.copy_(torch.where(torch.arange(5) == m, 0.1, 0.9))
        method.loss(batch, MAIN)["decorrelation"].backward()
        gradients.append(method.auxiliary[0].weight.grad.clone())
    assert all(g.abs().max() > 0 for g in gradients)
    assert not torch.allclose(gradients[0], gradients[1])


def test_the_weight_of_a_graph_passes_no_gradient():
    method, batch = build("binary", missing=0.0)
    method.spurious.write(batch.index, torch.full((12, 5), 0.3))
    method.scores.fill_(0.5)
    logits = torch.zeros(12, 1, dtype=torch.float64, requires_grad=True)
    method.imitation(logits, batch).backward()
    omega = (1 - 0.5**0.5) / 0.5
    torch.testing.assert_close(logits.grad, torch.full_like(logits, omega * (0.5 - 0.3) / 12), rtol=1e-6, atol=0)


def test_before_anything_is_kept_there_is_nothing_to_imitate():
    method, batch = build()
    losses = method.loss(batch, MAIN)
    assert losses["decorrelation"] == 0
    method.scores[0] = 0.5
    assert method.loss(batch, MAIN)["decorrelation"] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_keeps_the_poorest_predictions(kind, monkeypatch):
    method, batch = build(kind, kept=2, training=True)
    found = iter([0.9, 0.5, 0.7, 0.3, float("nan")])
    made = []

    def soft_labels(points, y, task):
        made.append(torch.rand(len(points), task.n_outputs, dtype=torch.float64))
        return lambda new: made[-1][: len(new)]

    monkeypatch.setattr(module, "soft_labels", soft_labels)
    monkeypatch.setattr(module, "score", lambda *_: next(found))
    for _ in range(5):
        method.fit(Parts([batch], [batch]))
    assert sorted(method.scores.tolist()) == pytest.approx([0.3, 0.5])
    kept = method.spurious.read(batch.index).view(12, 2, -1)
    for slot, value in enumerate(method.scores.tolist()):
        assert torch.equal(kept[:, slot], made[1 if value > 0.4 else 3])
    assert method.training


@pytest.mark.parametrize("part", ["validation", "train"])
def test_machines_are_scored_on_the_validation_part_if_there_is_one(monkeypatch, part):
    method, batch = build()
    other = as_dtype(
        random_store("binary", graphs=5, nodes="categorical", edges="categorical").batch(torch.arange(5)), torch.float64
    )
    seen = []
    monkeypatch.setattr(module, "score", lambda p, y, task: seen.append(len(p)) or 0.5)
    method.fit(Parts([batch], [other] if part == "validation" else []))
    assert seen == [5 if part == "validation" else 12]


@pytest.mark.parametrize(
    ("epochs", "every", "expected"),
    [(100, 0.03, list(range(3, 100, 3))), (10, 0.3, [3, 6, 9]), (4, 0.03, [1, 2, 3]), (5, 1.0, [])],
    ids=["as published", "a third", "short", "once"],
)
def test_fits_happen_after_every_share_of_the_stage_and_at_the_end(monkeypatch, epochs, every, expected):
    method, batch = build(every=every)
    fitted = []
    parts = Parts([batch])
    for epoch in range(epochs):
        monkeypatch.setattr(method, "fit", lambda parts, epoch=epoch: fitted.append(epoch))
        at = {"step": 7 * epoch, "epoch": epoch, "total_steps": 7 * epochs, "total_epochs": epochs}
        method.begin_epoch(parts, Progress(**at, stage="infomax"))
        method.begin_epoch(parts, Progress(**at))
    assert fitted == expected
    method.end_stage(parts, FIRST)
    assert len(fitted) == len(expected) + 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_stage_leaves_probabilities(kind):
    method, batch = build(kind, training=True)
    method.end_stage(Parts([batch], [batch]), FIRST)
    assert (method.scores <= 1).sum() == 1
    kept = method.spurious.read(batch.index).view(12, 5, -1)[:, int(method.scores.argmin())]
    assert ((kept > 0) & (kept < 1)).all()
    if kind == "multiclass":
        torch.testing.assert_close(kept.sum(1), torch.ones(12, dtype=torch.float64))
    assert method.loss(batch, MAIN)["decorrelation"] > 0


def test_the_first_stage_looks_at_no_label_and_moves_nothing_else():
    method, batch = build(training=True)
    torch.manual_seed(0)
    before = method.loss(batch, FIRST).total
    batch.y[:] = torch.nan
    torch.manual_seed(0)
    after = method.loss(batch, FIRST).total
    assert torch.equal(before, after)
    after.backward()
    assert gradient_size(method.infomax) > 0
    assert gradient_size(method.encoder) == 0
    assert set(method.param_groups()["infomax"]) == set(method.infomax.parameters())
    assert method.learning_rates() == {"infomax": 2.0}
    assert method.stages() == {"infomax": 2.0}


@pytest.mark.parametrize("options", [{"focus": 0.0}, {"temperature": 0.0}, {"kept": 0}, {"every": 0}, {"every": 3}])
def test_impossible_settings(options):
    with pytest.raises(UsageError, match="equad needs"):
        build(**options)
