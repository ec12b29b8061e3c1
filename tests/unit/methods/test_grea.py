"""GREA against its definition: the split, the swaps and whose label they have, and whose turn it is to learn."""

from __future__ import annotations

import pytest
import torch

from mphil.errors import UsageError
from mphil.methods import Progress
from mphil.nn.losses import all_pairs
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
    written_losses,
    written_risk,
)

GATE, PREDICTOR = Progress(epoch=0), Progress(epoch=1)


def written_parts(method, batch, how="sum"):
    nodes = method.encoder(batch).detach()
    gate = method.gate_head(method.gate_encoder(batch), batch).detach().sigmoid()
    return gate, pooled(nodes, gate, batch, how), pooled(nodes, 1 - gate, batch, how)


def answer(method, z):
    return method.head(method.lift(z))


@pytest.mark.parametrize("pooling", ["sum", "mean"])
@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("kind", KINDS)
def test_losses_are_their_formulas(kind, missing, pooling):
    method, batch = made("grea", kind, missing=missing, pooling=pooling, rationale_share=0.3)
    gate, rationale, environment = written_parts(method, batch, pooling)
    swapped = []
    for i in range(len(batch.y)):
        for j in range(len(batch.y)):
            logits = answer(method, (rationale[i] + environment[j]).unsqueeze(0))
            swapped += written_losses(logits, batch.y[[i]], method.task).values()

    losses = method.loss(batch, GATE)

    assert list(losses) == ["rationale", "swapped", "share"]
    same(losses["rationale"], written_risk(answer(method, rationale), batch.y, method.task))
    same(losses["swapped"], mean(swapped))
    same(losses["share"], written_gap(gate, batch.batch, 0.3))
    assert list(method.loss(batch, PREDICTOR)) == ["rationale", "swapped"]


def test_a_graph_is_predicted_by_its_rationale_alone():
    method, batch = made("grea")
    gate, rationale, _ = written_parts(method, batch)
    same(method.embed(batch), rationale.tolist())
    same(method.predict(batch), answer(method, rationale).tolist())
    same(method.node_importance(batch), gate.tolist())


def test_a_swapped_graph_keeps_the_label_of_its_rationale():
    method, batch = made("grea")
    _, rationale, environment = written_parts(method, batch)
    pairs = answer(method, all_pairs(rationale, environment))
    wrong = written_risk(pairs, batch.y.repeat(len(batch.y), 1), method.task)
    assert abs(method.loss(batch, GATE)["swapped"].item() - wrong) > 1e-3


def test_lifting_before_the_pairs_are_made_changes_nothing_in_training():
    method, batch = made("grea")
    method.train()
    _, rationale, environment = written_parts(method, batch)
    logits = answer(method, all_pairs(rationale, environment))
    labels = batch.y.repeat_interleave(len(batch.y), 0)
    same(method.loss(batch, GATE)["swapped"], written_risk(logits, labels, method.task))


def test_a_few_environments_in_place_of_all():
    method, batch = made("grea", environments=3)
    rows = []
    method.head.register_forward_hook(lambda module, given, logits: rows.append((given[0], len(logits))))
    torch.manual_seed(0)
    swapped = method.loss(batch, GATE)["swapped"]
    (_, first), (given, second) = rows
    assert (first, second) == (7, 21)
    same(swapped, written_risk(method.head(given), batch.y.repeat_interleave(3, 0), method.task))


def test_the_gate_learns_in_the_first_epochs_of_a_cycle_and_the_rest_in_the_others():
    for options, turns in (({}, "gppp"), ({"gate_epochs": 2, "cycle": 5}, "ggppp")):
        method, batch = made("grea", **options)
        groups = [next(iter(method.steps(batch, Progress(epoch=e))))[0] for e in range(2 * len(turns))]
        assert "".join(group[0] for group in groups) == 2 * turns


def test_what_rests_does_not_move_but_its_statistics_do():
    method, batch = made("grea")
    for epochs in (range(4), range(4, 5), range(5, 8)):
        before = state(method)
        train(method, batch, epochs)
        moved = {n for n in changed(before, method) if n in dict(method.named_parameters())}
        statistics = changed(before, method) - moved
        assert {n.split(".")[0] for n in statistics} == {"encoder", "gate_encoder", "gate_head", "head"}
        parts = {n.split(".")[0] for n in moved}
        expected = [{"gate_encoder", "gate_head"}] if 4 in epochs else [{"encoder", "lift", "head"}]
        if 0 in epochs:
            expected = [{"gate_encoder", "gate_head", "encoder", "lift", "head"}]
        assert [parts] == expected


@pytest.mark.parametrize("term", ["rationale", "swapped", "share"])
def test_every_term_teaches_the_gate_and_the_first_two_the_encoder(term):
    method, batch = made("grea")
    losses = method.loss(batch, GATE)
    assert gradient(losses[term], method.gate_encoder) > 1e-6
    assert gradient(losses[term], method.encoder) == 0
    if term != "share":
        losses = method.loss(batch, PREDICTOR)
        assert gradient(losses[term], method.encoder) > 1e-6
        assert gradient(losses[term], method.gate_encoder) == 0


def test_a_cycle_needs_epochs_of_both_kinds():
    for options in ({"gate_epochs": 0}, {"gate_epochs": 4}, {"cycle": 1}):
        with pytest.raises(UsageError, match="gate_epochs"):
            made("grea", **options)


def test_learns_a_handful_of_graphs_by_heart():
    assert learns_by_heart("grea")
