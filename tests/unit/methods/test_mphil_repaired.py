"""The switches that repair MPHIL, one by one and together, each changing what it says and nothing else."""

from __future__ import annotations

import copy

import pytest
import torch

from mphil.methods.base import Parts, Progress, resolve_hyperparameters
from mphil.methods.mphil import MPHIL
from mphil.nn import sphere
from tests.graphs import TASKS, random_store, small_encoder, whole
from tests.unit.methods.test_mphil import KINDS, check_gradient, finite_step
from tests.unit.methods.test_mphil_switches import parameter_names
from tests.unit.methods.written import START, build, give_nodes, inputs, same, size_of_gradient
from tests.unit.nn import reference

TERMS = ("classification", "separation", "matching")


def repaired(**more) -> dict:
    return resolve_hyperparameters(MPHIL, "repaired", more)


@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_of_all_switches_together(kind, missing):
    model, batch = build(kind, missing=missing, **repaired())
    for _ in range(2):
        given = inputs(model, batch)
        losses = model.loss(batch, START)
        expected = reference.repaired(**given)
        assert set(losses) == set(TERMS)
        for term in TERMS:
            same(losses[term], expected[term])
        same(model.prototypes, expected["prototypes"])


def test_the_gradient_of_a_step():
    """The matching and the balanced weights see prototypes that carry no gradient."""
    settings = {"momentum": 0.6, "temperature": 0.3, "separation": 1.0, "update": "ema-attention", "update_as": "sum"}
    model, batch = build(**repaired(**settings))
    before = copy.deepcopy(model)
    compared = before.loss(batch, START) and reference.listed(before.prototypes)

    def total(changed: dict) -> float:
        z = reference.place(changed["state"], changed["H"], changed["raw"], changed["graph_of_node"], 9)
        W = reference.prune(reference.cosine_attention(z, changed["M"], 0.1), 1)
        M = reference.updated(changed["M"], z, W, changed["y"], 0.6)
        logits = reference.log_scores(reference.class_scores(W, reference.similarity(z, M), 0.3))
        matching = reference.matching(reference.similarity(z, compared), changed["y"], 0.3)
        return reference.cross_entropy(logits, changed["y"]) + reference.dispersion(M, 0.3) + matching

    check_gradient(model, batch, total)


# --- attention -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [1, 0])
@pytest.mark.parametrize("kind", KINDS)
def test_cosine_attention_in_prediction(kind, keep):
    model, batch = build(kind, attention="cosine", attention_temperature=0.4, keep=keep)
    assert parameter_names(model) == {"encoder", "scorer", "projector"}, "nothing about the weights is learned"
    model.eval()
    z, M = reference.listed(model.embed(batch)), reference.listed(model.prototypes)
    W = reference.prune(reference.cosine_attention(z, M, 0.4), keep)
    scores = reference.log_scores(reference.class_scores(W, reference.similarity(z, M), 0.1))
    same(model.predict(batch), reference.answers(scores, kind))


def test_what_is_kept_is_the_nearest_prototype():
    model, batch = build(attention="cosine")
    z = model.embed(batch)
    kept = model.weigh(z, model.prototypes).exp()
    assert torch.equal(kept.argmax(-1), sphere.similarity(z, model.prototypes).argmax(-1))
    assert (kept > 0).sum(-1).eq(1).all()


def test_cosine_attention_off_the_sphere_looks_at_directions():
    model, batch = build(attention="cosine", normalise=False)
    z = model.embed(batch)
    same(model.weigh(7 * z, model.prototypes, pruned=False), model.weigh(z, model.prototypes, pruned=False).tolist())


# --- matching ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("detached", [True, False])
def test_detached_matching_gives_no_gradient_to_prototypes(detached):
    model, batch = build(update="gradient", detached_matching=detached)
    model.loss(batch, START)["matching"].backward()
    assert (model.prototypes.grad is None) == detached
    assert size_of_gradient(model.encoder) > 1e-9


def test_detached_matching_has_the_same_value_and_another_gradient():
    values, slopes = [], []
    for detached in (True, False):
        model, batch = build(momentum=0.5, detached_matching=detached)
        give_nodes(model, batch)
        matching = model.loss(batch, START)["matching"]
        matching.backward()
        values.append(matching.item())
        slopes.append(model.encoder.nodes.grad)
    assert values[0] == pytest.approx(values[1], rel=1e-12)
    assert not slopes[0].allclose(slopes[1])


# --- how prototypes move -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("update_as", ["sum", "mean"])
@pytest.mark.parametrize("kind", KINDS)
def test_balanced_weights_move_the_prototypes_and_attention_classifies(kind, update_as):
    model, batch = build(kind, missing=0.3, update="ema-sinkhorn", update_as=update_as, momentum=0.8)
    given = inputs(model, batch)
    z = reference.place(given["state"], given["H"], given["raw"], given["graph_of_node"], 9)
    W = reference.prune(reference.weigh(given["state"], z, given["M"]), 1)
    balanced = reference.sinkhorn(reference.similarity(z, given["M"]), given["y"])
    M = reference.updated(given["M"], z, balanced, given["y"], 0.8, update_as == "mean")
    losses = model.loss(batch, START)
    same(model.prototypes, M)
    scores = reference.log_scores(reference.class_scores(W, reference.similarity(z, M), 0.1))
    same(losses["classification"], reference.cross_entropy(scores, given["y"]))


def test_the_update_by_balanced_weights_passes_gradient_through_the_points():
    model, batch = build(update="ema-sinkhorn")
    model.loss(batch, START)["separation"].backward()
    assert size_of_gradient(model.projector) > 1e-9
    assert size_of_gradient(model.query) == 0


def test_a_mean_moves_as_far_in_a_large_batch_as_in_a_small_one():
    moved = []
    for repeats in (1, 4):
        store = random_store(graphs=9)
        torch.manual_seed(0)
        model = MPHIL(TASKS["multiclass"], small_encoder(store), **repaired(start="random")).double()
        model.loss(whole(store.select(torch.arange(9).repeat(repeats)), torch.float64), START)
        moved.append(model.prototypes)
    torch.testing.assert_close(*moved, rtol=0, atol=1e-6)


# --- where they start ----------------------------------------------------------------------------------------------


def started(epoch: int = 0) -> tuple[MPHIL, MPHIL]:
    """A model before and after the beginning of an epoch."""
    store = random_store("multiclass", graphs=24)
    torch.manual_seed(0)
    model = MPHIL(TASKS["multiclass"], small_encoder(store), start="class-mean")
    before = copy.deepcopy(model)
    parts = Parts([whole(store[0:11]), whole(store[11:24])])
    model.begin_epoch(parts, Progress(epoch=epoch, total_epochs=3))
    return before, model


@pytest.mark.parametrize("update", ["ema-attention", "ema-sinkhorn", "gradient"])
@pytest.mark.parametrize("kind", KINDS)
def test_prototypes_start_in_their_class(kind, update):
    """The nodes of a graph lie around a direction of their own for every label of the graph."""
    model, batch = build(kind, graphs=40, start="class-mean", update=update, invariant_encoder=False)
    model.projector = torch.nn.Identity()
    axes = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64))[0]
    y = batch.y.long()
    directions = (
        axes[y[:, 0]] if kind == "multiclass" else sum((2 * y[:, [t]] - 1) * axes[t] for t in range(y.shape[1]))
    )
    nodes = directions[batch.batch]
    give_nodes(model, batch, nodes + 0.05 * torch.randn_like(nodes))
    model.begin_epoch(Parts([batch]), START)
    z, bank = model.embed(batch), model.bank()
    for task, label in torch.ones(bank.shape[:2]).nonzero().tolist():
        own, others = (sphere.unit(z[chosen].sum(0)) for chosen in (y[:, task] == label, y[:, task] != label))
        assert (bank[task, label] @ own > bank[task, label] @ others).all()
        assert bank[task, label].unique(dim=0).shape[0] == 3
    same(bank.norm(dim=-1), torch.ones(bank.shape[:-1]).tolist())


def test_only_prototypes_change_at_the_start():
    before, model = started()
    state = model.state_dict()
    assert [name for name, value in before.state_dict().items() if not torch.equal(value, state[name])] == [
        "prototypes"
    ]
    assert model.training


def test_they_start_once():
    before, model = started(epoch=1)
    assert torch.equal(model.prototypes, before.prototypes)


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_without_training_graphs_starts_anywhere(kind):
    store = random_store(kind, graphs=12)
    store.y[store.y == 1] = float("nan")
    torch.manual_seed(0)
    model = MPHIL(TASKS[kind], small_encoder(store), start="class-mean")
    before = model.prototypes.clone()
    model.begin_epoch(Parts([whole(store)]), START)
    assert torch.equal(model.prototypes[:, 1], before[:, 1])
    assert not torch.equal(model.prototypes[:, 0], before[:, 0])


# --- edge cases ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_no_labels_and_single_graphs(kind):
    model, batch = build(kind, **repaired())
    batch.y.fill_(float("nan"))
    before = model.prototypes.clone()
    assert finite_step(model, batch)["classification"] == 0
    assert torch.equal(model.prototypes, before)
    model, batch = build(kind, graphs=1, **repaired())
    finite_step(model, batch)


def test_one_prototype_a_class():
    model, batch = build(**repaired(prototypes=1))
    finite_step(model, batch)


def test_it_learns_what_can_be_learned_and_its_prototypes_stay_apart():
    store = random_store("multiclass", graphs=60, seed=1)
    store.x[:, 0] += 4 * store.y[:, 0].repeat_interleave(store.n_nodes)
    torch.manual_seed(0)
    model, batch = MPHIL(TASKS["multiclass"], small_encoder(store), **repaired()), whole(store)
    model.begin_epoch(Parts([batch]), START)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(120):
        # The rate falls to 0, so that rounding does not decide where the last step ends.
        optimiser.param_groups[0]["lr"] = 0.01 * (1 - step / 120)
        optimiser.zero_grad()
        model.loss(batch, START).total.backward()
        optimiser.step()
    model.eval()
    assert (model.predict(batch).argmax(1) == batch.y[:, 0]).float().mean() > 0.95
