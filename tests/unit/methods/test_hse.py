"""HSE against its definition, and the defects of the public version."""

from __future__ import annotations

from math import exp, log

import pytest
import torch

from mphil.errors import UsageError
from mphil.methods import Parts, Progress
from mphil.methods.hse import HSE, commitment
from tests.graphs import TASKS
from tests.unit.methods.loops import gradient_size, known_labels, label_loss, make, mean, risk, same, variance

KINDS = sorted(TASKS)
FIRST, MAIN = Progress(stage="inference"), Progress()


def written_contrast(u, positives, candidates):
    """`positives` and `candidates` say of (i, j) whether j counts for i."""
    u = [[value / sum(x * x for x in row) ** 0.5 for value in row] for row in u.tolist()]
    terms = []
    for i in range(len(u)):
        close = {j: sum(a * b for a, b in zip(u[i], u[j], strict=True)) for j in range(len(u)) if j != i}
        own = [j for j in close if positives(i, j)]
        if own:
            total = log(sum(exp(close[j]) for j in close if candidates(i, j)))
            terms.append([total - mean([close[j] for j in own])])
    return [term[0] for term in terms]


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_stage_counts_every_level_once(kind):
    method, batch = make(HSE, kind, missing=0.3, environments=5, label_contrast=0.5, environment_contrast=2.0)
    y = batch.y
    pairs = known_labels(y)
    known = {i for i, _ in pairs}
    committed = by_label = by_environment = 0.0
    before = None
    for level in method.hierarchy(batch):
        env = level.losses.argmin(1).tolist()
        committed += commitment(level.losses, torch.tensor([i in known for i in range(len(y))])).item()
        terms = []
        for t in range(y.shape[1]):
            here = {i for i, task in pairs if task == t}

            def both(i, j, here=here):
                return i in here and j in here

            terms += written_contrast(
                level.causal, lambda i, j, t=t, both=both: both(i, j) and bool(y[i, t] == y[j, t]), both
            )
        by_label += mean(terms)

        def together(i, j, env=env, before=before):
            return i in known and j in known and (env[i] == env[j] or bool(before and before[i] == before[j]))

        by_environment += mean(written_contrast(level.spurious, together, lambda i, j: i in known and j in known))
        before = env
    losses = method.loss(batch, FIRST)
    assert set(losses) == {"commitment", "label_contrast", "environment_contrast"}
    same(losses["commitment"], committed)
    same(losses["label_contrast"], 0.5 * by_label)
    same(losses["environment_contrast"], 2.0 * by_environment)


def test_levels_halve_the_environments():
    method, _ = make(HSE, "binary", environments=20, levels=4)
    outputs = [head.out_features for head in method.hierarchy.heads]
    assert outputs == [20, 10, 5, 2]
    method, _ = make(HSE, "multiclass", environments=3, levels=3)
    assert [head.out_features for head in method.hierarchy.heads] == [9, 6, 6], "a loss for every class"


def slope(logits, y, t, task):
    """Derivative of one label's loss in a factor of the logits, by central differences."""
    step = 1e-5
    up, down = (label_loss(logits * (1 + s), y, t, task) for s in (step, -step))
    return (up - down) / (2 * step)


@pytest.mark.parametrize("penalty", ["irm", "vrex"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_main_stage(kind, penalty):
    method, batch = make(HSE, kind, missing=0.3, penalty=penalty, weight=0.7)
    env = [0, 1, 0, 1, 0, 1, 0, 1, -1]
    method.inferred.write(batch.index, torch.tensor(env).unsqueeze(1))
    logits = method.predict(batch)
    losses = method.loss(batch, MAIN)
    same(losses["classification"], risk(logits, batch.y, method.task))
    by_env = []
    for e in (0, 1):
        own = [(i, t) for i, t in known_labels(batch.y) if env[i] == e]
        measure = slope if penalty == "irm" else label_loss
        by_env.append(mean([measure(logits[i], batch.y[i], t, method.task) for i, t in own]))
    expected = mean([value**2 for value in by_env]) if penalty == "irm" else variance(by_env)
    assert losses["invariance"].item() == pytest.approx(0.7 * expected, rel=1e-6 if penalty == "irm" else 1e-10)
    assert losses["invariance"] > 0


def test_environments_are_those_of_the_lowest_loss_in_evaluation_mode():
    method, batch = make(HSE, "multitask", missing=0.4, training=True, environments=4)
    batch.y[3] = torch.nan
    method.end_stage(Parts([batch]), FIRST)
    assert method.training
    expected = method.eval().hierarchy(batch)[-1].losses.argmin(1).tolist()
    expected[3] = -1
    assert method.inferred.read(batch.index)[:, 0].tolist() == expected


def test_the_scores_of_edges_learn():
    method, batch = make(HSE, "binary", training=True, threshold=0.6)
    torch.manual_seed(0)
    method.loss(batch, FIRST).total.backward()
    for scorer in method.hierarchy.scorers:
        assert gradient_size(scorer) > 0
    assert gradient_size(method.encoder) == 0


def test_the_levels_stand_still_in_the_main_stage():
    method, batch = make(HSE, "binary", training=True)
    method.inferred.write(batch.index, (batch.index % 2).unsqueeze(1))
    method.loss(batch, MAIN).total.backward()
    assert gradient_size(method.hierarchy) == 0
    assert gradient_size(method.encoder) > 0
    assert set(method.param_groups()["inference"]) == set(method.hierarchy.parameters())
    assert method.stages() == {"inference": 0.2}


def test_one_environment_is_plain_risk_minimisation():
    method, batch = make(HSE, "binary")
    assert method.loss(batch, MAIN)["invariance"] == 0


@pytest.mark.parametrize("options", [{"environments": 1}, {"coarsest": 1}, {"levels": 0}])
def test_impossible_settings(options):
    with pytest.raises(UsageError, match="hse needs"):
        make(HSE, "binary", **options)
