"""The average of weights, BatchNorm statistics estimated anew, and training that goes on as if nothing had been."""

from __future__ import annotations

import pytest
import torch
from tests.graphs import TASKS, random_store, small_encoder
from torch import nn

from mphil.methods import METHODS, Method
from mphil.methods.erm import ERM
from mphil.nn import readout
from mphil.nn.encoders.blocks import BatchNorm
from mphil.nn.randomness import Dropout
from mphil.testing.trial import Trial
from mphil.training.recipe import Average, put_back, renormalise


def test_average_against_the_sum_written_out():
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    seen = [model.weight.detach().double().clone()]
    average = Average(model, 0.6)
    for step in range(1, 30):
        with torch.no_grad():
            model.weight.add_(torch.randn(2, 3))
        average.update(model, step)
        seen.append(model.weight.detach().double().clone())
    decays = [min(0.6, (1 + t) / (10 + t)) for t in range(1, 30)]
    assert decays[0] == 2 / 11
    assert decays[-1] == 0.6
    shares = [1.0] + [1 - decay for decay in decays]
    for number in range(30):
        for decay in decays[number:]:
            shares[number] *= decay
    assert sum(shares) == pytest.approx(1)
    expected = sum(share * weight for share, weight in zip(shares, seen, strict=True))
    torch.testing.assert_close(average.values["weight"].double(), expected, atol=1e-6, rtol=0)


class Plain(Method):
    """Dropout, a linear map and a normalisation of nodes; a second normalisation that predictions do not use."""

    name = "plain"

    def __init__(self, task, encoder):
        super().__init__(task, encoder)
        self.first, self.norm, self.head = nn.Linear(3, 5), BatchNorm(5), nn.Linear(5, 3)
        self.dropout, self.idle = Dropout(0.5), BatchNorm(5)

    def predict(self, batch):
        return readout.readout(self.head(self.norm(self.first(self.dropout(batch.x)))), batch.ptr)


def batches(store, *sizes):
    return [store.batch(graphs) for graphs in torch.arange(sum(sizes)).split(list(sizes))]


class TestRenormalise:
    def test_means_over_batches_without_dropout(self):
        store = random_store(graphs=30)
        method = Plain(TASKS["multiclass"], small_encoder(store)).train()
        method.norm.running_mean.fill_(7)
        given = batches(store, 12, 12, 6)
        renormalise(method, given)
        rows = [method.first(batch.x).detach() for batch in given]
        torch.testing.assert_close(method.norm.running_mean, torch.stack([r.mean(0) for r in rows]).mean(0))
        torch.testing.assert_close(method.norm.running_var, torch.stack([r.var(0) for r in rows]).mean(0))
        assert torch.equal(method.idle.running_mean, torch.zeros(5))
        assert torch.equal(method.idle.running_var, torch.ones(5))

    def test_a_batch_of_one_row_counts_for_nothing(self):
        store = random_store(graphs=30)
        single = int((store.n_nodes == 1).nonzero()[0])
        method = Plain(TASKS["multiclass"], small_encoder(store))
        renormalise(method, [store.batch(torch.tensor([single])), *batches(store, 20)])
        rows = method.first(batches(store, 20)[0].x).detach()
        torch.testing.assert_close(method.norm.running_mean, rows.mean(0))

    def test_modes_and_momenta_are_what_they_were(self):
        store = random_store(graphs=30)
        for training in (True, False):
            method = Plain(TASKS["multiclass"], small_encoder(store)).train(training)
            renormalise(method, batches(store, 10, 10))
            assert {module.training for module in method.modules()} == {training}
            assert (method.norm.momentum, method.idle.momentum) == (0.1, 0.1)

    @pytest.mark.parametrize("name", METHODS)
    def test_predictions_of_no_method_leave_anything_else_behind(self, name):
        cls = METHODS[name]
        kind = "multiclass" if "multiclass" in cls.tasks and "molecules" not in cls.needs else "binary"
        trial = Trial.of(cls, kind, {}, 0)
        method = trial.trained().train()
        before = {key: tensor.clone() for key, tensor in method.state_dict().items()}
        drawn = torch.get_rng_state()
        parts = [trial.batch(graphs) for graphs in torch.arange(12).split(5)]
        renormalise(method, parts)
        after = method.state_dict()
        changed = {key for key, tensor in before.items() if not torch.equal(tensor, after[key])}
        statistics = ("running_mean", "running_var", "num_batches_tracked")
        assert changed
        assert all(key.endswith(statistics) for key in changed), changed
        assert torch.equal(torch.get_rng_state(), drawn)
        first = {key: tensor.clone() for key, tensor in after.items() if not key.endswith("tracked")}
        renormalise(method, parts)
        for key, tensor in first.items():
            torch.testing.assert_close(after[key], tensor, atol=1e-5, rtol=1e-5)


def test_put_back():
    store = random_store(graphs=30)
    method = ERM(TASKS["multiclass"], small_encoder(store))
    before = {key: tensor.clone() for key, tensor in method.state_dict().items()}
    parameters = list(method.parameters())

    def disturb():
        with put_back(method):
            average = Average(method, 0.5)
            with torch.no_grad():
                method.head.weight.fill_(torch.inf)
            average.update(method, 1)
            average.write_to(method)
            renormalise(method, batches(store, 10))
            assert not torch.equal(method.head.weight, before["head.weight"])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        disturb()
    assert all(torch.equal(tensor, before[key]) for key, tensor in method.state_dict().items())
    assert all(one is other for one, other in zip(method.parameters(), parameters, strict=True))
