"""The ablations and alternatives of MPHIL, each changing what it says and nothing else, and the presets."""

from __future__ import annotations

import copy
from typing import get_args

import pytest
import torch

from mphil.methods.base import Parts, resolve_hyperparameters
from mphil.methods.mphil import MPHIL, Update
from mphil.nn.sphere import unit
from tests.graphs import TASKS, random_store, small_encoder, whole
from tests.unit.methods.test_mphil import KINDS, check_gradient, check_step
from tests.unit.methods.written import START, build, inputs, same, size_of_gradient
from tests.unit.nn import reference

ALL_UPDATES = get_args(Update)
RULES_PER_EPOCH = ("epoch-mean", "epoch-kmeans")


def parameter_names(model: MPHIL) -> set[str]:
    return {name.split(".")[0] for name, _ in model.named_parameters()}


# --- ablations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("weight", "term"), [("matching", "matching"), ("separation", "separation")])
def test_weight_zero_leaves_a_loss_out_and_the_others_as_they_were(weight, term):
    full, batch = build()
    without, _ = build(**{weight: 0.0})
    expected, found = full.loss(batch, START), without.loss(batch, START)
    assert set(expected) - set(found) == {term}
    assert all(torch.equal(found[name], expected[name]) for name in found)


@pytest.mark.parametrize(("weight", "term"), [("matching", "matching"), ("separation", "separation")])
def test_a_weight_scales_its_loss(weight, term):
    one, batch = build(**{weight: 1.0})
    four, _ = build(**{weight: 4.0})
    same(four.loss(batch, START)[term], 4 * one.loss(batch, START)[term].item())


def test_class_mean_divides_the_classification_loss_by_the_classes():
    model, batch = build(class_mean=True)
    plain, _ = build()
    check_step(copy.deepcopy(model), batch, class_mean=True)
    same(model.loss(batch, START)["classification"], plain.loss(batch, START)["classification"].item() / 3)


def test_without_projector_the_raw_representation_is_compared():
    model, batch = build(project=False, temperature=2.0)
    assert parameter_names(model) == {"encoder", "scorer", "query", "key"}
    assert model.prototypes.shape == (1, 3, 3, 6)
    check_step(copy.deepcopy(model), batch, project=False, tau=2.0)
    model.eval()
    given = inputs(model, batch)
    raw = [[reference.sigmoid(value) for value in row] for row in given["raw"]]
    same(model.embed(batch), reference.masked_readout(given["H"], raw, given["graph_of_node"], 9))


def test_without_normalisation_the_projected_vector_is_compared():
    model, batch = build(normalise=False)
    check_step(copy.deepcopy(model), batch, on_sphere=False)
    assert not model.embed(batch).norm(dim=1).allclose(torch.ones(9, dtype=torch.float64))


def test_without_invariant_encoder_there_is_no_scorer_and_every_score_is_one():
    model, batch = build(invariant_encoder=False, score_weight=1.0, score_head=True)
    assert parameter_names(model) == {"encoder", "projector", "query", "key"}
    assert inputs(model, batch)["raw"] is None
    check_step(model, batch)


@pytest.mark.parametrize("kind", KINDS)
def test_keeping_zero_means_keeping_all(kind):
    zero, batch = build(kind, keep=0)
    everything, _ = build(kind, keep=3)
    expected, found = everything.loss(batch, START), zero.loss(batch, START)
    assert all(torch.equal(found[term], expected[term]) for term in expected)
    assert torch.equal(zero.prototypes, everything.prototypes)
    assert torch.equal(zero.predict(batch), everything.predict(batch))


def test_mean_and_sum_predict_the_same_probabilities_and_max_and_min_do_not():
    found = {}
    for aggregate in ("max", "mean", "min", "sum"):
        model, batch = build(aggregate=aggregate, keep=2)
        found[aggregate] = model.predict(batch).softmax(1)
    torch.testing.assert_close(found["mean"], found["sum"], rtol=1e-12, atol=1e-12)
    assert not torch.allclose(found["max"], found["sum"], atol=1e-3)
    assert not torch.allclose(found["max"], found["min"], atol=1e-3)


def test_sizes_follow_their_options():
    model, _ = build()
    assert [tuple(layer.weight.shape) for layer in (model.projector[0], model.projector[2])] == [(3, 6), (6, 3)]
    assert model.query.weight.shape == model.key.weight.shape == (6, 6)
    model, _ = build(projection=5, projector_width=2.0, attention_width=4)
    assert [tuple(layer.weight.shape) for layer in (model.projector[0], model.projector[2])] == [(12, 6), (5, 12)]
    assert model.query.weight.shape == model.key.weight.shape == (4, 5)
    assert model.prototypes.shape == (1, 3, 3, 5)


def test_score_regulariser():
    graphs = 9
    model, batch = build(graphs=graphs, score_weight=0.7, score_target=0.5)
    given = inputs(model, batch)
    scores = [[reference.sigmoid(value) for value in row] for row in given["raw"]]
    means = [sum(row) / len(row) for row in reference.readout(scores, given["graph_of_node"], graphs, "mean")]
    assert min(means) < 0.5 < max(means), "graphs on both sides of the target tell the mean of |x| from |mean of x|"
    losses = model.loss(batch, START)
    same(losses["score"], 0.7 * reference.score_ratio(scores, given["graph_of_node"], graphs, 0.5))
    same(losses["classification"], reference.mphil(**given)["classification"])


# --- how prototypes move -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("update", "weights"), [("ema-uniform", "uniform"), ("ema-hard", "hard")])
def test_moving_average_without_attention(update, weights, kind):
    model, batch = build(kind, update=update, missing=0.2, momentum=0.8)
    assert parameter_names(model) == {"encoder", "scorer", "projector"}
    check_step(model, batch, weights=weights, alpha=0.8)
    model.eval()
    expected = reference.mphil(**inputs(model, batch), weights=weights, moves=False)
    same(model.predict(batch), reference.answers(expected["logits"], kind))


def test_prototypes_by_gradient():
    model, batch = build(update="gradient")
    assert "prototypes" in parameter_names(model)
    model.prototypes.data *= 3  # what an optimiser leaves behind is put back on the sphere before it is used
    before = model.prototypes.detach().clone()
    given = inputs(model, batch) | {"M": reference.listed(unit(before))}
    losses = model.loss(batch, START)
    expected = reference.mphil(**given, moves=False)
    for term in losses:
        same(losses[term], expected[term])
    losses.total.backward()
    assert torch.equal(model.prototypes, before)
    assert model.prototypes.grad.abs().sum() > 0
    same(model.bank().norm(dim=-1), torch.ones(1, 3, 3).tolist())


@pytest.mark.parametrize("update", RULES_PER_EPOCH)
def test_rules_per_epoch_do_not_move_inside_an_epoch(update):
    model, batch = build(update=update)
    check_step(model, batch, moves=False)


def placed_and_split(kind: str, update: str, **options):
    """A model that has seen a step, its training graphs in two batches, and all of them in one."""
    store = random_store(kind, graphs=12, missing=0.2)
    torch.manual_seed(0)
    model = MPHIL(TASKS[kind], small_encoder(store), update=update, **options).double()
    model.loss(whole(store, torch.float64), START)
    parts = [whole(store[0:5], torch.float64), whole(store[5:12], torch.float64)]
    return model, parts, whole(store, torch.float64)


@pytest.mark.parametrize("kind", KINDS)
def test_epoch_mean_puts_prototypes_at_the_weighted_class_means(kind):
    model, parts, batch = placed_and_split(kind, "epoch-mean", keep=2)
    model.eval()
    given = inputs(model, batch)
    z = reference.mphil(**given, moves=False)["z"]
    W = reference.prune(reference.weigh(given["state"], z, given["M"]), 2)
    expected = reference.updated(given["M"], z, W, given["y"], 0.0)
    model.train()
    model.begin_epoch(Parts(parts), START)
    same(model.prototypes, expected)
    assert model.training


@pytest.mark.parametrize("kind", KINDS)
def test_epoch_kmeans_runs_inside_each_class(kind):
    model, parts, batch = placed_and_split(kind, "epoch-kmeans")
    model.eval()
    given = inputs(model, batch)
    z, y = reference.mphil(**given, moves=False)["z"], given["y"]
    expected = given["M"]
    for t in range(len(expected)):
        for c in range(len(expected[t])):
            members = [z[b] for b in range(len(z)) if y[b][t] == c]
            expected[t][c] = reference.kmeans(members, expected[t][c], 10) if members else expected[t][c]
    model.train()
    model.begin_epoch(Parts(parts), START)
    same(model.prototypes, expected)
    assert model.training


@pytest.mark.parametrize("update", RULES_PER_EPOCH)
def test_a_class_without_training_graphs_keeps_its_prototypes(update):
    model, parts, _ = placed_and_split("multiclass", update)
    for part in parts:
        part.y[part.y == 1] = float("nan")
    before = model.prototypes.clone()
    model.begin_epoch(Parts(parts), START)
    assert torch.equal(model.prototypes[0, 1], before[0, 1])
    assert not torch.equal(model.prototypes[0, 0], before[0, 0])


@pytest.mark.parametrize("update", sorted(set(ALL_UPDATES) - set(RULES_PER_EPOCH)))
def test_the_other_rules_do_nothing_between_epochs(update):
    model, parts, _ = placed_and_split("multiclass", update)
    before = model.prototypes.clone()
    model.begin_epoch(Parts(parts), START)
    assert torch.equal(model.prototypes, before)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("update", ALL_UPDATES)
def test_every_rule_trains_for_every_task(update, kind):
    store = random_store(kind, graphs=12, missing=0.2)
    torch.manual_seed(0)
    model, batch = MPHIL(TASKS[kind], small_encoder(store), update=update), whole(store)
    optimiser = torch.optim.Adam(model.parameters())
    for _ in range(3):
        model.begin_epoch(Parts([batch]), START)
        losses = model.loss(batch, START)
        assert losses.total.isfinite()
        optimiser.zero_grad()
        losses.total.backward()
        optimiser.step()
    torch.testing.assert_close(model.bank().norm(dim=-1), torch.ones(model.bank().shape[:-1]), rtol=0, atol=1e-6)


# --- presets -----------------------------------------------------------------------------------------------------


def preset(name: str, **more) -> dict:
    return resolve_hyperparameters(MPHIL, name, more)


@pytest.mark.parametrize("name", ["paper", "release", "repaired"])
@pytest.mark.parametrize("kind", KINDS)
def test_presets_train(name, kind):
    store = random_store(kind, graphs=12, missing=0.2)
    torch.manual_seed(0)
    model, batch = MPHIL(TASKS[kind], small_encoder(store, dropout=0.5), **preset(name)), whole(store)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(3):
        optimiser.zero_grad()
        total = model.loss(batch, START).total
        total.backward()
        assert total.isfinite()
        optimiser.step()
    assert model.predict(batch).shape == (12, TASKS[kind].n_outputs)


def test_the_paper_preset_is_the_paper():
    model, batch = build("binary", **preset("paper"))
    check_step(model, batch, alpha=0.99, beta=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_the_release_preset_is_the_release(kind):
    model, batch = build(kind, missing=0.2, **preset("release", projection=5, attention_width=4))
    given = inputs(model, batch)
    losses = model.loss(batch, START)
    expected = reference.released(**given)
    assert set(losses) == {"classification", "separation", "score"}
    for term in losses:
        same(losses[term], expected[term])
    same(model.prototypes, expected["prototypes"])
    model.eval()
    given = inputs(model, batch)
    z = reference.place(given["state"], given["H"], given["raw"], given["graph_of_node"], 9, on_sphere=False)
    Q = reference.weigh(given["state"], z, given["M"], over_all=True)
    same(model.predict(batch), reference.answers(reference.released_logits(Q, z, given["M"]), kind))


def test_sizes_of_the_release():
    model, _ = build(**preset("release"))
    assert [tuple(layer.weight.shape) for layer in (model.projector[0], model.projector[2])] == [(6, 6), (300, 6)]
    assert model.query.weight.shape == (128, 300)
    assert model.query.bias.shape == (128,)
    assert model.key.bias is None, "it would add the same to all scores of a sample"
    assert [tuple(layer.weight.shape) for layer in (model.score_head[0], model.score_head[3])] == [(12, 6), (6, 12)]


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_of_the_release(kind):
    """Classification compares with prototypes that carry no gradient, and reaches them through the attention's keys."""
    options = preset("release", projection=5, attention_width=4, score_head=False, momentum=0.6)
    model, batch = build(kind, **options)
    compared = reference.released(**inputs(copy.deepcopy(model), batch), alpha=0.6)["prototypes"]

    def total(changed: dict) -> float:
        expected = reference.released(**changed, alpha=0.6, compared=compared)
        return expected["classification"] + expected["separation"] + expected["score"]

    check_gradient(model, batch, total)


def test_release_attention_learns_from_both_losses():
    for term in ("classification", "separation"):
        model, batch = build(**preset("release", projection=5, attention_width=4))
        model.loss(batch, START)[term].backward()
        assert size_of_gradient(model.query) > 1e-9
        assert size_of_gradient(model.key) > 1e-9
