"""Trainings that are cut, and how what they leave is compared."""

from __future__ import annotations

import torch

from mphil.training.callbacks import Callback


class Cut(Exception):
    """The process vanishes."""


class Cutter(Callback):
    """Ends training at a batch, before it is saved, or at the end of an epoch."""

    def __init__(self, batch=None, epoch=None):
        self.batch, self.epoch = batch, epoch

    def on_step(self, progress, losses):
        if progress.step == self.batch:
            raise Cut

    def on_epoch(self, history, progress):
        if progress.epoch == self.epoch:
            raise Cut


def outcome(trainer):
    """Everything a run leaves, without the time it took."""
    history = [{k: v for k, v in record.items() if k != "seconds"} for record in trainer.at.history]
    weights = {name: tensor.clone() for name, tensor in trainer.method.state_dict().items()}
    return history, {"last": weights, **trainer.best}


def assert_same(one, other):
    assert one[0] == other[0]
    assert one[1].keys() == other[1].keys()
    for name, weights in one[1].items():
        assert weights.keys() == other[1][name].keys()
        assert all(torch.equal(weights[key], other[1][name][key]) for key in weights), name
