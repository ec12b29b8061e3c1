"""Data and settings that cannot be trained are refused with a reason."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.toys import measured_benchmark, small_benchmark, with_labels, without_part

import mphil
from mphil.config import TrainConfig
from mphil.errors import DataError, UsageError
from mphil.methods.base import METHODS
from mphil.training.trainable import check_accumulation, check_trainable


@pytest.fixture(scope="module")
def motif():
    return mphil.benchmark("good-motif-basis", graphs=200)


class TestBadData:
    """Refused before any time is spent."""

    def test_what_can_be_trained_passes(self):
        for kind in ("multiclass", "binary", "multitask"):
            check_trainable(small_benchmark(kind, missing=0.3), TrainConfig(batch_size=60))
        check_trainable(measured_benchmark(2, missing=0.3), TrainConfig(batch_size=60))

    def test_batch_larger_than_the_data(self, motif):
        with pytest.raises(UsageError, match=r"train.batch_size is 121 but good-motif-basis has 120.*batch_size=30 or"):
            check_trainable(motif, TrainConfig(batch_size=121))

    def test_one_class_only(self, motif):
        y = motif.store.y.clone()
        y[motif.split.train] = 2.0
        with pytest.raises(DataError, match="all training graphs have the same label"):
            check_trainable(with_labels(motif, y), TrainConfig(batch_size=60))

    def test_one_class_in_every_column(self):
        data = small_benchmark("multitask")
        y = torch.tensor([0.0, 1.0, 0.0, torch.nan]).repeat(len(data.store), 1)
        with pytest.raises(DataError, match="same label"):
            check_trainable(with_labels(data, y), TrainConfig(batch_size=60))
        y[3, 0] = 1.0
        check_trainable(with_labels(data, y), TrainConfig(batch_size=60))

    def test_codes_outside_their_vocabulary(self):
        data = mphil.benchmark("decoy-scaffold", graphs=100)
        check_trainable(data, TrainConfig(batch_size=60))
        x = data.store.x.clone()
        x[5, 3] = data.store.node_features.sizes[3]
        with pytest.raises(DataError, match="x has codes outside the vocabulary of column 3"):
            check_trainable(replace(data, store=replace(data.store, x=x)), TrainConfig(batch_size=60))

    def test_an_infinite_measurement(self):
        data = measured_benchmark()
        y = data.store.y.clone()
        y[3, 0] = torch.inf
        with pytest.raises(DataError, match="a label is infinite"):
            check_trainable(with_labels(data, y), TrainConfig(batch_size=60))

    def test_no_labels(self):
        data = small_benchmark()
        with pytest.raises(DataError, match="the data: no training graph has a label"):
            check_trainable(with_labels(data, torch.full_like(data.store.y, torch.nan)), TrainConfig(batch_size=60))

    @pytest.mark.parametrize("label", [-1.0, 3.0, 0.5, torch.inf])
    def test_labels_that_are_no_classes_in_any_part(self, label):
        data = small_benchmark()
        y = data.store.y.clone()
        y[-1] = label
        with pytest.raises(DataError, match=f"{label:g} is no label; use whole numbers from 0 to 2"):
            check_trainable(with_labels(data, y), TrainConfig(batch_size=60))

    def test_labels_of_another_shape(self):
        data = small_benchmark("multitask")
        with pytest.raises(DataError, match="labels have 1 columns, the task has 4"):
            check_trainable(with_labels(data, data.store.y[:, :1]), TrainConfig(batch_size=60))

    def test_patience_on_a_part_that_is_empty(self):
        data = without_part(small_benchmark(), "id_val")
        with pytest.raises(UsageError, match="train.patience_on='id_val'"):
            check_trainable(data, TrainConfig(batch_size=60, patience=3, patience_on="id_val"))
        check_trainable(data, TrainConfig(batch_size=60, patience=3))

    @pytest.mark.parametrize("device", ["gpu", "cuda:99", "tape"])
    def test_a_device_that_is_not_there(self, device):
        with pytest.raises(UsageError, match=f"train.device='{device}'"):
            check_trainable(small_benchmark(), TrainConfig(batch_size=60, device=device))


class TestRecipe:
    """120 training graphs."""

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"window": 4}, r"train.window is 4 but training has 3 epochs; use --set train.window=3 or less"),
            ({"min_epochs": 4}, r"train.min_epochs is 4 but training has 3 epochs; use --set train.min_epochs=3"),
            ({"window": 3, "max_steps": 8}, r"train.window is 3 but training has 2 epochs"),
            ({"accumulate": 5}, r"train.accumulate is 5 but an epoch has 4 batches; use --set train.accumulate=4"),
            ({"warmup": 0.97}, r"train.warmup=0.97 takes up all 12 steps of training; use --set train.warmup=0.1"),
            ({"warmup": 0.6, "max_steps": 1}, r"takes up all 1 steps"),
        ],
    )
    def test_longer_than_the_run(self, motif, settings, message):
        with pytest.raises(UsageError, match=message):
            check_trainable(motif, TrainConfig(**{"epochs": 3, "batch_size": 30} | settings))

    def test_as_long_as_the_run(self, motif):
        fitting = {"window": 3, "min_epochs": 3, "accumulate": 4, "warmup": 0.9}
        check_trainable(motif, TrainConfig(epochs=3, batch_size=30, **fitting))

    @pytest.mark.parametrize(
        "setting",
        [
            {"distract": -0.1},
            {"distract": 1.1},
            {"mix_features": 1.1},
            *({name: value} for name in ("average", "warmup", "edge_drop") for value in (-0.1, 1.0, float("nan"))),
            *({"accumulate": 0}, {"window": 0}, {"min_epochs": -1}),
            *({"optimizer": "sgd"}, {"schedule": "steps"}, {"loggers": ["paper"]}),
        ],
    )
    def test_out_of_range(self, motif, setting):
        (name,) = setting
        with pytest.raises(UsageError, match=rf"train\.{name}"):
            mphil.train(motif, "erm", train=setting)

    def test_features_that_are_no_numbers_are_not_mixed(self, motif):
        with pytest.raises(UsageError, match=r"mix_features=0.5: the node features of .* are constant, and only real"):
            check_trainable(motif, TrainConfig(epochs=3, batch_size=30, mix_features=0.5))

    @pytest.mark.parametrize("method", ["aia", "grea", "imold"])
    def test_methods_that_move_groups_in_turn_do_not_accumulate(self, method):
        data = small_benchmark()
        with pytest.raises(UsageError, match=rf"train.accumulate=2: {method} moves several groups.*larger train.batch"):
            mphil.train(data, method, train={"accumulate": 2, "batch_size": 30})
        check_accumulation(METHODS[method], TrainConfig())
