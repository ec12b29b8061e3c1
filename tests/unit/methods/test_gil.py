"""GIL against its definition, and what the public versions get wrong."""

from __future__ import annotations

import pytest
import torch

from mphil.errors import UsageError
from mphil.methods import Progress
from mphil.methods.gil import GIL
from mphil.nn import rationale
from mphil.nn.posthoc import kmeans
from tests.graphs import TASKS
from tests.unit.methods.loops import gradient_size, known_labels, label_loss, make, mean, same

KINDS = sorted(TASKS)
START = Progress()


def environments(method, batch):
    """The clusters that the loss finds when it begins with this seed."""
    _, variant = rationale.cut(batch, *method.select(batch))
    torch.manual_seed(7)
    return kmeans(method.represent(variant), method.environments)[0].tolist()


def loss_of(method, batch):
    torch.manual_seed(7)
    return method.loss(batch, START)


def risks_by_environment(logits, y, env, task):
    """Lists of (graph, task) by environment, those without a label left out."""
    known = known_labels(y)
    members = [[(i, t) for i, t in known if env[i] == e] for e in sorted(set(env))]
    return [m for m in members if m], [mean([label_loss(logits[i], y[i], t, task) for i, t in m]) for m in members if m]


@pytest.mark.parametrize("kind", KINDS)
def test_loss(kind):
    method, batch = make(GIL, kind, missing=0.3, share=0.5, weight=0.7)
    env = environments(method, batch)
    z = method.embed(batch).detach()
    logits = method.head(z).detach()
    members, risks = risks_by_environment(logits, batch.y, env, method.task)
    assert len(members) > 1

    gradients = []
    for group in members:
        head = torch.nn.Linear(z.shape[1], logits.shape[1]).double()
        head.load_state_dict(method.head.state_dict())
        total = 0.0
        for i, t in group:
            row = head(z[i])
            label = int(batch.y[i, t])
            if kind == "multiclass":
                total = total - row.log_softmax(0)[label]
            else:
                total = total - torch.nn.functional.logsigmoid(row[t] if label else -row[t])
        (total / len(group)).backward()
        gradients.append(torch.cat([head.weight.grad.flatten(), head.bias.grad]))
    centre = sum(gradients) / len(gradients)
    spread = sum((g - centre).square().sum().item() for g in gradients) / (len(gradients) - 1)

    losses = loss_of(method, batch)
    assert set(losses) == {"classification", "variance"}
    same(losses["classification"], mean(risks))
    same(losses["variance"], 0.7 * spread)


def test_scores_are_products_of_the_ends_and_chosen_graph_by_graph():
    # GOOD keeps a share of the whole batch, so that some graphs lose all their edges.
    method, batch = make(GIL, "multiclass", share=0.5)
    weight, kept = method.select(batch)
    Z = method.masker(batch)
    scores = [sum((Z[u] * Z[v]).tolist()) / Z.shape[1] for u, v in batch.edge_index.T.tolist()]
    torch.testing.assert_close(weight, torch.tensor(scores, dtype=torch.float64).sigmoid())
    owner = batch.batch[batch.edge_index[0]]
    for g in owner.unique():
        assert kept[owner == g].sum() == -(-(owner == g).sum() // 2)


@pytest.mark.parametrize("gradient_of", ["head", "all"])
@pytest.mark.parametrize("term", ["classification", "variance"])
def test_both_terms_train_the_mask_and_the_classifier(gradient_of, term):
    # In one public version no gradient reaches the mask, in another the penalty has none at all.
    method, batch = make(GIL, "multiclass", weight=1.0, gradient_of=gradient_of, training=True)
    loss_of(method, batch)[term].backward()
    for module in (method.masker, method.encoder, method.head):
        assert gradient_size(module) > 0


def test_the_variance_over_all_weights_against_separate_backward_passes():
    method, batch = make(GIL, "binary", gradient_of="all", weight=1.0, nodes="float", edges="none")
    env = torch.tensor(environments(method, batch))
    weights = [*method.encoder.parameters(), *method.head.parameters()]
    rows = []
    for e in env.unique():
        logits, chosen = method.predict(batch)[:, 0], env == e
        losses = torch.nn.functional.binary_cross_entropy_with_logits(logits, batch.y[:, 0].double(), reduction="none")
        gradient = torch.autograd.grad(losses[chosen].mean(), weights)
        rows.append(torch.cat([g.flatten() for g in gradient]))
    centre = sum(rows) / len(rows)
    expected = sum((row - centre).square().sum().item() for row in rows) / (len(rows) - 1)
    found = loss_of(method, batch)["variance"]
    assert found.item() == pytest.approx(expected, rel=1e-9)


def test_the_gradient_of_the_full_variance_is_a_derivative():
    method, batch = make(GIL, "binary", gradient_of="all", weight=1.0, nodes="float", edges="none")
    bias = method.head.bias
    loss_of(method, batch)["variance"].backward()
    step = 1e-5
    values = []
    for sign in (1, -1):
        with torch.no_grad():
            bias += sign * step
        values.append(loss_of(method, batch)["variance"].item())
        with torch.no_grad():
            bias -= sign * step
    assert bias.grad.item() == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-5)


def test_one_environment_leaves_the_mean_risk():
    method, batch = make(GIL, "multiclass", environments=1, missing=0.3)
    losses = loss_of(method, batch)
    assert losses["variance"] == 0
    logits = method.predict(batch)
    same(
        losses["classification"],
        mean([label_loss(logits[i], batch.y[i], t, method.task) for i, t in known_labels(batch.y)]),
    )


def test_more_clusters_than_graphs_are_no_harm():
    method, batch = make(GIL, "multiclass", graphs=2, environments=5, training=True)
    losses = loss_of(method, batch)
    losses.total.backward()
    assert losses.total.isfinite()


def test_finding_environments_leaves_the_statistics_of_prediction_alone():
    method, batch = make(GIL, "multiclass", training=True)
    other, _ = make(GIL, "multiclass", training=True)
    loss_of(method, batch)
    other.embed(batch)
    for name, value in method.named_buffers():
        assert torch.equal(value, other.get_buffer(name)), name
    assert all(module.training for module in method.modules())


def test_refuses_no_environment():
    with pytest.raises(UsageError, match="environments >= 1"):
        make(GIL, "binary", environments=0)
