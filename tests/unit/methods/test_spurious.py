"""A problem with a trap: does knowing the environments help?

Every graph carries two clues to its label. One is right in 80 % of the graphs, everywhere. The other is right in 98 %
of them in the first environment, in 60 % and written in larger figures in the second, and mostly wrong in the test
part.
"""

from __future__ import annotations

import pytest
import torch

from mphil.config import EncoderConfig
from mphil.graphs.features import Features
from mphil.graphs.store import GraphStore, pointer
from mphil.methods import METHODS, Progress
from mphil.task import Task

TASK = Task("binary", 1, "accuracy")
WEIGHTS = {"irm": 300.0, "vrex": 100.0, "coral": 3e4}
CLUES = Features("float", (2,))


def graphs(right, size, env, generator):
    """Pairs of joined nodes; the clues are spread over both, `right` is how often the spurious one is."""
    n = len(right)
    label = torch.randint(2, (n,), generator=generator).float()
    sign = 2 * label - 1
    stable = torch.where(torch.rand(n, generator=generator) < 0.8, sign, -sign)
    spurious = torch.where(torch.rand(n, generator=generator) < right, sign, -sign) * size
    clues = torch.stack([stable, spurious], dim=1).repeat_interleave(2, dim=0)
    return GraphStore(
        x=clues + 0.2 * torch.randn(2 * n, 2, generator=generator),
        edge_index=torch.tensor([[0, 1], [1, 0]], dtype=torch.int32).repeat(1, n),
        node_ptr=pointer(torch.full((n,), 2)),
        edge_ptr=pointer(torch.full((n,), 2)),
        y=label.unsqueeze(1),
        env=env,
        index=torch.arange(n),
        node_features=CLUES,
    )


def problem(seed=0, n=400):
    """Training graphs of two environments, and shifted ones, as a batch each."""
    generator = torch.Generator().manual_seed(seed)
    env = torch.arange(n) % 2
    train = graphs(torch.tensor([0.98, 0.6])[env], torch.tensor([0.5, 3.0])[env], env, generator)
    test = graphs(torch.full((n,), 0.1), torch.full((n,), 1.75), torch.full((n,), -1), generator)
    return train.batch(torch.arange(n)), test.batch(torch.arange(n))


def fit(name, batch, steps=150, **options):
    torch.manual_seed(0)
    method = METHODS[name](TASK, EncoderConfig(width=8, layers=1, dropout=0.0, node=CLUES), **options)
    optimizer = torch.optim.Adam(method.parameters(), lr=0.02)
    for step in range(steps):
        optimizer.zero_grad()
        method.loss(batch, Progress(step=step, total_steps=steps)).total.backward()
        optimizer.step()
    return method.eval()


def accuracy(method, batch):
    return ((method.predict(batch) > 0) == (batch.y == 1)).float().mean().item()


@pytest.fixture(scope="module")
def fallen():
    """The problem, on which ERM does well in training and falls for the spurious clue on the shifted graphs."""
    train, test = problem()
    erm = fit("erm", train)
    assert accuracy(erm, train) > 0.8
    assert accuracy(erm, test) < 0.5
    return train, test, accuracy(erm, test)


@pytest.mark.parametrize("name", WEIGHTS)
def test_environments_that_tell_the_clues_apart_help(name, fallen):
    train, test, fell = fallen
    found = accuracy(fit(name, train, weight=WEIGHTS[name]), test)
    assert found > fell + 0.3


def test_environments_that_tell_nothing_do_not(fallen):
    train, test, _ = fallen
    blind = train.clone()
    blind.env = train.env[torch.randperm(len(train.env), generator=torch.Generator().manual_seed(1))]
    assert accuracy(fit("vrex", blind, weight=WEIGHTS["vrex"]), test) < 0.55


@pytest.mark.parametrize("name", WEIGHTS)
def test_one_environment_is_erm_step_by_step(name):
    train, _ = problem()
    train.env.zero_()
    same = fit(name, train, steps=10, weight=WEIGHTS[name]).state_dict()
    for key, value in fit("erm", train, steps=10).state_dict().items():
        assert torch.equal(same[key], value), key


def test_no_method_with_environments_is_forgotten():
    with_tests_of_their_own = {"groupdro", "leci"}
    assert {name for name in METHODS if "env" in METHODS[name].needs} == set(WEIGHTS) | with_tests_of_their_own
