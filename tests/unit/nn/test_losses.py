"""Losses of predictions, pairs and mixtures."""

from __future__ import annotations

from math import exp, isnan, log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.nn.losses import (
    all_pairs,
    entry_losses,
    label_pairs,
    label_probability,
    labelled,
    masked_mean,
    mixup,
    mixup_loss,
    one_hot,
    permutation,
    random_pairs,
    soft_entry_losses,
    supervised_contrast,
    task_loss,
)
from mphil.task import Task
from tests.graphs import TASKS
from tests.unit.methods.stepping import mean, same, written_losses
from tests.unit.nn import reference
from tests.unit.nn.reference import dot, normalise

NAN = float("nan")


def labels(task: Task, graphs: int, missing: float, seed: int) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    y = torch.randint(task.n_classes, (graphs, task.n_tasks), generator=draw).float()
    y[torch.rand(y.shape, generator=draw) < missing] = NAN
    return y


def written_entry(logits: list[float], label: int, task: Task, number: int) -> float:
    if task.kind == "multiclass":
        return -log(reference.softmax(logits)[label])
    probability = 1 / (1 + exp(-logits[number]))
    return -log(probability if label == 1 else 1 - probability)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    kind=st.sampled_from(sorted(TASKS)),
    graphs=st.integers(1, 6),
    missing=st.sampled_from([0, 0.5, 1]),
    seed=st.integers(0, 99),
)
def test_every_label_costs_its_cross_entropy_and_a_missing_one_nothing(kind, graphs, missing, seed):
    task = TASKS[kind]
    y = labels(task, graphs, missing, seed)
    torch.manual_seed(seed)
    logits = torch.randn(graphs, task.n_outputs, dtype=torch.float64) * 3

    entries = entry_losses(logits, y, task)

    assert entries.shape == y.shape
    known = []
    for b, row in enumerate(reference.labelled(y)):
        for t, label in enumerate(row):
            expected = 0.0 if label is None else written_entry(logits[b].tolist(), label, task, t)
            assert entries[b, t].item() == pytest.approx(expected, rel=1e-12, abs=1e-12)
            known += [] if label is None else [expected]
    mean = sum(known) / len(known) if known else 0.0
    assert task_loss(logits, y, task).item() == pytest.approx(mean, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("kind", TASKS)
def test_gradient_of_the_task_loss(kind):
    task = TASKS[kind]
    y = labels(task, 5, 0.3, seed=3)
    logits = torch.randn(5, task.n_outputs, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: task_loss(x, y, task), logits)


@pytest.mark.parametrize("kind", TASKS)
def test_no_label_at_all_gives_zero_and_a_zero_gradient(kind):
    task = TASKS[kind]
    logits = torch.randn(3, task.n_outputs, requires_grad=True)
    loss = task_loss(logits, torch.full((3, task.n_tasks), NAN), task)
    loss.backward()
    assert loss.item() == 0
    assert logits.grad is not None
    assert logits.grad.tolist() == torch.zeros_like(logits).tolist()


def test_labelled_is_true_where_a_label_is_known():
    assert labelled(torch.tensor([[0.0, NAN], [NAN, 1.0]])).tolist() == [[True, False], [False, True]]


def test_masked_mean_ignores_what_is_outside_the_mask_even_nan():
    values = torch.tensor([1.0, NAN, 5.0], requires_grad=True)
    mean = masked_mean(values, torch.tensor([True, False, True]))
    mean.backward()
    assert mean.item() == 3
    assert values.grad is not None
    assert values.grad.tolist() == [0.5, 0, 0.5]


def test_one_hot_rows():
    rows = one_hot(torch.tensor([[0.0, 2.0], [NAN, 1.0]]), 3)
    assert rows.tolist() == [[[1, 0, 0], [0, 0, 1]], [[0, 0, 0], [0, 1, 0]]]


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    kind=st.sampled_from(sorted(TASKS)),
    share=st.floats(0, 1),
    missing=st.sampled_from([0, 0.5]),
    seed=st.integers(0, 99),
)
def test_a_soft_label_costs_the_mean_over_the_labels_it_is_a_mixture_of(kind, share, missing, seed):
    task = TASKS[kind]
    one, other = labels(task, 5, missing, seed), labels(task, 5, missing, seed + 1)
    torch.manual_seed(seed)
    logits = torch.randn(5, task.n_outputs, dtype=torch.float64) * 3
    if kind == "multiclass":
        hard = [one_hot(y, task.n_classes)[:, 0].double() for y in (one, other)]
        hard = [torch.where(labelled(y), rows, NAN) for y, rows in zip((one, other), hard, strict=True)]
    else:
        hard = [one.double(), other.double()]
    losses = soft_entry_losses(logits, share * hard[0] + (1 - share) * hard[1], task)
    assert losses.shape == one.shape
    for b, (first, second) in enumerate(zip(reference.labelled(one), reference.labelled(other), strict=True)):
        for t in range(task.n_tasks):
            expected = 0.0
            if first[t] is not None and second[t] is not None:
                costs = [written_entry(logits[b].tolist(), label, task, t) for label in (first[t], second[t])]
                expected = share * costs[0] + (1 - share) * costs[1]
            assert losses[b, t].item() == pytest.approx(expected, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("kind", TASKS)
def test_probability_of_the_true_label(kind):
    task = TASKS[kind]
    y = labels(task, 6, 0.3, seed=5)
    torch.manual_seed(0)
    logits = torch.randn(6, task.n_outputs, dtype=torch.float64)
    found = label_probability(logits, y, task)
    for b, row in enumerate(reference.labelled(y)):
        for t, label in enumerate(row):
            expected = 1.0
            if label is not None and kind == "multiclass":
                expected = reference.softmax(logits[b].tolist())[label]
            elif label is not None:
                positive = reference.sigmoid(logits[b, t].item())
                expected = positive if label == 1 else 1 - positive
            assert found[b, t].item() == pytest.approx(expected, rel=1e-12)


class TestRegression:
    TASK = Task("regression", 2, "rmse", (6.0, 100.0), (2.0, 50.0))

    def test_squared_error_in_standard_deviations(self):
        y = torch.tensor([[8.0, NAN], [NAN, 25.0]])
        outputs = torch.tensor([[0.0, 9.0], [9.0, -1.0]])
        expected = torch.tensor([[1.0, 0.0], [0.0, 0.25]])
        assert torch.allclose(entry_losses(outputs, y, self.TASK), expected)
        assert task_loss(outputs, y, self.TASK) == pytest.approx((1.0 + 0.25) / 2)

    def test_missing_labels_have_no_gradient(self):
        outputs = torch.randn(3, 2, requires_grad=True)
        task_loss(outputs, torch.full((3, 2), NAN), self.TASK).backward()
        assert outputs.grad.abs().max() == 0

    def test_without_means_labels_are_taken_as_they_are(self):
        plain = Task("regression", 1, "rmse")
        assert task_loss(torch.tensor([[3.0]]), torch.tensor([[1.0]]), plain) == 4.0


def written_contrast(u, positives, candidates, temperature):
    u = [normalise(row) for row in u]
    terms = []
    for matrix_of_positives, matrix_of_candidates in zip(positives, candidates, strict=True):
        for i in range(len(u)):
            P = [j for j in range(len(u)) if j != i and matrix_of_positives[i][j]]
            A = [j for j in range(len(u)) if j != i and (matrix_of_candidates[i][j] or j in P)]
            if P:
                total = sum(exp(dot(u[i], u[a]) / temperature) for a in A)
                terms.append(-sum(log(exp(dot(u[i], u[p]) / temperature) / total) for p in P) / len(P))
    return sum(terms) / len(terms) if terms else 0.0


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    graphs=st.integers(1, 6),
    matrices=st.integers(1, 3),
    temperature=st.sampled_from([0.1, 0.5, 1.0]),
    density=st.sampled_from([0.0, 0.3, 0.8]),
    seed=st.integers(0, 99),
)
def test_values(graphs, matrices, temperature, density, seed):
    torch.manual_seed(seed)
    u = torch.randn(graphs, 4, dtype=torch.float64)
    positives = torch.rand(matrices, graphs, graphs) < density
    candidates = torch.rand(matrices, graphs, graphs) < 0.6
    expected = written_contrast(u.tolist(), positives.tolist(), candidates.tolist(), temperature)
    found = supervised_contrast(u, positives, candidates, temperature)
    assert found.item() == pytest.approx(expected, rel=1e-10, abs=1e-10)


def test_gradient():
    torch.manual_seed(0)
    u = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    y = torch.tensor([[0.0, 0.0, 1.0, 1.0, 2.0]]).T
    same, known = label_pairs(y, TASKS["multiclass"])
    assert torch.autograd.gradcheck(lambda v: supervised_contrast(v, same, known, 0.7), u)


@pytest.mark.parametrize("graphs", [1, 3])
def test_no_positives_give_zero_loss_and_zero_gradient(graphs):
    u = torch.randn(graphs, 2, requires_grad=True)
    none = torch.zeros(graphs, graphs, dtype=torch.bool)
    loss = supervised_contrast(u, none | torch.eye(graphs, dtype=torch.bool), none, 1.0)
    loss.backward()
    assert loss == 0
    assert (u.grad == 0).all()


def test_a_vector_without_direction_has_a_finite_gradient():
    u = torch.zeros(3, 2, requires_grad=True)
    everybody = torch.ones(3, 3, dtype=torch.bool)
    loss = supervised_contrast(u, everybody, everybody, 0.1)
    loss.backward()
    assert loss.item() == pytest.approx(log(2))
    assert u.grad.isfinite().all()


def test_pairs_of_a_multiclass_task():
    same, known = label_pairs(torch.tensor([[2.0], [0.0], [2.0], [NAN]]), TASKS["multiclass"])
    assert same.shape == known.shape == (1, 4, 4)
    assert same[0].int().tolist() == [[1, 0, 1, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0]]
    assert known[0].int().tolist() == [[1, 1, 1, 0]] * 3 + [[0, 0, 0, 0]]


def test_pairs_of_a_multitask_problem_are_made_task_by_task():
    y = torch.tensor([[0.0, 1.0, NAN, 1.0], [1.0, 1.0, 0.0, NAN]])
    same, known = label_pairs(y, TASKS["multitask"])
    assert same[:, 0, 1].tolist() == [False, True, False, False]
    assert known[:, 0, 1].tolist() == [True, True, False, False]


def rows(n, d=3, seed=0):
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_a_permutation_has_everybody_once_and_follows_the_seed():
    torch.manual_seed(3)
    first = permutation(20)
    torch.manual_seed(3)
    assert torch.equal(first, permutation(20))
    assert not torch.equal(first, permutation(20))
    assert first.sort().values.tolist() == list(range(20))


@settings(max_examples=15, derandomize=True)
@given(n=st.integers(1, 5), m=st.integers(1, 5))
def test_all_pairs_are_in_the_order_of_their_owners(n, m):
    own, other = rows(n), rows(m, seed=1)
    pairs = all_pairs(own, other)
    assert pairs.shape == (n * m, 3)
    owners = torch.arange(n).repeat_interleave(m)
    for number, row in enumerate(pairs):
        i, j = divmod(number, m)
        assert owners[number] == i
        assert torch.equal(row, own[i] + other[j])


def test_random_pairs_belong_to_their_owners_and_use_every_partner_equally_often():
    own, other = 100.0 * torch.arange(6.0).unsqueeze(1), torch.arange(6.0).unsqueeze(1)
    pairs = random_pairs(own, other, 4).squeeze(1)
    assert (pairs // 100).tolist() == torch.arange(6.0).repeat_interleave(4).tolist()
    assert torch.bincount((pairs % 100).long()).tolist() == [4] * 6


def test_mixup_mixes_every_row_with_its_partner_in_one_proportion():
    torch.manual_seed(0)
    z = rows(6)
    mixture = mixup(z, alpha=0.5)
    assert 0 <= mixture.share <= 1
    assert mixture.share.dtype == z.dtype
    for i, j in enumerate(mixture.partner.tolist()):
        same(mixture.features[i], mixture.share * z[i] + (1 - mixture.share) * z[j])


def test_the_proportion_is_drawn_from_a_beta_distribution():
    torch.manual_seed(0)
    z = rows(2)
    shares = torch.stack([mixup(z, alpha=0.2).share for _ in range(400)])
    assert shares.mean() == pytest.approx(0.5, abs=0.06)
    assert shares.var() == pytest.approx(0.25 / 1.4, abs=0.02)  # ab / ((a + b)^2 (a + b + 1))


@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("kind", sorted(TASKS))
def test_the_loss_of_a_mixture_mixes_the_losses_of_both_labels(kind, missing):
    task = TASKS[kind]
    draw = torch.Generator().manual_seed(1)
    y = torch.randint(task.n_classes, (8, task.n_tasks), generator=draw).double()
    y[torch.rand(y.shape, generator=draw) < missing] = NAN
    logits = rows(8, task.n_outputs, seed=2)
    torch.manual_seed(4)
    mixture = mixup(rows(8), alpha=1.0)
    share = mixture.share.item()

    own, theirs = written_losses(logits, y, task), written_losses(logits, y[mixture.partner], task)
    expected = mean(share * own[entry] + (1 - share) * theirs[entry] for entry in own.keys() & theirs.keys())
    assert 0.01 < share < 0.99
    assert any(isnan(value) for value in y.flatten().tolist()) == (missing > 0)
    same(mixup_loss(logits, y, mixture, task), expected)


def test_a_mixture_without_any_label_costs_nothing():
    logits = rows(3, 1).requires_grad_()
    loss = mixup_loss(logits, torch.full((3, 1), NAN), mixup(rows(3), 1.0), TASKS["binary"])
    (slope,) = torch.autograd.grad(loss, logits)
    assert loss == 0
    assert not slope.any()
