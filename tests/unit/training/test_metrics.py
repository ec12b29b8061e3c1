"""Scores, and the epoch that they choose."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)
from tests.graphs import TASKS, small_encoder
from tests.toys import small_benchmark, with_labels, without_part

from mphil.errors import DataError, UnknownName
from mphil.graphs.loader import Loader
from mphil.methods import build_method
from mphil.task import Task
from mphil.training.metrics import (
    accuracy,
    average_precision,
    best_epoch,
    gather,
    last_scores,
    mae,
    predict_logits,
    probabilities,
    r2,
    rmse,
    roc_auc,
    score,
    score_parts,
    spearman,
)


def history(**columns):
    length = len(next(iter(columns.values())))
    return [{"epoch": 10 + i, "scores": {part: column[i] for part, column in columns.items()}} for i in range(length)]


def test_each_rule_reads_its_own_part():
    records = history(id_val=[0.5, 0.9, 0.7], ood_val=[0.8, 0.1, 0.2])
    assert best_epoch(records, "id_val") == 11
    assert best_epoch(records, "ood_val") == 10
    assert best_epoch(records, "last") == 12


def test_the_earliest_of_equals_wins():
    assert best_epoch(history(id_val=[0.1, 0.9, 0.9]), "id_val") == 11


def test_the_lowest_of_errors_is_best():
    records = history(id_val=[0.5, 0.2, 0.2, 0.6])
    assert best_epoch(records, "id_val", lower=True) == 11
    assert best_epoch(records, "id_val", window=2, lower=True) == 12


def test_undefined_scores_are_passed_over_even_for_zero():
    assert best_epoch(history(id_val=[None, 0.0, None]), "id_val") == 11


def test_nothing_to_choose_from():
    assert best_epoch(history(id_val=[0.1], ood_val=[None]), "ood_val") is None
    assert best_epoch(history(id_val=[0.1]), "ood_val") is None
    assert best_epoch([], "id_val") is None
    assert best_epoch([], "last") is None


def test_unknown_rule_offers_the_nearest():
    with pytest.raises(UnknownName, match="did you mean ood_val"):
        best_epoch([], "ood_test_val")


class TestWindow:
    def test_the_mean_of_the_last_epochs_decides_and_the_last_of_them_is_chosen(self):
        records = history(id_val=[0.9, 0.1, 0.6, 0.7, 0.6, 0.1])
        assert [best_epoch(records, "id_val", window) for window in (1, 2, 3, 6)] == [10, 13, 14, 15]

    def test_without_a_full_window_nothing_is_chosen(self):
        assert best_epoch(history(id_val=[0.9, 0.8]), "id_val", window=3) is None

    def test_a_window_with_an_undefined_score_has_none(self):
        records = history(id_val=[0.9, None, 0.5, 0.4, None, 0.8])
        assert best_epoch(records, "id_val", window=2) == 13

    def test_the_earliest_of_equals_whatever_the_order_in_the_window(self):
        assert best_epoch(history(id_val=[0.1, 0.2, 0.7, 0.1, 0.2]), "id_val", window=3) == 12

    def test_no_epoch_before_the_minimum(self):
        records = history(id_val=[0.9, 0.8, 0.1, 0.5])
        assert best_epoch(records, "id_val", min_epochs=12) == 13
        assert best_epoch(records, "id_val", 2, 12) == 12
        assert best_epoch(records, "id_val", min_epochs=14) is None
        assert best_epoch(records, "last", 3, 99) == 13


class TestLastScores:
    def test_mean_of_up_to_five(self):
        records = history(id_val=[9, 1, 2, 3, 4, 5], ood_val=[None, 1, 1, None, 1, 1])
        assert last_scores(records) == {"id_val": 3, "ood_val": None}
        assert last_scores(records[:2]) == {"id_val": 5, "ood_val": None}
        assert last_scores(records, 2) == {"id_val": 4.5, "ood_val": 1}

    def test_no_epochs(self):
        assert last_scores([]) == {}


NAN = float("nan")
FINITE = st.floats(-1e6, 1e6, allow_nan=False)
few = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TIED = st.integers(-2, 2).map(float)


@st.composite
def scored_labels(draw):
    """Scores (many of them equal, in half of the examples) with labels of both classes."""
    labels = draw(st.lists(st.integers(0, 1), min_size=2, max_size=60).filter(lambda y: 0 < sum(y) < len(y)))
    values = draw(st.sampled_from([FINITE, TIED]))
    scores = draw(st.lists(values, min_size=len(labels), max_size=len(labels)))
    return np.array(scores), np.array(labels, dtype=float)


@given(scored_labels())
@settings(few, max_examples=120)
def test_ranking_metrics_equal_scikit_learn(case):
    scores, labels = case
    assert roc_auc(scores, labels) == pytest.approx(roc_auc_score(labels, scores), abs=1e-9)
    assert average_precision(scores, labels) == pytest.approx(average_precision_score(labels, scores), abs=1e-9)


@pytest.mark.parametrize("levels", [3, 1000, 10**9])
def test_ranking_metrics_equal_scikit_learn_at_size(levels):
    generator = np.random.default_rng(levels)
    labels = (generator.random(50_000) < 0.03).astype(float)
    scores = np.floor(generator.normal(labels) * levels) / levels
    assert roc_auc(scores, labels) == pytest.approx(roc_auc_score(labels, scores), abs=1e-9)
    assert average_precision(scores, labels) == pytest.approx(average_precision_score(labels, scores), abs=1e-9)


def test_known_values():
    labels = np.array([0.0, 0.0, 1.0, 1.0])
    assert roc_auc(np.array([1.0, 2.0, 3.0, 4.0]), labels) == 1.0
    assert roc_auc(np.array([4.0, 3.0, 2.0, 1.0]), labels) == 0.0
    assert roc_auc(np.zeros(4), labels) == 0.5
    assert average_precision(np.zeros(4), labels) == 0.5
    assert average_precision(np.array([1.0, 2.0, 3.0, 4.0]), labels) == 1.0
    assert accuracy(np.array([0, 0, 1, 0]), labels) == 0.75


def test_undefined_is_none():
    ones, none = np.ones(3), np.zeros(0)
    assert roc_auc(np.arange(3.0), ones) is None
    assert roc_auc(np.arange(3.0), 1 - ones) is None
    assert average_precision(np.arange(3.0), 1 - ones) is None
    assert average_precision(np.arange(3.0), ones) == 1.0
    assert accuracy(none, none) is None


@given(st.integers(0, 10**6))
@few
def test_multiclass_accuracy_equals_scikit_learn(seed):
    generator = torch.Generator().manual_seed(seed)
    logits, y = torch.randn(20, 4, generator=generator), torch.randint(4, (20, 1), generator=generator).float()
    y[::3] = NAN
    kept = ~y[:, 0].isnan()
    expected = accuracy_score(y[kept, 0], logits[kept].argmax(1))
    assert score(logits, y, Task("multiclass", 4, "accuracy")) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("metric", ["accuracy", "roc_auc", "average_precision"])
@pytest.mark.parametrize("seed", range(5))
def test_multitask_is_the_mean_over_defined_columns(metric, seed):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randint(-3, 4, (40, 6), generator=generator).float()
    y = torch.randint(2, (40, 6), generator=generator).float()
    y[torch.rand(40, 6, generator=generator) < 0.4] = NAN
    y[:, 1] = NAN
    y[:, 2] = torch.where(y[:, 2].isnan(), y[:, 2], 0.0)
    y[:, 3] = torch.where(y[:, 3].isnan(), y[:, 3], 1.0)
    oracle = {
        "accuracy": lambda truth, values: accuracy_score(truth, values > 0),
        "roc_auc": roc_auc_score,
        "average_precision": average_precision_score,
    }[metric]
    defined = [0, 2, 3, 4, 5] if metric == "accuracy" else [0, 4, 5]
    rows = {column: ~y[:, column].isnan() for column in defined}
    expected = np.mean([oracle(y[rows[c], c].numpy(), logits[rows[c], c].numpy()) for c in defined])
    assert score(logits, y, Task("multitask", 6, metric)) == pytest.approx(expected, abs=1e-9)


def test_binary_threshold_is_a_positive_logit():
    logits = torch.tensor([[0.0], [1e-6], [-1.0]])
    assert score(logits, torch.tensor([[0.0], [1.0], [0.0]]), Task("binary", 1, "accuracy")) == 1.0


@pytest.mark.parametrize("metric", ["accuracy", "roc_auc", "average_precision"])
@pytest.mark.parametrize("rows", [0, 5])
def test_no_labels_no_score(metric, rows):
    task = Task("multitask", 2, metric)
    assert score(torch.zeros(rows, 2), torch.full((rows, 2), NAN), task) is None


@pytest.mark.parametrize("metric", ["roc_auc", "average_precision"])
@pytest.mark.parametrize("label", [0.0, 1.0])
def test_one_class_has_no_ranking(metric, label):
    assert score(torch.randn(4, 1), torch.full((4, 1), label), Task("binary", 1, metric)) is None


def test_order_of_rows_and_input_are_left_alone():
    generator = torch.Generator().manual_seed(0)
    logits, y = torch.randn(30, 1, generator=generator), torch.randint(2, (30, 1), generator=generator).float()
    before = logits.clone(), y.clone()
    task, order = Task("binary", 1, "average_precision"), torch.randperm(30, generator=generator)
    assert score(logits, y, task) == pytest.approx(score(logits[order], y[order], task), abs=1e-12)
    assert torch.equal(logits, before[0])
    assert torch.equal(y, before[1])


def test_low_precision_logits_with_gradient():
    logits = torch.tensor([[1.0], [-1.0]], dtype=torch.bfloat16, requires_grad=True)
    assert score(logits, torch.tensor([[1.0], [0.0]]), Task("binary", 1, "roc_auc")) == 1.0


@pytest.mark.parametrize(
    ("logits", "y", "message"),
    [
        (torch.tensor([[0.0], [NAN]]), torch.zeros(2, 1), "NaN for row 1, output 0"),
        (torch.zeros(2, 1), torch.tensor([[0.0], [2.0]]), "label 2 in row 1"),
        (torch.zeros(2, 1), torch.tensor([[0.5], [1.0]]), "label 0.5 in row 0"),
        (torch.zeros(2, 1), torch.tensor([[-1.0], [1.0]]), "label -1 in row 0"),
        (torch.zeros(2, 2), torch.zeros(2, 1), "logits have shape"),
        (torch.zeros(3, 1), torch.zeros(2, 1), "logits have shape"),
        (torch.zeros(2, 1), torch.zeros(2), "labels have shape"),
    ],
)
def test_unusable_input_is_refused(logits, y, message):
    with pytest.raises(DataError, match=message):
        score(logits, y, Task("binary", 1, "roc_auc"))


class TestRegression:
    @given(st.data())
    @settings(few, max_examples=60)
    def test_metrics_equal_scikit_learn_and_scipy(self, data):
        values = data.draw(st.sampled_from([st.floats(-1e3, 1e3).map(lambda x: round(x, 3)), TIED]))
        labels = np.array(data.draw(st.lists(values, min_size=2, max_size=40).filter(lambda y: max(y) > min(y))))
        found = np.array(data.draw(st.lists(values, min_size=len(labels), max_size=len(labels))))
        assert rmse(found, labels) == pytest.approx(root_mean_squared_error(labels, found))
        assert mae(found, labels) == pytest.approx(mean_absolute_error(labels, found))
        assert r2(found, labels) == pytest.approx(r2_score(labels, found), rel=1e-6, abs=1e-9)
        expected = spearmanr(found, labels).statistic if np.ptp(found) else 0.0
        assert spearman(found, labels) == pytest.approx(expected, abs=1e-9)

    def test_undefined_is_none(self):
        none, alike = np.zeros(0), np.full(3, 2.0)
        assert [metric(none, none) for metric in (rmse, mae, r2, spearman)] == [None] * 4
        assert (r2(np.arange(3.0), alike), spearman(np.arange(3.0), alike)) == (None, None)

    def test_the_score_is_in_the_unit_of_the_labels_and_leaves_missing_ones_out(self):
        task = Task("regression", 2, "mae", (10.0, 0.0), (2.0, 1.0))
        outputs = torch.tensor([[0.5, 3.0], [0.0, 1.0], [7.0, 1.0]])
        y = torch.tensor([[12.0, 3.0], [10.0, NAN], [NAN, NAN]])
        assert score(outputs, y, task) == pytest.approx((0.5 + 0.0) / 2)
        assert score(outputs, torch.full_like(y, NAN), task) is None


def method_for(data, name="mphil"):
    torch.manual_seed(0)
    return build_method(name, data.task, small_encoder(data.store, dropout=0.5), {})


@pytest.mark.parametrize("kind", TASKS)
def test_logits_in_the_order_of_the_graphs(kind):
    data = small_benchmark(kind)
    method, graphs = method_for(data), torch.tensor([5, 2, 9, 40, 1])
    together = predict_logits(method, Loader(data.store, graphs, 5))
    assert together.shape == (5, data.task.n_outputs)
    one_by_one = torch.cat([predict_logits(method, Loader(data.store, graph, 1)) for graph in graphs.split(1)])
    torch.testing.assert_close(together, one_by_one)


@pytest.mark.parametrize("training", [True, False])
def test_the_method_is_left_as_it_was(training):
    data = small_benchmark()
    method = method_for(data).train(training)
    before = {name: tensor.clone() for name, tensor in method.state_dict().items()}
    logits = predict_logits(method, Loader(data.store, data.split.id_val, 4))
    assert method.training is training
    assert not logits.requires_grad
    assert all(torch.equal(before[name], tensor) for name, tensor in method.state_dict().items())
    with pytest.raises(ZeroDivisionError):
        gather(method, Loader(data.store, data.split.id_val, 4), lambda batch: 1 / 0)
    assert method.training is training


def test_probabilities():
    logits = torch.tensor([[0.0, 1.0, -2.0], [5.0, 5.0, 5.0]])
    torch.testing.assert_close(probabilities(logits, "multiclass"), logits.exp() / logits.exp().sum(1, keepdim=True))
    for kind in ("binary", "multitask"):
        torch.testing.assert_close(probabilities(logits, kind), 1 / (1 + (-logits).exp()))


def test_scores_of_parts():
    data = without_part(small_benchmark(), "id_test")
    y = data.store.y.clone()
    y[data.split.ood_val] = torch.nan
    data = with_labels(data, y)
    method = method_for(data)
    scores = score_parts(method, data, batch_size=7)
    assert list(scores) == ["train", "id_val", "id_test", "ood_val", "ood_test"]
    assert (scores["id_test"], scores["ood_val"]) == (None, None)
    graphs = data.split.train
    logits = method.eval().predict(data.store.batch(graphs)).detach()
    assert scores["train"] == score(logits, y[graphs], data.task)
    assert score_parts(method, data, 7, ("ood_test",)) == {"ood_test": scores["ood_test"]}
