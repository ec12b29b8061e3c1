import dataclasses

import numpy as np
import pytest

from mphil.errors import DataError, UsageError
from mphil.task import Task, as_labels


@pytest.mark.parametrize(
    ("task", "n_tasks", "n_classes"),
    [
        (Task("multiclass", 3, "accuracy"), 1, 3),
        (Task("binary", 1, "roc_auc"), 1, 2),
        (Task("multitask", 5, "average_precision"), 5, 2),
        (Task("multitask", 1, "accuracy"), 1, 2),
        (Task("regression", 3, "rmse"), 3, 0),
    ],
)
def test_shapes_follow_from_the_kind(task, n_tasks, n_classes):
    assert (task.n_tasks, task.n_classes) == (n_tasks, n_classes)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("ranking", 1, "accuracy"), "task kind 'ranking' is not supported; use multiclass, binary, multitask, regr"),
        (("binary", 1, "f1"), "task metric 'f1' is not supported; use accuracy, roc_auc, average_precision, rmse"),
        (("regression", 1, "accuracy"), "accuracy does not go with a regression task; use rmse, mae, r2, spearman"),
        (("binary", 1, "rmse"), "rmse does not go with a binary task; use accuracy, roc_auc, average_precision"),
        (("regression", 0, "rmse"), "regression task cannot have 0 outputs"),
        (("binary", 1, "accuracy", (1.0,)), "a binary task has classes, which have no mean"),
        (("regression", 2, "rmse", (1.0,)), "means of 2 tasks must be as many finite numbers"),
        (("regression", 1, "rmse", (float("nan"),)), "means of 1 tasks"),
        (("regression", 1, "rmse", (0.0,), (0.0,)), "scales must be above 0"),
        (("multiclass", 1, "accuracy"), "multiclass task cannot have 1 outputs"),
        (("binary", 2, "accuracy"), "binary task cannot have 2 outputs"),
        (("binary", 0, "accuracy"), "binary task cannot have 0 outputs"),
        (("multitask", 0, "accuracy"), "multitask task cannot have 0 outputs"),
        (("multiclass", 3, "roc_auc"), "use accuracy for multiclass"),
    ],
)
def test_impossible_tasks_are_refused(args, message):
    with pytest.raises(UsageError, match=message):
        Task(*args)


def test_a_task_is_a_value():
    task = Task("binary", 1, "roc_auc")
    assert task == Task("binary", 1, "roc_auc")
    assert len({task, Task("binary", 1, "roc_auc")}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        task.n_outputs = 2


class TestRegression:
    Y = np.array([[1.0, 5.0, np.nan], [3.0, 5.0, np.nan], [np.nan, 5.0, np.nan]])

    def test_means_and_scales_are_those_of_the_known_labels(self):
        task = Task("regression", 3, "rmse").standardised(self.Y)
        assert task.means == (2.0, 5.0, 0.0)
        assert task.scales == (1.0, 1.0, 1.0)

    def test_units_are_what_was_standardised(self):
        y = np.random.default_rng(0).normal(200.0, 7.0, (50, 2))
        task = Task("regression", 2, "r2").standardised(y)
        outputs = (y - y.mean(0)) / y.std(0)
        np.testing.assert_allclose(task.to_units(outputs), y)

    def test_without_means_an_output_is_the_number(self):
        assert Task("regression", 2, "rmse").to_units(np.array([[1.5, -2.0]])).tolist() == [[1.5, -2.0]]

    def test_errors_are_better_when_lower(self):
        better = {metric: Task("regression", 1, metric).lower_is_better for metric in ("rmse", "mae", "r2", "spearman")}
        assert better == {"rmse": True, "mae": True, "r2": False, "spearman": False}
        assert not Task("binary", 1, "roc_auc").lower_is_better

    def test_every_finite_number_is_a_label(self):
        task = Task("regression", 1, "rmse")
        assert as_labels([[-3.25], [np.nan]], task, 2)[0, 0] == -3.25
        with pytest.raises(DataError, match="label inf in row 1, column 0 is not a finite number"):
            as_labels([[0.0], [np.inf]], task, 2)
