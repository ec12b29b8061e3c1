import dataclasses

import pytest

from mphil.errors import UsageError
from mphil.task import Task


@pytest.mark.parametrize(
    ("task", "n_tasks", "n_classes"),
    [
        (Task("multiclass", 3, "accuracy"), 1, 3),
        (Task("binary", 1, "roc_auc"), 1, 2),
        (Task("multitask", 5, "average_precision"), 5, 2),
        (Task("multitask", 1, "accuracy"), 1, 2),
    ],
)
def test_shapes_follow_from_the_kind(task, n_tasks, n_classes):
    assert (task.n_tasks, task.n_classes) == (n_tasks, n_classes)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("regression", 1, "accuracy"), "task kind 'regression' is not supported; use multiclass, binary, multitask"),
        (("binary", 1, "f1"), "task metric 'f1' is not supported; use accuracy, roc_auc, average_precision"),
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
