"""AIA against its definition: both games, their order, and who is in which mode when."""

from __future__ import annotations

import pytest
import torch

from mphil.methods import METHODS, Progress
from tests.graphs import TASKS, random_store, small_encoder
from tests.unit.methods.stepping import (
    KINDS,
    changed,
    gradient,
    learns_by_heart,
    made,
    pooled,
    same,
    state,
    train,
    written_gap,
    written_risk,
)

START = Progress()


def through(method, batch, node_mask, edge_mask):
    """(B, d) the graphs through masks; the back encoder is taken as it is."""
    nodes = method.classifier.front(batch) * node_mask.unsqueeze(1)
    seen = method.classifier.back(batch, x=nodes, edge_weight=edge_mask)
    return pooled(seen, torch.ones(len(nodes)), batch).detach()


def written_shares(masks, batch, nodes, edges):
    edge_owner = batch.batch[batch.edge_index[0]]
    return written_gap(masks.nodes, batch.batch, nodes) + written_gap(masks.edges, edge_owner, edges)


def written_mask(masker, batch):
    nodes = masker.backbone(batch)
    ends = torch.cat([nodes[batch.edge_index[0]], nodes[batch.edge_index[1]]], dim=1)
    of_nodes = nodes @ masker.nodes.last.weight[0] + masker.nodes.last.bias
    of_edges = ends @ masker.edges.last.weight[0] + masker.edges.last.bias
    return of_nodes.sigmoid().detach(), of_edges.sigmoid().detach()


@pytest.mark.parametrize("head", ["linear", "mlp"])
@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("kind", KINDS)
def test_losses_of_both_sides_are_their_formulas(kind, missing, head):
    shares = {"stable_share": 0.3, "adversarial_nodes": 0.9, "adversarial_edges": 0.7}
    weights = {"distance": 0.2, "stable_weight": 0.3, "adversarial_weight": 0.4}
    method, batch = made("aia", kind, missing=missing, head=head, encoder={"layers": 3}, **shares, **weights)
    stable, adversarial = written_mask(method.masker, batch), written_mask(method.adversary, batch)
    both = [own + (1 - own) * other for own, other in zip(stable, adversarial, strict=True)]
    answer = method.classifier.head

    losses = method.loss(batch, START)
    same(losses["stable"], written_risk(answer(through(method, batch, *stable)), batch.y, method.task))
    same(losses["augmented"], written_risk(answer(through(method, batch, *both)), batch.y, method.task))
    same(losses["stable_share"], 0.3 * written_shares(method.masker(batch), batch, 0.3, 0.3))
    same(method.predict(batch), answer(through(method, batch, *stable)).tolist())
    same(method.embed(batch), through(method, batch, *stable).tolist())
    same(method.node_importance(batch), stable[0].tolist())

    losses = method.adversary_loss(batch)
    attacked = through(method, batch, *adversarial)
    whole = through(method, batch, *(torch.ones_like(mask) for mask in adversarial))
    gaps = [(a - b) ** 2 for a, b in zip(attacked.flatten().tolist(), whole.flatten().tolist(), strict=True)]
    same(losses["adversary"], -written_risk(answer(attacked), batch.y, method.task))
    same(losses["distance"], 0.2 * sum(gaps) / len(gaps))
    same(losses["adversarial_share"], 0.4 * written_shares(method.adversary(batch), batch, 0.9, 0.7))


def test_each_side_moves_its_own_weights_and_statistics_only():
    method, batch = made("aia", encoder={"dropout": 0.3})
    before, sides = state(method), []

    def look(epoch, group):
        nonlocal before
        sides.append((group, {name.split(".")[0] for name in changed(before, method)}))
        before = state(method)

    train(method, batch, range(2), after_step=look)
    assert sides == 2 * [("stable", {"classifier", "masker"}), ("adversary", {"adversary"})]
    assert all(module.training for module in method.modules())


def test_the_adversary_meets_the_stable_side_as_it_is_after_its_step():
    method, batch = made("aia")
    steps = method.steps(batch, START)
    next(steps)
    with torch.no_grad():
        for parameter in method.classifier.head.parameters():
            parameter *= 3.0
    _, losses = next(steps)
    same(losses["adversary"], method.adversary_loss(batch)["adversary"].item())
    with torch.no_grad():
        for parameter in method.classifier.head.parameters():
            parameter /= 3.0
    assert abs(losses["adversary"] - method.adversary_loss(batch)["adversary"]) > 1e-3


def test_the_adversary_plays_against_a_classifier_without_dropout():
    method, batch = made("aia", encoder={"dropout": 0.5})
    quiet = method.adversary_loss(batch)["adversary"]
    method.train()
    method.adversary.eval()
    same(method.adversary_loss(batch)["adversary"], quiet.item())
    assert method.classifier.training


def test_the_stable_side_does_not_teach_the_adversary():
    method, batch = made("aia")
    assert gradient(method.loss(batch, START).total, method.adversary) == 0
    assert gradient(method.adversary_loss(batch).total, method.masker) == 0


@pytest.mark.parametrize("term", ["adversary", "distance", "adversarial_share"])
def test_every_term_teaches_the_adversary(term):
    method, batch = made("aia")
    assert gradient(method.adversary_loss(batch)[term], method.adversary) > 1e-8


def test_the_adversary_makes_the_classifier_fail():
    method, batch = made("aia", distance=0.0, adversarial_weight=0.0)

    def risk():
        return -method.eval().adversary_loss(batch)["adversary"].item()

    before = risk()
    optimizer = torch.optim.Adam(method.adversary.parameters(), lr=1e-2)
    for _ in range(20):
        optimizer.zero_grad()
        method.adversary_loss(batch).total.backward()
        optimizer.step()
    assert risk() > before + 1e-3


def test_the_adversary_has_a_speed_of_its_own():
    method, _ = made("aia", adversary_speed=3.0)
    assert method.learning_rates() == {"adversary": 3.0}
    assert set(method.learning_rates()) < set(method.param_groups())


@pytest.mark.parametrize(("layers", "front", "back"), [(1, 1, 1), (2, 1, 1), (3, 2, 1), (4, 2, 2), (5, 2, 3)])
def test_the_layers_of_the_run_are_cut_into_front_and_back(layers, front, back):
    kind = "vgin" if layers > 2 else "gin"
    method = METHODS["aia"](TASKS["binary"], small_encoder(random_store("binary"), layers=layers, kind=kind))
    assert (len(method.classifier.front.layers), len(method.classifier.back.layers)) == (front, back)
    assert all(part.virtual is None for part in (method.classifier.front, method.classifier.back))


def test_learns_a_handful_of_graphs_by_heart():
    assert learns_by_heart("aia")
