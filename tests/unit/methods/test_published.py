"""Published hyperparameters: every file is right, and the preset that takes them."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import mphil.methods.published as module
from mphil.benchmarks import BENCHMARKS
from mphil.errors import UnknownName, UsageError
from mphil.methods import METHODS
from mphil.methods.base import resolve_hyperparameters
from mphil.methods.published import Published, published, read_published
from mphil.training.settings import resolve

FOLDER = Path(module.__file__).with_suffix("")
FILES = sorted(FOLDER.glob("*.toml"))
MOTIF = {"name": "good-motif-basis", "graphs": 60}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_holds_settings_of_its_method_on_benchmarks_that_exist(file):
    content = tomllib.loads(file.read_text())
    method = METHODS[file.stem]
    assert len(content.pop("source")) > 10
    for name, values in content.items():
        assert any(f"{benchmark}-".startswith(f"{name}-") for benchmark in BENCHMARKS), f"no benchmark is a {name}"
        resolved = resolve_hyperparameters(method, None, values)
        assert {key: resolved[key] for key in values} == values


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
