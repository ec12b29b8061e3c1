"""Losses of a prediction against numbers worked out one at a time."""

from __future__ import annotations

from math import exp, log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.nn.losses import (
    entry_losses,
    label_probability,
    labelled,
    masked_mean,
    one_hot,
    soft_entry_losses,
    task_loss,
)
from mphil.task import Task
from tests.graphs import TASKS
from tests.unit.nn import reference

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
