"""How many environments a batch has: the rule against simulated batches, refusals, notes, and exact resumption."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch
from tests.toys import SMALL, small_benchmark

from mphil.config import TrainConfig
from mphil.errors import UsageError
from mphil.graphs.loader import epoch_order
from mphil.methods import METHODS
from mphil.methods.base import build_method
from mphil.training.callbacks import Callback
from mphil.training.checkpoint import Checkpoints
from mphil.training.settings import resolve
from mphil.training.trainable import (
    check_needs,
    check_trainable,
    default_env_per_batch,
    environment_notes,
    graphs_per_environment,
)
from mphil.training.trainer import Trainer

MANY = torch.arange(60) % 20


def with_env(env, data=None):
    """A benchmark whose 60 training graphs have these environments."""
    data = data or small_benchmark()
    everywhere = torch.full_like(data.store.env, -1)
    everywhere[data.split.train] = env
    return replace(data, store=replace(data.store, env=everywhere))


@pytest.mark.parametrize("env", [MANY, torch.tensor([0] * 40 + [1] * 15 + [2, 3, 4, 5, 6]), torch.zeros(60)])
def test_graphs_per_environment_are_those_of_shuffled_batches(env):
    drawn = [env[epoch_order(60, seed, 0)[:12]] for seed in range(2000)]
    simulated = 12 * len(drawn) / sum(len(batch.unique()) for batch in drawn)
    assert graphs_per_environment(env, 12) == pytest.approx(simulated, rel=0.12)


def test_unknown_environments_are_not_counted():
    assert graphs_per_environment(torch.tensor([-1] * 30 + [0] * 30), 12) == pytest.approx(6, rel=0.01)
    assert graphs_per_environment(torch.full((60,), -1), 12) == 0


class TestRule:
    @pytest.mark.parametrize(
        ("method", "env", "batch_size", "expected"),
        [
            ("vrex", MANY, 30, 4),
            ("irm", MANY, 30, 4),
            ("coral", MANY, 8, 4),
            ("coral", MANY, 7, 0),  # not two graphs of each
            ("vrex", torch.arange(60) % 4, 8, 0),  # no more than four
            ("vrex", torch.arange(60) % 5, 30, 0),  # six graphs of each
            ("erm", MANY, 30, 0),
            ("mphil", MANY, 30, 0),
        ],
        ids=["vrex", "irm", "coral", "small-batch", "four", "enough", "erm", "mphil"],
    )
    def test_four_where_shuffling_gives_too_few_graphs_of_each(self, method, env, batch_size, expected):
        assert default_env_per_batch(METHODS[method], with_env(env), batch_size) == expected

    def test_settings_say_what_is_used(self):
        def used(method, **train):
            config, _ = resolve({"method": {"name": method}, "train": {"batch_size": 30, **train}}, with_env(MANY))
            return config.train.env_per_batch

        assert (used("vrex"), used("erm"), used("vrex", env_per_batch=0), used("erm", env_per_batch=7)) == (4, 0, 0, 7)


class TestRefusals:
    def test_more_environments_than_graphs_in_a_batch(self):
        with pytest.raises(UsageError, match=r"train.env_per_batch is 13 but a batch has 12 .*env_per_batch=3 or less"):
            check_trainable(with_env(MANY), TrainConfig(batch_size=12, env_per_batch=13))

    def test_more_environments_than_there_are(self):
        with pytest.raises(UsageError, match=r"env_per_batch is 21 but .* have 20 environments; .*batch=20 or less"):
            check_trainable(with_env(MANY), TrainConfig(batch_size=30, env_per_batch=21))
        check_trainable(with_env(MANY), TrainConfig(batch_size=30, env_per_batch=20))

    def test_no_environments(self):
        data = with_env(torch.full((60,), -1))
        with pytest.raises(UsageError, match=r"have 0 environments; use --set train.env_per_batch=0"):
            check_trainable(data, TrainConfig(batch_size=30, env_per_batch=1))
        with pytest.raises(UsageError, match=r"vrex needs environment labels.*such as erm"):
            check_needs(METHODS["vrex"], data)

    def test_a_negative_number(self):
        with pytest.raises(UsageError, match=r"train.env_per_batch=-1: .*greater than or equal to 0"):
            resolve({"train": {"env_per_batch": -1}}, with_env(MANY))


class TestNotes:
    @pytest.mark.parametrize(
        ("env", "train", "note"),
        [
            (torch.zeros(60).long(), {}, "one environment: vrex has nothing to compare and is the same as erm"),
            (MANY, {"env_per_batch": 1}, "env_per_batch is 1: vrex has nothing to compare"),
            (torch.arange(60), {"env_per_batch": 0}, r"a batch of 30 has 1\.3 graphs of each environment"),
            (MANY, {"env_per_batch": 20}, r"a batch of 30 has 1\.0 graphs"),
        ],
        ids=["one", "one-a-batch", "scattered", "too-many-a-batch"],
    )
    def test_what_keeps_a_method_from_comparing(self, env, train, note):
        config = TrainConfig(batch_size=30, **train)
        (found,) = environment_notes(METHODS["vrex"], env, config)
        assert re.search(note, found)
        assert environment_notes(METHODS["erm"], env, config) == []

    def test_nothing_to_say(self):
        assert environment_notes(METHODS["vrex"], MANY, TrainConfig(batch_size=30, env_per_batch=4)) == []
        assert environment_notes(METHODS["vrex"], MANY % 3, TrainConfig(batch_size=30)) == []


class Cut(Callback):
    """Ends training after a step, before it is saved."""

    def __init__(self, step):
        self.step = step

    def on_step(self, progress, losses):
        if progress.step == self.step:
            raise KeyboardInterrupt


def trainer_of(data, config, checkpoints=None):
    torch.manual_seed(0)
    method = build_method("vrex", data.task, config.encoder, config.method.args)
    return Trainer(method, data, config.train, 0, checkpoints)


def test_a_run_sees_grouped_batches_and_resumes_to_the_same_bits(tmp_path):
    wanted = {"method": {"name": "vrex"}, "train": {"epochs": 3, "batch_size": 12, "checkpoint_minutes": 0}}
    config, data = resolve(wanted | {"encoder": SMALL["encoder"]}, with_env(MANY))
    assert config.train.env_per_batch == 4
    whole = trainer_of(data, config)
    assert all(len(batch.env.unique()) == 4 for batch in whole.loader.epoch(0, 0))
    whole.fit()
    for step in (2, 6, 13):
        cut = trainer_of(data, config, Checkpoints(tmp_path))
        cut.callbacks.append(Cut(step))
        with pytest.raises(KeyboardInterrupt):
            cut.fit()
    resumed = trainer_of(data, config, Checkpoints(tmp_path))
    assert resumed.at.step == 12
    resumed.fit()
    assert [record["losses"] for record in resumed.at.history] == [record["losses"] for record in whole.at.history]
    for name, tensor in whole.method.state_dict().items():
        assert torch.equal(tensor, resumed.method.state_dict()[name]), name
