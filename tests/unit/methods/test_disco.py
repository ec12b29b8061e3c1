"""DiSCO against its definition: masks, experts, the sparse gate and what each learns from."""

from __future__ import annotations

from itertools import permutations
from math import exp, log

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mphil.errors import UsageError
from mphil.methods import Progress
from mphil.methods.disco import DiSCO, correlation, entmax, imbalance, signs_of
from tests.graphs import TASKS
from tests.unit.methods.loops import Fixed, gradient_size, known_labels, label_loss, make, mean, same

KINDS = sorted(TASKS)
FIRST, LATER = Progress(step=35, total_steps=100), Progress(step=36, total_steps=100)


def softmax(values):
    total = sum(exp(v) for v in values)
    return [exp(v) / total for v in values]


def written_signs(logits, task):
    """The five numbers of every expert for one graph, from its (K, outputs) logits."""
    experts, tasks = len(logits), 1 if task.kind == "multiclass" else logits.shape[1]
    found = []
    for t in range(tasks):
        answers = [row if task.kind == "multiclass" else [0.0, row[t]] for row in logits.tolist()]
        ps = [softmax(answer) for answer in answers]

        def kl(p, q):
            return sum(a * log(a / b) for a, b in zip(p, q, strict=True))

        rows = []
        for k, p in enumerate(ps):
            first, second = sorted(p, reverse=True)[:2]
            apart = sum((kl(p, q) + kl(q, p)) / 2 for j, q in enumerate(ps) if j != k) / (experts - 1)
            energy = -log(sum(exp(v) for v in answers[k]))
            rows.append([first, first - second, -sum(a * log(a) for a in p), energy, -apart])
        found.append(rows)
    return torch.tensor(found, dtype=torch.float64).mean(0)


def written_correlation(masks, batch):
    """Graph by graph and pair by pair."""
    owner, found = batch.batch[batch.edge_index[0]].tolist(), []
    for g in sorted(set(owner)):
        rows = [masks[e].tolist() for e in range(len(owner)) if owner[e] == g]
        if len(rows) < 2:
            continue
        columns = [[value - mean(column) for value in column] for column in map(list, zip(*rows, strict=True))]
        sizes = [mean([v * v for v in column]) ** 0.5 for column in columns]
        pairs = [
            abs(mean([a * b for a, b in zip(columns[k], columns[j], strict=True)])) / (sizes[k] * sizes[j])
            if sizes[k] * sizes[j] > 0
            else 0.0
            for k, j in permutations(range(len(columns)), 2)
        ]
        found.append(max(0.0, mean(pairs) - 0.1))
    return mean(found)


def written(method, batch, routing):
    """All terms, from the masks, the logits and the gate."""
    masks, _, logits, gate = method.opinions(batch)
    experts = gate.shape[1]
    by_graph = {}
    for i, t in known_labels(batch.y):
        losses = [label_loss(logits[i, k], batch.y[i], t, method.task) for k in range(experts)]
        by_graph.setdefault(i, []).append(losses)
    losses = {i: [mean(list(column)) for column in zip(*rows, strict=True)] for i, rows in by_graph.items()}
    weights = gate.tolist() if routing else [[1 / experts] * experts] * len(gate)
    owner = batch.batch[batch.edge_index[0]].tolist()
    gaps = []
    for k in range(experts):
        shares = [mean([masks[e, k].item() for e in range(len(owner)) if owner[e] == g]) for g in sorted(set(owner))]
        gaps.append(mean([(share - method.keep) ** 2 for share in shares]))
    usage = [mean([row[k] for row in weights]) for k in range(experts)]
    classified = mean([sum(w * v for w, v in zip(weights[i], losses[i], strict=True)) for i in losses])
    teacher = {i: softmax([-value / 0.75 for value in losses[i]]) for i in losses}
    taught = mean(
        [sum(p * log(p / q) for p, q in zip(gate[i].tolist(), teacher[i], strict=True) if p > 0) for i in losses]
    )
    return {
        "classification": classified,
        "routing": classified,
        "keep": 5.0 * sum(u * gap for u, gap in zip(usage, gaps, strict=True)),
        "diversity": 0.5 * written_correlation(masks, batch),
        "teacher": 0.1 * taught,
        "balance": 0.1 * 0.5 * written_imbalance(gate.tolist()),
    }


def written_imbalance(rows):
    experts = len(rows[0])

    def from_uniform(shares):
        return sum((log(1 / experts) - log(max(share, 1e-12))) / experts for share in shares)

    sharp = [[max(p, 1e-12) ** 5 / sum(max(q, 1e-12) ** 5 for q in row) for p in row] for row in rows]
    entropy = mean([-sum(max(p, 1e-12) * log(max(p, 1e-12)) for p in row) for row in rows])
    used, won = ([mean([row[k] for row in table]) for k in range(experts)] for table in (rows, sharp))
    return from_uniform(used) + 0.2 * entropy + 0.2 * from_uniform(won)


@pytest.mark.parametrize("routing", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_loss(kind, routing):
    method, batch = make(DiSCO, kind, missing=0.3, experts=3)
    expected = written(method, batch, routing)
    losses = method.loss(batch, LATER if routing else FIRST)
    assert set(losses) == set(expected)
    for term, value in expected.items():
        same(losses[term], value)


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_gate_sees(kind):
    torch.manual_seed(0)
    logits = torch.randn(4, 3, TASKS[kind].n_outputs, dtype=torch.float64)
    expected = torch.stack([written_signs(rows, TASKS[kind]) for rows in logits])
    torch.testing.assert_close(signs_of(logits, TASKS[kind]), expected)


def test_masks_are_hard_and_learn_as_relaxed_ones():
    method, batch = make(DiSCO, "multiclass", experts=2, training=True)
    scores = torch.linspace(-2, 2, batch.edge_index.shape[1], dtype=torch.float64, requires_grad=True)
    method.scorers = torch.nn.ModuleList([Fixed(scores), Fixed(scores)])
    method.selector = Fixed(method.selector(batch))
    torch.manual_seed(5)
    u = torch.rand(len(scores), 2, dtype=torch.float64)
    soft = ((scores.unsqueeze(1) - (-u.log()).log()) / 0.1).sigmoid()
    torch.manual_seed(5)
    masks = method.masks(batch)
    assert torch.equal(masks.detach(), (soft > 0.5).double())
    expected = torch.autograd.grad(soft.sum(), scores)[0]
    torch.testing.assert_close(torch.autograd.grad(masks.sum(), scores)[0], expected)
    method.training = False
    half = log(log(2))
    assert torch.equal(method.masks(batch)[:, 0], (scores > half).double())


def test_nodes_that_an_expert_does_not_see_carry_nothing():
    method, batch = make(DiSCO, "multiclass", experts=2)
    encoder, nothing = method.encoders[0], torch.zeros(batch.edge_index.shape[1], dtype=torch.float64)
    before = method.represent(encoder, batch, nothing)
    batch.x = batch.x.flip(0)
    assert torch.equal(method.represent(encoder, batch, nothing), before)


def test_experts_and_gate_learn_apart():
    method, batch = make(DiSCO, "multiclass", experts=3, training=True)
    (first, experts), (second, gate) = method.steps(batch, LATER)
    assert (first, second) == ("experts", "gate")
    assert set(experts) == {"classification", "keep", "diversity"}
    gate.total.backward()
    assert gradient_size(method.gate) > 0
    assert gradient_size(method.encoders) == gradient_size(method.selector) == gradient_size(method.scorers) == 0
    method.zero_grad()
    experts.total.backward()
    assert gradient_size(method.gate) == 0
    for module in (method.encoders, method.heads, method.scorers, method.selector):
        assert gradient_size(module) > 0
    assert method.learning_rates() == {"gate": 0.1}
    assert sum(map(len, method.param_groups().values())) == len(list(method.parameters()))


def test_in_the_beginning_experts_count_alike_and_prediction_follows():
    method, batch = make(DiSCO, "multiclass", experts=3, training=True)
    for progress in (FIRST, LATER):
        method.train().loss(batch, progress)
        method.eval()
        _, z, logits, gate = method.opinions(batch)
        weight = torch.full_like(gate, 1 / 3) if progress is FIRST else gate
        torch.testing.assert_close(method.predict(batch), torch.einsum("bk,bko->bo", weight, logits))
        torch.testing.assert_close(method.embed(batch), (weight.unsqueeze(2) * z).flatten(1))


def test_correlation_of_masks_that_agree_and_of_masks_that_do_not_vary():
    _, batch = make(DiSCO, "multiclass")
    edges, owner = batch.edge_index.shape[1], batch.batch[batch.edge_index[0]]
    torch.manual_seed(0)
    masks = (torch.rand(edges, 4) < 0.5).double()
    same(correlation(masks, owner, len(batch.y)), written_correlation(masks, batch))
    alike = masks[:, :1].expand(-1, 4)
    same(correlation(alike, owner, len(batch.y)), written_correlation(alike, batch))
    flat = torch.ones(edges, 4, dtype=torch.float64, requires_grad=True)
    value = correlation(flat, owner, len(batch.y))
    value.backward()
    assert value == 0
    assert flat.grad.isfinite().all()


@given(st.lists(st.floats(-8, 8), min_size=2, max_size=6), st.sampled_from([1.0, 1.38, 1.5, 2.0]))
def test_entmax_is_the_maximum_of_its_objective(values, alpha):
    scores = torch.tensor([values], dtype=torch.float64)
    p = entmax(scores, alpha)
    assert abs(p.sum() - 1) < 1e-9
    assert (p >= 0).all()
    # Optimality: the slope s_k - p_k^(alpha - 1) / (alpha - 1) is the same where p > 0, and not above it elsewhere.
    if alpha > 1:
        slopes = scores - p.pow(alpha - 1) / (alpha - 1)
        kept = p > 1e-9
        level = slopes[kept].max()
        assert (slopes[kept] > level - 1e-3).all()
        assert (slopes[~kept] < level + 1e-3).all()


@pytest.mark.parametrize("alpha", [1.0, 1.38, 2.0])
def test_gradients_of_entmax(alpha):
    torch.manual_seed(0)
    scores = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: entmax(s, alpha), scores)


def test_a_gate_in_balance_costs_least():
    one_hot = torch.eye(4, dtype=torch.float64)
    assert imbalance(one_hot) < imbalance(torch.full((4, 4), 0.25, dtype=torch.float64))
    assert imbalance(one_hot) < imbalance(one_hot[:1].expand(4, 4))


@pytest.mark.parametrize("wrong", [{"experts": 1}, {"keep": 0.0}, {"alpha": 3.0}, {"warmup": 1.0}])
def test_refuses_what_makes_no_sense(wrong):
    with pytest.raises(UsageError, match="disco needs experts >= 2"):
        make(DiSCO, "binary", **wrong)
