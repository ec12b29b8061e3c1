"""Settings are frozen, typed and know their names; options come from signatures."""

from __future__ import annotations

from typing import Literal

import pytest
from pydantic import ValidationError

from mphil.config import EncoderConfig, NamedArgs, RunConfig, TrainConfig, check_arguments, keyword_arguments
from mphil.errors import UnknownName, UsageError
from mphil.graphs.features import Features
from mphil.methods.base import METHODS, Method, build_method, resolve_hyperparameters
from mphil.task import Task

RUN = RunConfig(benchmark=NamedArgs(name="spmotif"), method=NamedArgs(name="erm"))


def options(
    where, *, size: int = 3, rate: float = 0.5, mode: Literal["slow", "fast"] = "slow", deep: bool = False
) -> None:
    """Something with options."""


class Toy(Method):
    presets = {"small": {"size": 5, "mode": "fast"}, "wrong": {"sise": 5}}  # noqa: RUF012
    name = "toy"

    def __init__(self, task, encoder, *, size: int = 3, rate: float = 0.5, mode: Literal["slow", "fast"] = "slow"):
        super().__init__(task, encoder)


class TestSettings:
    @pytest.mark.parametrize("settings", [EncoderConfig(), TrainConfig(), RUN], ids=lambda s: type(s).__name__)
    def test_are_frozen(self, settings):
        field = next(iter(type(settings).model_fields))
        with pytest.raises(ValidationError, match="frozen"):
            setattr(settings, field, getattr(settings, field))

    @pytest.mark.parametrize("cls", [EncoderConfig, TrainConfig])
    def test_refuse_unknown_keys(self, cls):
        with pytest.raises(ValidationError, match="widht"):
            cls(widht=3)

    def test_refuse_unknown_keys_deep_inside(self):
        with pytest.raises(ValidationError, match=r"train\.batch"):
            RunConfig.model_validate(RUN.model_dump() | {"train": {"batch": 3}})

    @pytest.mark.parametrize(
        "wrong",
        [{"kind": "gcnn"}, {"layers": 0}, {"width": 0}, {"dropout": 1.0}, {"dropout": -0.1}, {"readout": "median"}],
        ids=str,
    )
    def test_refuse_values_that_make_no_encoder(self, wrong):
        with pytest.raises(ValidationError, match=next(iter(wrong))):
            EncoderConfig(**wrong)

    @pytest.mark.parametrize(
        "wrong",
        [{"epochs": 0}, {"batch_size": 0}, {"lr": 0}, {"clip": -1}, {"threads": -1}, {"patience_on": "ood_test"}],
        ids=str,
    )
    def test_refuse_values_that_make_no_training(self, wrong):
        with pytest.raises(ValidationError, match=next(iter(wrong))):
            TrainConfig(**wrong)

    def test_survive_json(self):
        encoder = EncoderConfig(node=Features("categorical", (119, 5), "atoms-1"), edge=Features("float", (2,)))
        run = RUN.model_copy(update={"encoder": encoder})
        again = RunConfig.model_validate_json(run.model_dump_json())
        assert again == run
        assert again.encoder.node.sizes == (119, 5)


class TestArguments:
    def test_options_are_the_keyword_only_arguments(self):
        assert keyword_arguments(options) == {"size": 3, "rate": 0.5, "mode": "slow", "deep": False}

    def test_defaults_fill_in(self):
        assert check_arguments(options, {"size": 4}, "toy") == {"size": 4, "rate": 0.5, "mode": "slow", "deep": False}

    def test_values_typed_on_a_command_line_get_their_type(self):
        given = {"size": "7", "rate": "0.25", "deep": "true"}
        checked = check_arguments(options, given, "toy")
        assert (checked["size"], checked["rate"], checked["deep"]) == (7, 0.25, True)

    @pytest.mark.parametrize(
        ("key", "value"), [("size", "many"), ("size", 2.5), ("rate", "x"), ("mode", "medium"), ("deep", "maybe")]
    )
    def test_a_wrong_type_names_owner_option_and_value(self, key, value):
        with pytest.raises(UsageError) as caught:
            check_arguments(options, {key: value}, "method toy")
        assert str(caught.value).startswith(f"method toy: {key}={value!r}: ")

    def test_an_unknown_name_gets_a_suggestion(self):
        with pytest.raises(UnknownName, match=r"unknown option of method toy 'siz'; did you mean size\?"):
            check_arguments(options, {"siz": 1}, "method toy")

    def test_positional_arguments_are_no_options(self):
        with pytest.raises(UnknownName):
            check_arguments(options, {"where": 1}, "toy")

    def test_what_was_given_is_not_changed(self):
        given = {"size": "7"}
        check_arguments(options, given, "toy")
        assert given == {"size": "7"}
        assert keyword_arguments(options)["size"] == 3


class TestPrecedence:
    def test_signature_alone(self):
        assert resolve_hyperparameters(Toy, None, {}) == {"size": 3, "rate": 0.5, "mode": "slow"}

    def test_preset_over_signature(self):
        assert resolve_hyperparameters(Toy, "small", {}) == {"size": 5, "rate": 0.5, "mode": "fast"}

    def test_given_over_preset(self):
        assert resolve_hyperparameters(Toy, "small", {"size": 9}) == {"size": 9, "rate": 0.5, "mode": "fast"}

    def test_presets_are_not_changed(self):
        resolve_hyperparameters(Toy, "small", {"size": 9})
        assert Toy.presets["small"] == {"size": 5, "mode": "fast"}

    def test_unknown_preset(self):
        with pytest.raises(UnknownName, match=r"unknown preset of method toy 'smal'; did you mean small\?"):
            resolve_hyperparameters(Toy, "smal", {})

    def test_a_preset_is_checked_as_well(self):
        with pytest.raises(UnknownName, match="sise"):
            resolve_hyperparameters(Toy, "wrong", {})


class TestBuilding:
    def test_unknown_method(self):
        with pytest.raises(UnknownName, match=r"unknown method 'mphill'; did you mean mphil"):
            build_method("mphill", Task("binary", 1, "roc_auc"), EncoderConfig(), {})

    def test_unknown_option(self):
        with pytest.raises(UnknownName, match="unknown option of method mphil 'tempreature'; did you mean temperature"):
            build_method("mphil", Task("binary", 1, "roc_auc"), EncoderConfig(), {"tempreature": 1.0})

    def test_a_task_the_method_is_not_defined_for(self, monkeypatch):
        monkeypatch.setattr(METHODS["erm"], "tasks", frozenset({"multiclass"}))
        monkeypatch.setattr(METHODS["erm"], "refuses", {"binary": "it is shy"})
        with pytest.raises(UsageError, match="erm is not defined for binary tasks: it is shy; it supports multiclass"):
            build_method("erm", Task("binary", 1, "roc_auc"), EncoderConfig(), {})


def test_a_virtual_node_needs_three_layers():
    with pytest.raises(ValidationError, match="3 or more"):
        EncoderConfig(kind="vgin", layers=2)
    assert EncoderConfig(kind="vgin", layers=3).layers == 3
