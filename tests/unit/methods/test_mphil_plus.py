"""MPHIL+ is MPHIL with other defaults and learned prototypes, and nothing else."""

import pytest
import torch

from mphil.errors import UsageError
from mphil.methods import METHODS, build_method
from mphil.methods.base import Progress, resolve_hyperparameters
from tests.graphs import small_encoder
from tests.toys import small_benchmark

SWITCHES = {"update": "gradient", "separation": 0.1}


def built(name, data, encoder=None, **options):
    torch.manual_seed(0)
    return build_method(name, data.task, small_encoder(data.store, **encoder or {}), options)


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multitask"])
def test_the_losses_are_those_of_mphil_with_the_switches(kind):
    data = small_benchmark(kind, graphs=40)
    batch = data.store.batch(torch.arange(20))
    ours, theirs = built("mphil+", data), built("mphil", data, {"readout": "max"}, **SWITCHES)
    found, expected = (dict(method.loss(batch, Progress())) for method in (ours, theirs))
    assert found.keys() == expected.keys() == {"classification", "separation", "matching"}
    for term, value in expected.items():
        torch.testing.assert_close(found[term], value)


def test_prototypes_are_learned_and_do_not_follow_the_batch():
    data = small_benchmark("binary", graphs=40)
    method = built("mphil+", data)
    before = method.prototypes.detach().clone()
    method.loss(data.store.batch(torch.arange(20)), Progress()).total.backward()
    assert torch.equal(method.prototypes, before)
    assert method.prototypes.grad.abs().sum() > 0
    torch.testing.assert_close(method.bank().norm(dim=-1), torch.ones(1, 2, 3))


def test_switches_of_mphil_that_it_does_not_have_are_refused():
    with pytest.raises(UsageError, match="momentum"):
        resolve_hyperparameters(METHODS["mphil+"], None, {"momentum": 0.9})


def test_its_readout_is_set_in_one_place():
    data = small_benchmark("binary", graphs=40)
    assert built("mphil+", data, readout="sum").pool.how == "sum"
    with pytest.raises(UsageError, match="set method.readout=max"):
        built("mphil+", data, {"readout": "max"})
