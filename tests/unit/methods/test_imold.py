"""iMoLD against its definition: words, scores, mixing, and the alternation that leaves what rests alone."""

from __future__ import annotations

import copy
from math import sqrt

import pytest
import torch

from mphil.errors import UsageError
from mphil.methods import Progress
from tests.unit.methods.stepping import (
    KINDS,
    changed,
    gradient,
    learns_by_heart,
    made,
    mean,
    pooled,
    same,
    state,
    train,
    written_gap,
    written_risk,
)
from tests.unit.methods.test_imold_codebook import written_nearest

SCORER, ENCODER = Progress(epoch=0), Progress(epoch=1)


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / sqrt(sum(x * x for x in a)) / sqrt(sum(y * y for y in b))


def written(method, batch, order=None):
    """Scores, both parts and all terms without their weights."""
    nodes = method.encoder(batch).detach()
    words = [method.codebook.words[written_nearest(row, method.codebook.words.tolist())] for row in nodes.tolist()]
    scores = method.score_head(method.scorer(batch)).sigmoid().detach()
    doubled = nodes + torch.stack(words)
    invariant, spurious = pooled(doubled, scores, batch), pooled(doubled, 1 - scores, batch)
    gaps = [(a - b) ** 2 for row, word in zip(nodes, words, strict=True) for a, b in zip(row, word, strict=True)]
    found = {"scores": scores, "invariant": invariant}
    found["classification"] = written_risk(method.head(invariant), batch.y, method.task)
    found["commitment"] = mean(float(gap) for gap in gaps)
    found["score"] = written_gap(scores.mean(1), batch.batch, 0.6)
    if order is not None:
        mixed = [method.mixer(torch.cat([invariant[i], spurious[j]]).unsqueeze(0))[0] for i, j in enumerate(order)]
        found["invariance"] = -mean(cosine(a.tolist(), b.tolist()) for a, b in zip(invariant, mixed, strict=True))
    return found


@pytest.mark.parametrize("head", ["linear", "mlp"])
@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("kind", KINDS)
def test_losses_are_their_formulas(kind, missing, head):
    weights = {"commitment": 0.2, "invariance": 0.3, "score_weight": 0.4}
    method, batch = made("imold", kind, missing=missing, codes=11, score_target=0.6, head=head, **weights)
    torch.manual_seed(2)
    order = torch.randperm(len(batch.y)).tolist()
    expected = written(method, batch, order)

    for progress in (SCORER, ENCODER):
        torch.manual_seed(2)
        losses = method.loss(batch, progress)
        same(losses["classification"], expected["classification"])
        same(losses["commitment"], 0.2 * expected["commitment"])
        same(losses["invariance"], 0.3 * expected["invariance"])
        same(losses["score"], 0.4 * expected["score"])


def test_a_graph_is_predicted_by_its_invariant_part():
    method, batch = made("imold", codes=11)
    expected = written(method, batch)
    same(method.embed(batch), expected["invariant"].tolist())
    same(method.predict(batch), method.head(expected["invariant"]).tolist())
    same(method.node_importance(batch), expected["scores"].mean(1).tolist())


def test_the_scorer_learns_in_every_fourth_epoch_and_the_rest_in_the_others():
    method, batch = made("imold", codes=5)
    groups = [next(iter(method.steps(batch, Progress(epoch=e))))[0] for e in range(8)]
    assert groups == 2 * ["scorer", "encoder", "encoder", "encoder"]


def test_weights_at_rest_do_not_drift_by_momentum_but_statistics_and_words_move():
    method, batch = made("imold", codes=5)
    optimised = {name: name.split(".")[0] for name, _ in method.named_parameters()}
    parts = {"scorer": {"scorer", "score_head"}, "encoder": {"encoder", "mixer", "head"}}
    train(method, batch, range(4))
    before, seen = state(method), []

    def look(epoch, group):
        nonlocal before
        moved = changed(before, method)
        assert {optimised[name] for name in moved if name in optimised} == parts[group], epoch
        assert {"codebook.words", "codebook.counts", "codebook.sums"} <= moved
        for name in ("encoder.norms.0.running_mean", "scorer.norms.0.running_mean", "mixer.1.running_var"):
            assert name in moved
        before, seen[len(seen) :] = state(method), [group]

    # One loop with one set of optimisers: the resting group keeps its momentum.
    train(method, batch, range(8), after_step=look)
    assert seen == 2 * ["scorer", "encoder", "encoder", "encoder"]


def test_the_target_of_mixing_passes_no_gradient():
    """With a mixer that says the same of everything, only the target could carry a gradient."""
    method, batch = made("imold", codes=5)
    for progress, part in ((SCORER, method.scorer), (ENCODER, method.encoder)):
        assert gradient(method.loss(batch, progress)["invariance"], part) > 1e-8
    with torch.no_grad():
        method.mixer[-1].weight.zero_()
        method.mixer[-1].bias.fill_(1.0)
    for progress, part in ((SCORER, method.scorer), (ENCODER, method.encoder)):
        assert gradient(method.loss(batch, progress)["invariance"], part) == 0


def test_the_gradient_passes_the_words_and_the_residual():
    """h + VQ(h) counts twice for the encoder: once as itself and once straight through its word."""
    method, batch = made("imold", codes=5)
    method.encoder.nodes = method.encoder(batch).detach().requires_grad_()
    method.encoder.forward = lambda batch: method.encoder.nodes
    doubled, _ = method.discretise(batch)
    (slope,) = torch.autograd.grad(doubled.sum(), method.encoder.nodes)
    assert (slope == 2).all()


@pytest.mark.parametrize("term", ["classification", "commitment", "invariance", "score"])
def test_terms_teach_what_learns_in_their_epoch(term):
    method, batch = made("imold", codes=5)
    scorer_epoch, encoder_epoch = method.loss(batch, SCORER)[term], method.loss(batch, ENCODER)[term]
    if term != "commitment":
        assert gradient(scorer_epoch, method.scorer) > 1e-8
    if term != "score":
        assert gradient(encoder_epoch, method.encoder) > 1e-8
        assert gradient(encoder_epoch, method.scorer) == 0


def test_inference_leaves_the_words_alone():
    method, batch = made("imold", codes=5)
    before = copy.deepcopy(method.state_dict())
    method.predict(batch)
    assert not changed(before, method)


def test_refuses_a_cycle_without_two_kinds_of_epochs():
    for options in ({"cycle": 1}, {"codes": 0}):
        with pytest.raises(UsageError, match="imold needs"):
            made("imold", **options)


def test_learns_a_handful_of_graphs_by_heart():
    assert learns_by_heart("imold", codes=50)
