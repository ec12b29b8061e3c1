"""The batch that methods and encoders see: ours and one of PyG have its attributes, and give the same numbers."""

from __future__ import annotations

import copy
from typing import get_type_hints

import pytest
import torch
from torch_geometric.data import Data

from mphil.graphs.batch import Batch, GraphBatch
from mphil.methods import METHODS
from mphil.nn.encoders import ENCODERS
from mphil.testing.trial import TASKS, Trial, outputs


def of_pyg(batch: GraphBatch) -> Data:
    """Copies, so that nothing that one computes is found by the other."""
    return batch.clone().to_pyg()


def trial_of(name: str, **encoder: object) -> Trial:
    method = METHODS[name]
    kind = "multiclass" if "multiclass" in method.tasks else method.tasks[0]
    return Trial.of(method, kind, {}, 0, encoder)


def same(method: torch.nn.Module, batch: GraphBatch) -> None:
    ours, theirs = outputs(method, batch.clone()), outputs(method, of_pyg(batch))
    assert ours.keys() == theirs.keys()
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=0, atol=0, equal_nan=True)


def test_ours_has_what_the_protocol_names():
    assert get_type_hints(GraphBatch) == get_type_hints(Batch)


@pytest.mark.parametrize("task", TASKS)
def test_both_have_all_that_is_always_there(task):
    batch = Trial.of(METHODS["erm"], task, {}, 0).batch()
    for found in (batch, of_pyg(batch)):
        for name in ("x", "edge_index", "y", "batch", "ptr", "env", "index"):
            assert name in found
            assert isinstance(getattr(found, name), torch.Tensor)
        assert hasattr(found, "edge_attr")
        assert "remembered" not in found
        part = copy.copy(found)
        part.x = part.x[:1]
        assert len(found.x) > 1


@pytest.mark.parametrize("name", METHODS)
def test_methods_predict_the_same_of_both(name):
    trial = trial_of(name)
    same(trial.trained(), trial.batch())


@pytest.mark.parametrize("kind", ENCODERS)
def test_encoders_say_the_same_of_both(kind):
    trial = trial_of("erm", kind=kind)
    same(trial.trained(), trial.batch())


def test_a_training_step_takes_both():
    trial = trial_of("erm")
    ours, theirs = trial.started(trial.batch()), trial.started(trial.batch())
    trial.train(ours, trial.batch())
    trial.train(theirs, of_pyg(trial.batch()))
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(mine, other)
