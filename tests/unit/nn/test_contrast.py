"""Supervised contrast against its definition, one pair at a time."""

from __future__ import annotations

from math import exp, log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.nn.contrast import label_pairs, supervised_contrast
from tests.graphs import TASKS
from tests.unit.nn.reference import dot, normalise

NAN = float("nan")


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
