"""Published hyperparameters: every file is right, and the preset that takes them."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

import mphil
import mphil.methods.published as module
from mphil.benchmarks import BENCHMARKS
from mphil.config import EncoderConfig
from mphil.errors import UnknownName, UsageError
from mphil.methods import METHODS
from mphil.methods.base import resolve_hyperparameters
from mphil.methods.published import (
    Published,
    published,
    published_encoder,
    published_epochs,
    read_published,
)
from mphil.training.settings import resolve

FOLDER = Path(module.__file__).with_suffix("")
FILES = sorted(FOLDER.glob("*.toml"))
MOTIF = {"name": "good-motif-basis", "graphs": 60}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_holds_settings_of_its_method_on_benchmarks_that_exist(file):
    content, found = tomllib.loads(file.read_text()), read_published(file.stem)
    method = METHODS[file.stem]
    assert len(found.source) > 10
    assert set(content) == {"source", *found.tables, *(key for key in ("epochs", "encoder") if getattr(found, key))}
    for name in (*found.tables, *found.epochs, *found.encoder):
        assert any(f"{benchmark}-".startswith(f"{name}-") for benchmark in BENCHMARKS), f"no benchmark is a {name}"
    for values in found.tables.values():
        resolved = resolve_hyperparameters(method, None, values)
        assert {key: resolved[key] for key in values} == values
    for values in found.encoder.values():
        assert EncoderConfig(**values).model_dump(include=set(values)) == values
    assert all(isinstance(epochs, int) and epochs > 0 for epochs in found.epochs.values())


def test_epochs_and_encoders_are_found_by_the_longest_prefix_too():
    assert [published_epochs("ciga-v2", f"good-cmnist-color{end}") for end in ("", "-concept")] == [100, 200]
    assert published_epochs("ciga-v2", "spmotif") == published_epochs("no-such-method", "good-hiv") == 0
    assert published_encoder("ciga-v1", "drugood-ic50-size")["dropout"] == 0.1
    assert published_encoder("ciga-v1", "drugood-ic50-assay")["dropout"] == 0.5
    assert published_encoder("ciga-v1", "good-hiv-size") == {}


def test_the_preset_brings_the_network_of_the_authors_unless_the_user_sets_it():
    data = replace(mphil.benchmark("decoy-scaffold", graphs=60), name="drugood-ec50-size")
    wanted = {"method": {"name": "ciga-v1", "preset": "published"}, "encoder": {"width": 16}}
    encoder = resolve(wanted, data)[0].encoder
    assert (encoder.layers, encoder.readout, encoder.dropout, encoder.width) == (4, "sum", 0.1, 16)
    del wanted["method"]["preset"]
    assert resolve(wanted, data)[0].encoder.readout == "mean"


def test_the_folder_has_nothing_else():
    assert FILES
    assert set(FOLDER.iterdir()) == set(FILES)


def test_the_longest_prefix_of_whole_words_wins(monkeypatch):
    tables = {"good": {"a": 1}, "good-hiv": {"a": 2}, "good-hiv-size-concept": {"a": 3}, "good-h": {"a": 4}}
    monkeypatch.setattr(module, "read_published", lambda method: Published("here", tables))
    found = {name: published("any", name)["a"] for name in ("good-motif-basis", "good-hiv-size", "good-hiv", "good")}
    assert found == {"good-motif-basis": 1, "good-hiv-size": 2, "good-hiv": 2, "good": 1}
    assert published("any", "good-hiv-size-concept") == {"a": 3}
    with pytest.raises(UsageError, match="only for: good, good-hiv, good-hiv-size-concept, good-h;"):
        published("any", "goodness")


def test_what_is_given_cannot_be_spoilt_by_its_user():
    published("irm", "good-motif-basis")["weight"] = 99
    assert published("irm", "good-motif-basis") == {"weight": 1.0}


def test_the_preset_depends_on_the_benchmark():
    def weight(method, benchmark):
        config, _ = resolve({"benchmark": benchmark, "method": {"name": "vrex", "preset": "published", **method}})
        return config.method.args["weight"]

    assert weight({}, MOTIF) == 100
    assert weight({}, MOTIF | {"name": "good-motif-basis-concept"}) == 1000
    assert weight({"weight": 3.0}, MOTIF) == 3, "what the user sets is above the preset"


def test_published_numbers_of_coral_need_its_compatible_covariance():
    config, _ = resolve({"benchmark": MOTIF, "method": {"name": "coral", "preset": "published"}})
    assert config.method.args == {"weight": 1.0, "compat": True}
    assert published("coral", "drugood-ec50-assay") == {"weight": 0.001}


def test_nothing_published_names_what_is():
    with pytest.raises(
        UsageError, match="no settings of irm were published for spmotif, only for: good-hiv-scaffold, "
    ):
        resolve({"benchmark": {"name": "spmotif"}, "method": {"name": "irm", "preset": "published"}})
    with pytest.raises(UsageError, match="no settings of gmixup .* only for: none at all; leave the preset out"):
        published("gmixup", "good-motif-basis")


def test_a_preset_with_a_typo_is_offered_the_published_one():
    with pytest.raises(UnknownName, match="did you mean published"):
        resolve({"benchmark": MOTIF, "method": {"name": "irm", "preset": "publshed"}})


def test_a_method_without_a_file_has_nothing_published():
    assert read_published("no-such-method") == Published()
