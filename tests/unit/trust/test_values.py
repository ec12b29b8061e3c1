"""Shapes and checks that the whole package relies on."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.errors import DataError, UsageError
from mphil.task import Task, as_labels
from mphil.trust import values

BINARY = Task("binary", 1, "roc_auc")


@given(st.integers(0, 300), st.integers(1, 99))
@settings(max_examples=100)
def test_the_rank_is_the_least_place_that_keeps_the_promise(n, percent):
    """Of n + 1 exchangeable values the new one is above place k with chance (n + 1 - k) / (n + 1)."""
    promised = Fraction(percent, 100)
    places = [k for k in range(1, n + 2) if Fraction(n + 1 - k, n + 1) <= promised]
    assert values.rank(n, percent / 100) == places[0]


@pytest.mark.parametrize(
    ("n", "above", "place"), [(0, 0.1, 1), (9, 0.1, 9), (8, 0.1, 9), (29, 0.1, 27), (99, 0.07, 93)]
)
def test_ranks_written_out(n, above, place):
    assert values.rank(n, above) == place


@given(st.lists(st.lists(st.floats(-800, 800), min_size=3, max_size=3), min_size=1, max_size=4))
@settings(max_examples=50)
def test_softmax_and_log_sum_exp_against_python(rows):
    found, totals = values.softmax(np.array(rows)), values.log_sum_exp(np.array(rows))
    for row, chances, total in zip(rows, found, totals, strict=True):
        terms = [math.exp(v - max(row)) for v in row]
        assert chances == pytest.approx([term / sum(terms) for term in terms], abs=1e-12)
        assert total == pytest.approx(max(row) + math.log(sum(terms)), abs=1e-9)


def test_one_logit_is_two_that_change_places():
    logits = np.array([[2.0], [-700.0]])
    by_class = values.class_logits(logits, "binary")
    assert by_class.shape == (2, 1, 2)
    assert (values.class_logits(-logits, "binary") == by_class[..., ::-1]).all()
    assert values.softmax(by_class)[0, 0, 1] == pytest.approx(1 / (1 + math.exp(-2)))
    assert values.class_logits(np.zeros((4, 3)), "multiclass").shape == (4, 1, 3)
    assert values.class_logits(np.zeros((4, 3)), "multitask").shape == (4, 3, 2)
    assert values.class_probabilities(np.array([[0.3]]), "binary").tolist() == [[[0.7, 0.3]]]


def test_tensors_and_lists_are_taken_alike():
    assert (values.as_rows(torch.tensor([[1.5]]), 1, "logits") == values.as_rows([[1.5]], 1, "logits")).all()
    assert as_labels(torch.tensor([[float("nan")]]), BINARY, 1).shape == (1, 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: values.as_rows([1.0], 1, "logits"), r"logits have shape \(1,\)"),
        (lambda: values.as_rows([[1.0, 2.0]], 1, "logits"), r"not \(rows, 1\)"),
        (lambda: values.as_rows([[0.0], [math.inf]], 1, "logits"), "logits: inf in row 1, column 0"),
        (lambda: values.as_rows([[math.nan]], None, "points"), "points: nan in row 0"),
        (lambda: values.as_probabilities([[0.5], [1.1]], 1), "1.1 in row 1, column 0 is no probability"),
        (lambda: values.as_scores([[1.0]]), "scores have shape"),
        (lambda: values.as_scores([1.0, math.nan]), "NaN in row 1"),
        (lambda: as_labels([[2.0]], BINARY, 1), "label 2 in row 0, column 0"),
        (lambda: as_labels([[0.5]], BINARY, 1), "label 0.5"),
        (lambda: as_labels([0.0], BINARY, 1), "labels have shape"),
    ],
)
def test_unusable_input_is_refused(call, message):
    with pytest.raises(DataError, match=message):
        call()


def test_rounding_is_no_fault():
    assert values.as_probabilities([[1.0000001], [-1e-9]], 1).tolist() == [[1.0], [0.0]]


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 2.0])
def test_a_share_is_between_0_and_1(share):
    with pytest.raises(UsageError, match="alpha must be between 0 and 1"):
        values.check_share("alpha", share)
