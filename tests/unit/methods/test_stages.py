"""Methods with earlier stages in the trainer: a cut anywhere leaves no trace."""

from __future__ import annotations

from contextlib import suppress

import pytest
import torch

from mphil.benchmarks.catalogue import Benchmark
from mphil.config import EncoderConfig, TrainConfig
from mphil.graphs.split import Split
from mphil.methods import build_method
from mphil.testing.trial import labelled_molecules
from mphil.training.callbacks import Callback
from mphil.training.checkpoint import Checkpoints
from mphil.training.trainer import Trainer
from tests.graphs import TASKS

SETTINGS = {
    "moleood": {"environments": 3, "environment_share": 1.0},
    "gala": {"environments": 2},
    "hse": {"environments": 4, "inference_share": 1.0},
    "equad": {"width": 8, "layers": 2, "every": 1, "infomax_share": 1.0},
    "lirs": {"width": 8, "layers": 2, "marked": 3, "drop": 0.0},
}


class Cut(Exception):
    """The process vanishes."""


class Cutter(Callback):
    """Ends training after so many batches."""

    def __init__(self, batches):
        self.left = batches

    def on_step(self, progress, losses):
        self.left -= 1
        if self.left == 0:
            raise Cut


def trainer_of(name, checkpoints=None):
    """Molecules, two epochs of two batches in every stage."""
    store = labelled_molecules(TASKS["binary"])
    split = Split(*torch.arange(12).split([6, 2, 1, 2, 1]))
    encoder = EncoderConfig(width=6, layers=2, dropout=0.1, node=store.node_features, edge=store.edge_features)
    torch.manual_seed(0)
    method = build_method(name, TASKS["binary"], encoder, SETTINGS[name])
    config = TrainConfig(epochs=2, batch_size=3, checkpoint_minutes=0)
    return Trainer(method, Benchmark(TASKS["binary"], store, split), config, 0, checkpoints)


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_a_cut_in_every_stage_leaves_no_trace(name, tmp_path):
    straight = trainer_of(name)
    straight.fit()
    attempts, finished = 0, False
    while not finished:
        trainer = trainer_of(name, Checkpoints(tmp_path))
        trainer.callbacks.append(Cutter(2))
        with suppress(Cut):
            trainer.fit()
            finished = True
        attempts += 1
    assert attempts > 3 * len(straight.stages), "cut inside epochs and between them"
    for state, expected in (
        (trainer.method.state_dict(), straight.method.state_dict()),
        *((trainer.best[rule], best) for rule, best in straight.best.items()),
    ):
        assert state.keys() == expected.keys()
        assert [key for key in state if not torch.equal(state[key], expected[key])] == []
    scores = [[record["scores"] for record in run.at.history] for run in (trainer, straight)]
    assert scores[0] == scores[1]
