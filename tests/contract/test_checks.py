"""The checks themselves: they catch what is broken, say what to fix, and let good methods pass."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mphil.methods import METHODS, Losses
from mphil.methods.erm import ERM
from mphil.nn.losses import entry_losses, task_loss
from mphil.task import Task
from mphil.testing import check_method, method_checks, random_graphs
from tests.contract import broken


class Adversarial(broken.Toy):
    """Two players, moved in turns: the critic guesses the label, the encoder hides it from the critic."""

    def __init__(self, task, encoder, *, weight: float = 0.1):
        super().__init__(task, encoder)
        self.weight = weight
        self.critic = nn.Linear(encoder.width, task.n_outputs)

    def param_groups(self):
        return {
            "critic": list(self.critic.parameters()),
            "all": [*self.encoder.parameters(), *self.head.parameters()],
        }

    def steps(self, batch, progress):
        yield "critic", Losses(critic=task_loss(self.critic(self.embed(batch).detach()), batch.y, self.task))
        z = self.embed(batch)
        risk = task_loss(self.head(z), batch.y, self.task)
        yield "all", Losses(risk=risk, hide=-self.weight * task_loss(self.critic(z), batch.y, self.task))


class Environments(broken.Toy):
    """Variance of the risks, and of every environment's number, so that all is declared that is used."""

    needs = frozenset({"env"})

    def loss(self, batch, progress):
        risk = entry_losses(self.predict(batch), batch.y, self.task).mean(1)
        known = torch.stack([risk[batch.env == e].mean() for e in batch.env.unique()])
        return Losses(risk=risk.mean(), variance=known.var(correction=0))


class Frozen(broken.Toy):
    """A part that is not trained, and says so."""

    def __init__(self, task, encoder):
        super().__init__(task, encoder)
        self.fixed = nn.Parameter(torch.ones(()), requires_grad=False)

    def param_groups(self):
        return {"all": [p for p in self.parameters() if p.requires_grad]}


@pytest.mark.parametrize("method", [broken.Toy, Adversarial, Environments, Frozen, broken.Staged])
def test_good_methods_pass(method):
    names = check_method(method, seed=1)
    assert len(names) == len(set(names)) == 15
    assert "binary: gradients" in names


BROKEN = [
    (broken.NoFacts, "class facts", "decorate it with @register"),
    (broken.UnknownNeed, "class facts", r"needs is \['luck'\]"),
    (broken.PositionalOption, "hyperparameters", r"must be \(self, task, encoder, \*"),
    (broken.NoDefault, "hyperparameters", "give the hyperparameter 'weight' a default"),
    (broken.DefaultOfAnotherType, "hyperparameters", "weight='heavy'"),
    (broken.DefaultBeyondJson, "hyperparameters", "JSON"),
    (broken.PresetWithTypo, "hyperparameters", "did you mean weight"),
    (broken.SearchesUnknown, "hyperparameters", r"search_space names \['weight'\]"),
    (broken.MainTwice, "stages", "the last stage is called 'main' by itself"),
    (broken.EmptyStage, "stages", "the stage 'first' takes 0.0 of the epochs"),
    (broken.BrokenFirstStage, "finite loss", "the loss term 'guess' is nan"),
    (broken.VectorLoss, "finite loss", r"'classification' has shape \(12,\); reduce it"),
    (broken.Detached, "gradients", r"no gradient reaches \['scale'\]"),
    (broken.Cancelled, "gradients", r"no gradient reaches \['gate.weight', 'gate.bias'\]"),
    (broken.ForgottenGroup, "gradients", r"no group of param_groups\(\) has \['head.weight', 'head.bias'\]"),
    (broken.TwoGroups, "gradients", "in two groups"),
    (broken.UnknownGroup, "gradients", r"steps\(\) names the group 'all'; param_groups\(\) has encoder, head"),
    (broken.WrongShape, "prediction", r"must return \(12, 1\), not \(12, 2\)"),
    (broken.RandomAnswer, "prediction", "two answers in evaluation mode"),
    (broken.ReadsLabels, "prediction", "looks at batch.y"),
    (broken.CentredOnTheBatch, "batch independence", r"predict\(\) of a graph changes by .* with the batch"),
    (broken.NeedsTwoGraphs, "single graph", "raised ValueError: Expected more than 1 value"),
    (broken.UndeclaredEnvironments, "environments", r"batch.env changes .* declare needs=\{'env'\}"),
    (broken.MissingIsNaN, "missing labels", "the loss term 'risk' is nan"),
    (broken.MaskedTooLate, "missing labels", "the gradient of .* is not finite; mask what is undefined beforehand"),
    (broken.WritesLabels, "untouched input", r"changes the batch it is given \(y\)"),
    (broken.AddsToBatch, "untouched input", r"changes the batch it is given \(pooled\)"),
    (broken.OtherRandomNumbers, "determinism", "differ under one seed"),
    (broken.HiddenState, "state round trip", r"'predict'.* register_buffer\(\) it"),
    (broken.HiddenCounter, "state round trip", "training goes on differently"),
    (broken.ForgetsItsStage, "state round trip", "in stage 'main' after a state round trip"),
    (broken.LearnsInEvaluation, "quiet evaluation", r"loss\(\) changes \['seen'\] in evaluation mode"),
    (broken.LeavesGradients, "quiet evaluation", r"leaves gradients on \['head.weight', 'head.bias'\]"),
    (broken.SwitchesMode, "quiet evaluation", "switches the method to training mode"),
    (broken.ImportanceByGraph, "optional outputs", r"node_importance\(\) must return shape"),
    (broken.InfiniteScore, "optional outputs", r"ood_score\(\) returns values that are not finite"),
]


@pytest.mark.parametrize(("method", "promise", "message"), BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_broken_promises_are_caught(method, promise, message):
    (check,) = [check for check in method_checks(method) if check.name.endswith(f": {promise}")]
    with pytest.raises(AssertionError, match=message) as caught:
        check()
    assert str(caught.value).startswith(f"method {getattr(method, 'name', 'NoFacts')}, {check.name}: ")


def test_check_method_stops_at_the_first_broken_promise():
    with pytest.raises(AssertionError, match="prediction"):
        check_method(broken.ReadsLabels)


def test_only_supported_tasks_are_tried():
    assert {check.name.split(":")[0] for check in method_checks(broken.Toy)} == {"class", "binary"}
    assert {check.name.split(":")[0] for check in method_checks("erm")} == {"class", *METHODS["erm"].tasks}


def test_hyperparameters_can_be_given():
    (check,) = [c for c in method_checks("mphil", args={"prototypes": 1}) if c.name == "binary: gradients"]
    with pytest.raises(AssertionError, match=r"no gradient reaches \['query.weight', 'key.weight'\]"):
        check()


def test_random_numbers_of_the_caller_are_left_alone():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    method_checks(ERM)[3]()
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("kind", ["multiclass", "binary", "multitask"])
def test_random_graphs_contain_what_is_promised(kind):
    task = {
        "multiclass": Task("multiclass", 3, "accuracy"),
        "binary": Task("binary", 1, "roc_auc"),
        "multitask": Task("multitask", 4, "average_precision"),
    }[kind]
    store = random_graphs(task)
    known = store.y[~store.y.isnan()]
    assert known.unique().tolist() == list(range(task.n_classes))
    assert (len(known) < store.y.numel()) == (kind == "multitask")
    assert store.env.unique().tolist() == [0, 1, 2]
    assert (store.n_nodes == 1).any()
    assert ((store.n_edges == 0) & (store.n_nodes > 1)).any()
    assert random_graphs(task).digest() == store.digest() != random_graphs(task, seed=1).digest()
