"""IGM against its definition, and what the released code gets wrong."""

from __future__ import annotations

import pytest
import torch

from mphil.errors import UsageError
from mphil.methods import Progress
from mphil.methods.igm import IGM, graft, random_partners
from mphil.nn import rationale
from mphil.nn.losses import mixup
from tests.graphs import TASKS
from tests.unit.methods.loops import gradient_size, known_labels, label_loss, make, mean, risk, same, variance

KINDS = sorted(TASKS)
START = Progress()


def loss_of(method, batch):
    torch.manual_seed(11)
    return method.loss(batch, START)


@pytest.mark.parametrize("environments", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_loss(kind, environments):
    method, batch = make(IGM, kind, missing=0.3, environments=environments, mixed=0.3, variance=5.0, interpolation=0.4)
    y, task = batch.y, method.task
    weight, kept = method.select(batch)
    risks = [risk(method.predict(batch), y, task)]
    torch.manual_seed(11)
    for _ in range(environments):
        graphs, source = graft(batch, kept, random_partners(y, task))
        share = weight.tolist()
        weights = [1.0 if e < 0 else share[e] if kept[e] else 1 - share[e] for e in source.tolist()]
        z = method.represent(graphs, torch.tensor(weights, dtype=torch.float64))
        risks.append(risk(method.head(z), y, task))
    invariant, _ = rationale.cut(batch, weight, kept)
    mixture = mixup(method.represent(invariant.graphs, invariant.edge_weight), 0.2)
    logits, share, partner = method.head(mixture.features), float(mixture.share), mixture.partner.tolist()
    both = [(i, t) for i, t in known_labels(y) if (partner[i], t) in known_labels(y)]
    entries = [
        share * label_loss(logits[i], y[i], t, task) + (1 - share) * label_loss(logits[i], y[partner[i]], t, task)
        for i, t in both
    ]

    losses = loss_of(method, batch)
    assert set(losses) == {"classification", "mixed", "variance", "interpolation"}
    same(losses["classification"], risks[0])
    same(losses["mixed"], 0.3 * mean(risks[1:]))
    same(losses["variance"], 5.0 * variance(risks))
    same(losses["interpolation"], 0.4 * mean(entries))


def test_rows_of_new_graphs_and_labels_correspond_in_any_order():
    # The released code lists labels class by class, and predictions by graph.
    method, batch = make(IGM, "multiclass")
    _, kept = method.select(batch)
    labels = batch.y[:, 0].tolist()
    assert labels != sorted(labels)
    mixed, source = graft(batch, kept, random_partners(batch.y, method.task), 0)
    assert torch.equal(mixed.y, batch.y)
    owner, new_owner = batch.batch[batch.edge_index[0]], mixed.batch[mixed.edge_index[0]]
    decisive = kept[source]
    assert torch.equal(owner[source][decisive], new_owner[decisive])
    foreign = owner[source][~decisive]
    assert (batch.y[foreign] != batch.y[new_owner[~decisive]]).all()


@pytest.mark.parametrize("term", ["mixed", "variance", "interpolation"])
def test_every_term_trains_extractor_and_classifier(term):
    # In the released code the variance has no gradient and only the interpolation reaches the extractor.
    method, batch = make(IGM, "multiclass", training=True)
    loss_of(method, batch)[term].backward()
    for module in (method.scorer, method.extractor, method.encoder, method.head):
        assert gradient_size(module) > 0


def test_the_invariant_part_has_between_its_two_shares_of_the_edges():
    method, batch = make(IGM, "multiclass", share=0.7)
    owner = batch.batch[batch.edge_index[0]]
    for bias in (-100.0, 0.0, 100.0):
        with torch.no_grad():
            method.scorer.last.bias.fill_(bias)
        weight, kept = method.select(batch)
        for g in owner.unique():
            n, chosen = int((owner == g).sum()), int(kept[owner == g].sum())
            assert -(-3 * n // 10) <= chosen <= 7 * n // 10
        if bias == 0.0:
            assert ((weight > 0.5) == kept).any()


def test_weights_are_drawn_in_training_only():
    method, batch = make(IGM, "multiclass", training=True)
    assert not torch.equal(method.select(batch)[0], method.select(batch)[0])
    method.eval()
    assert torch.equal(method.select(batch)[0], method.select(batch)[0])


def test_new_graphs_leave_the_statistics_of_prediction_alone():
    method, batch = make(IGM, "multiclass", training=True)
    other, _ = make(IGM, "multiclass", training=True)
    loss_of(method, batch)
    other.predict(batch)
    for name, value in method.encoder.named_buffers():
        if "running" in name:
            assert torch.equal(value, other.encoder.get_buffer(name)), name


def test_no_label_at_all_costs_nothing():
    method, batch = make(IGM, "binary")
    batch.y.fill_(torch.nan)
    losses = loss_of(method, batch)
    losses.total.backward()
    assert losses.total == 0
    assert gradient_size(method) == 0


@pytest.mark.parametrize("wrong", [{"share": 0.4}, {"environments": 0}, {"alpha": 0.0}, {"bridges": -1}])
def test_refuses_settings_that_make_no_sense(wrong):
    with pytest.raises(UsageError, match="igm needs"):
        make(IGM, "binary", **wrong)
