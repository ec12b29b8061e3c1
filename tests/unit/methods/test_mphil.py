"""MPHIL as a whole against the written-out method: one training step, its gradient, prediction, edge cases."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.errors import UsageError
from mphil.methods.mphil import MPHIL
from tests.graphs import TASKS, random_store, small_encoder, whole
from tests.unit.methods.written import START, build, give_nodes, inputs, same, size_of_gradient
from tests.unit.nn import reference

KINDS = sorted(TASKS)
TERMS = ("classification", "separation", "matching")
NAN = float("nan")


# --- a training step -------------------------------------------------------------------------------------------


def check_step(model: MPHIL, batch, **settings_of_reference) -> None:
    given_to_reference = inputs(model, batch)
    losses = model.loss(batch, START)
    expected = reference.mphil(**given_to_reference, **settings_of_reference)
    assert set(losses) == set(TERMS)
    for term in TERMS:
        same(losses[term], expected[term])
    same(losses.total, sum(expected[term] for term in TERMS))
    same(model.prototypes, expected["prototypes"])


@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_with_the_defaults(kind, missing):
    model, batch = build(kind, missing=missing)
    check_step(model, batch)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(data=st.data())
def test_a_step_with_any_numbers(data):
    K = data.draw(st.integers(1, 4), "K")
    hyper = {
        "keep": data.draw(st.integers(0, K), "n"),
        "temperature": data.draw(st.sampled_from([0.07, 0.5, 1.0]), "tau"),
        "momentum": data.draw(st.sampled_from([0.0, 0.5, 0.99]), "alpha"),
        "matching": data.draw(st.sampled_from([0.01, 0.3]), "beta"),
        "aggregate": data.draw(st.sampled_from(["max", "mean", "min", "sum"]), "aggregate"),
        "readout": data.draw(st.sampled_from(["mean", "sum", "max"]), "readout"),
        "class_mean": data.draw(st.booleans(), "class_mean"),
    }
    graphs = {
        "graphs": data.draw(st.integers(1, 7), "B"),
        "missing": data.draw(st.sampled_from([0.0, 0.5]), "missing"),
        "seed": data.draw(st.integers(0, 99), "seed"),
    }
    sizes = {"projection": data.draw(st.integers(2, 7), "p"), "attention_width": data.draw(st.integers(1, 5), "d'")}
    model, batch = build(data.draw(st.sampled_from(KINDS), "kind"), prototypes=K, **hyper, **graphs, **sizes)
    names = {"temperature": "tau", "momentum": "alpha", "matching": "beta", "readout": "how"}
    check_step(model, batch, **{names.get(name, name): value for name, value in hyper.items()})


@pytest.mark.parametrize("nodes", ["constant", "float", "categorical"])
@pytest.mark.parametrize("edges", ["none", "float", "categorical"])
def test_a_step_on_every_kind_of_features(nodes, edges):
    model, batch = build(nodes=nodes, edges=edges)
    check_step(model, batch)


def test_several_steps_in_a_row():
    model, batch = build("multitask", missing=0.3, momentum=0.7)
    for _ in range(3):
        check_step(model, batch, alpha=0.7)


# --- gradients ---------------------------------------------------------------------------------------------------


def slope(function, given_to_reference: dict, path: tuple, step: float = 1e-6) -> float:
    """Central difference of the written-out total in one entry of its inputs."""
    values = []
    for sign in (1, -1):
        changed = copy.deepcopy(given_to_reference)
        holder = changed
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] += sign * step
        values.append(function(changed))
    return (values[0] - values[1]) / (2 * step)


def check_gradient(model: MPHIL, batch, function) -> None:
    """Autograd of the model's total against differences of `function` of the reference's inputs, entry by entry."""
    give_nodes(model, batch)
    given_to_reference = inputs(model, batch)
    model.loss(batch, START).total.backward()
    leaves = {("H",): model.encoder.nodes, ("raw",): model.scorer.nodes}
    leaves |= {
        ("state", name): p for name, p in model.named_parameters() if name.startswith(("projector", "query", "key"))
    }
    for where, parameter in leaves.items():
        entries = torch.ones_like(parameter).nonzero()
        for entry in entries[torch.randperm(len(entries))[:8]].tolist():
            expected = slope(function, given_to_reference, (*where, *entry))
            assert parameter.grad[tuple(entry)].item() == pytest.approx(expected, rel=1e-5, abs=1e-7), (where, entry)


@pytest.mark.parametrize("aggregate", ["max", "sum"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_of_a_step(kind, aggregate):
    model, batch = build(kind, missing=0.3, momentum=0.6, keep=2, aggregate=aggregate, temperature=0.3)

    def total(changed: dict) -> float:
        expected = reference.mphil(**changed, alpha=0.6, keep=2, aggregate=aggregate, tau=0.3)
        return sum(expected[term] for term in TERMS)

    check_gradient(model, batch, total)


def test_separation_trains_encoders_projector_and_attention_through_the_update():
    model, batch = build(keep=2)
    model.loss(batch, START)["separation"].backward()
    for part in (model.encoder, model.scorer, model.projector, model.query, model.key):
        assert size_of_gradient(part) > 1e-9


def test_separation_trains_nothing_when_the_update_is_not_differentiable():
    model, batch = build(keep=2, differentiable_update=False)
    check_step(copy.deepcopy(model), batch, keep=2)
    losses = model.loss(batch, START)
    assert not losses["separation"].requires_grad
    losses.total.backward()
    for part in (model.encoder, model.scorer, model.projector, model.query, model.key):
        assert size_of_gradient(part) > 1e-9


def test_stored_prototypes_carry_no_gradient():
    model, batch = build()
    model.loss(batch, START)
    assert not model.prototypes.requires_grad
    assert model.prototypes.grad_fn is None


# --- prediction --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [1, 0])
@pytest.mark.parametrize("kind", KINDS)
def test_prediction_and_what_the_sphere_gives_for_free(kind, keep):
    model, batch = build(kind, keep=keep)
    model.loss(batch, START)
    model.eval()
    expected = reference.mphil(**inputs(model, batch), keep=keep, moves=False)
    sim = reference.similarity(expected["z"], model.prototypes.tolist())
    same(model.embed(batch), expected["z"])
    same(model.predict(batch), reference.answers(expected["logits"], kind))
    same(model.ood_score(batch), reference.ood_scores(sim, 0.1))
    assert model.nearest_prototype(batch).tolist() == reference.nearest_of_predicted(expected["logits"], sim)
    raw = inputs(model, batch)["raw"]
    same(model.node_importance(batch), [sum(map(reference.sigmoid, row)) / len(row) for row in raw])


def test_the_nearest_prototype_is_one_of_the_predicted_class():
    # A high temperature and steep attention let the class of the most similar prototype lose.
    model, batch = build("multitask", keep=0, temperature=5.0)
    model.query.weight.data *= 10
    model.eval()
    expected = reference.mphil(**inputs(model, batch), keep=0, tau=5.0, moves=False)
    sim = reference.similarity(expected["z"], model.prototypes.tolist())
    most_similar = torch.tensor(sim).flatten(-2).argmax(-1)
    assert (most_similar // 3 != torch.tensor(expected["logits"]).argmax(-1)).any()
    found = model.nearest_prototype(batch)
    assert found.tolist() == reference.nearest_of_predicted(expected["logits"], sim)
    assert not torch.equal(found, most_similar % 3)


@pytest.mark.parametrize("kind", KINDS)
def test_loss_in_eval_mode_uses_the_formula_of_prediction_and_moves_nothing(kind):
    model, batch = build(kind, missing=0.3)
    model.eval()
    check_step(model, batch, moves=False)
    before = copy.deepcopy(model.state_dict())
    model.loss(batch, START).total.backward()
    model.predict(batch), model.embed(batch), model.ood_score(batch), model.node_importance(batch)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_predicting_in_training_mode_does_not_move_prototypes_either():
    model, batch = build()
    before = model.prototypes.clone()
    model.predict(batch)
    assert torch.equal(model.prototypes, before)


@pytest.mark.parametrize("kind", KINDS)
def test_the_prediction_of_a_graph_does_not_depend_on_its_batch(kind):
    store = random_store(kind, graphs=9)
    torch.manual_seed(0)
    model = MPHIL(TASKS[kind], small_encoder(store))
    model.loss(whole(store), START)
    model.eval()
    together = model.predict(whole(store))
    alone = torch.cat([model.predict(store.batch(torch.tensor([i]))) for i in range(9)])
    shuffled = model.predict(store.batch(torch.arange(8, -1, -1))).flip(0)
    torch.testing.assert_close(alone, together, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(shuffled, together, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_prototypes_stay_on_the_sphere(kind):
    store = random_store(kind, graphs=16, missing=0.2)
    torch.manual_seed(0)
    model, batch = MPHIL(TASKS[kind], small_encoder(store), momentum=0.5), whole(store)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    first = model.prototypes.clone()
    for _ in range(40):
        optimiser.zero_grad()
        model.loss(batch, START).total.backward()
        optimiser.step()
    torch.testing.assert_close(model.prototypes.norm(dim=-1), torch.ones(first.shape[:-1]), rtol=0, atol=1e-6)
    assert not model.prototypes.allclose(first, atol=0.01)


def test_it_learns_what_can_be_learned():
    store = random_store("multiclass", graphs=60, seed=1)
    store.x[:, 0] += 4 * store.y[:, 0].repeat_interleave(store.n_nodes)
    torch.manual_seed(0)
    model, batch = MPHIL(TASKS["multiclass"], small_encoder(store)), whole(store)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        optimiser.zero_grad()
        model.loss(batch, START).total.backward()
        optimiser.step()
    model.eval()
    assert (model.predict(batch).argmax(1) == batch.y[:, 0]).float().mean() > 0.95


# --- edge cases --------------------------------------------------------------------------------------------------


def finite_step(model: MPHIL, batch) -> dict[str, float]:
    losses = model.loss(batch, START)
    losses.total.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    assert model.prototypes.isfinite().all()
    assert all(value.isfinite() for value in losses.values())
    assert model.predict(batch).isfinite().all()
    return {term: value.item() for term, value in losses.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_one_prototype_a_class(kind):
    model, batch = build(kind, prototypes=1)
    check_step(model, batch)
    finite_step(model, batch)


def test_a_class_absent_from_the_batch_keeps_its_prototypes():
    model, batch = build()
    batch.y[batch.y == 1] = 2
    before = model.prototypes.clone()
    check_step(model, batch)
    assert torch.equal(model.prototypes[0, 1], before[0, 1])
    assert not torch.equal(model.prototypes[0, 2], before[0, 2])


def test_a_task_without_labels_keeps_its_prototypes():
    model, batch = build("multitask")
    batch.y[:, 2] = NAN
    before = model.prototypes.clone()
    check_step(model, batch)
    assert torch.equal(model.prototypes[2], before[2])


@pytest.mark.parametrize("kind", KINDS)
def test_all_labels_missing(kind):
    model, batch = build(kind)
    batch.y.fill_(NAN)
    before = model.prototypes.clone()
    check_step(copy.deepcopy(model), batch)
    losses = finite_step(model, batch)
    assert losses["classification"] == 0
    assert losses["matching"] == 0
    assert torch.equal(model.prototypes, before)


@pytest.mark.parametrize("kind", KINDS)
def test_one_graph_in_the_batch(kind):
    model, batch = build(kind, graphs=1)
    check_step(copy.deepcopy(model), batch)
    finite_step(model, batch)


@pytest.mark.parametrize("momentum", [0.0, 0.99])
def test_a_graph_without_direction(momentum):
    model, batch = build(momentum=momentum, keep=2)
    for layer in (model.projector[0], model.projector[2]):
        torch.nn.init.zeros_(layer.bias)
    nodes = model.encoder(batch).detach()
    nodes[batch.batch == 0] = 0
    give_nodes(model, batch, nodes)
    assert model.embed(batch)[0].tolist() == [0] * 6
    check_step(copy.deepcopy(model), batch, alpha=momentum, keep=2)
    finite_step(model, batch)
    same(model.prototypes.norm(dim=-1), torch.ones(1, 3, 3).tolist())


@pytest.mark.parametrize("momentum", [0.0, 0.99])
def test_no_graph_has_a_direction(momentum):
    model, batch = build(momentum=momentum)
    for layer in (model.projector[0], model.projector[2]):
        torch.nn.init.zeros_(layer.bias)
    give_nodes(model, batch, torch.zeros_like(model.encoder(batch)))
    before = model.prototypes.clone()
    finite_step(model, batch)
    torch.testing.assert_close(model.prototypes, before, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_identical_prototypes_keep_exactly_n(n):
    model, batch = build(keep=n)
    model.prototypes = model.prototypes[:, :, :1].expand(-1, -1, 3, -1).clone()
    kept = model.weigh(model.embed(batch), model.prototypes).exp()
    assert (kept > 0).sum(-1).eq(n).all()
    same(kept[kept > 0], [1 / 3] * (9 * 3 * n))
    finite_step(model, batch)


@pytest.mark.parametrize("project", [True, False])
def test_extreme_temperature_in_single_precision(project):
    store = random_store(graphs=9)
    torch.manual_seed(0)
    model, batch = (
        MPHIL(TASKS["multiclass"], small_encoder(store, readout="sum"), temperature=1e-3, project=project),
        whole(store),
    )
    model.eval()
    batch.x *= 100
    losses = model.loss(batch, START)
    losses.total.backward()
    assert all(value.isfinite() for value in losses.values())
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    assert model.predict(batch).softmax(1).isfinite().all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"prototypes": 0},
        {"keep": 4},
        {"keep": -1},
        {"temperature": 0.0},
        {"temperature": -1.0},
        {"attention_temperature": 0.0},
        {"momentum": 1.0},
    ],
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(UsageError, match="mphil needs"):
        build(**wrong)


def test_regression_is_refused():
    with pytest.raises(UsageError, match="regression"):
        type(TASKS["binary"])("regression", 1, "roc_auc")
