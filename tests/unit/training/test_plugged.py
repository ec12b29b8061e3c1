"""Runs and bundles say which plug-ins they need."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.bundles import bundle_of
from tests.plugged import SOURCE, forgotten

import mphil
from mphil.errors import IntegrityError, UsageError
from mphil.model.bundle import read_bundle, write_bundle
from mphil.registry import Plugin, add_plugins
from mphil.training.plugged import check_plugins, model_plugins
from mphil.training.run import evaluate_run, read_run_plugins, stored_run

SETTINGS = {"encoder": {"kind": "third-gin", "width": 4, "layers": 2}, "train": {"epochs": 1, "batch_size": 24}}


@pytest.fixture
def file(plugged, tmp_path):
    file = tmp_path / "mine_there.py"
    file.write_text(SOURCE)
    return file


def train(folder, file):
    """A run that needs a file, made while that was known."""
    with forgotten():
        add_plugins([file])
        return mphil.train("third-motif", "third-erm", out=folder, **SETTINGS)


def test_a_run_needs_its_file(file, tmp_path, monkeypatch, caplog):
    run = train(tmp_path / "run", file)
    recorded = read_run_plugins(run.folder)
    assert [(plugin.kind, plugin.name, plugin.file) for plugin in recorded] == [
        ("benchmark", "third-motif", "mine_there.py"),
        ("method", "third-erm", "mine_there.py"),
        ("encoder", "third-gin", "mine_there.py"),
    ]
    assert run.result["plugins"] == [plugin.model_dump() for plugin in recorded]
    assert str(tmp_path) not in (run.folder / "config.json").read_text()

    monkeypatch.setenv("MPHIL_PLUGINS", "")
    with pytest.raises(UsageError, match=r"run: the benchmark 'third-motif' .* not loaded; .* --plugin mine_there\.py"):
        stored_run(run.folder)
    add_plugins([file])
    assert evaluate_run(run.folder)[0]["ood_test"] == run.scores["ood_val"]["ood_test"]
    assert "has changed since" not in caplog.text

    file.write_text(SOURCE + "# another line\n")
    stored_run(run.folder)
    assert "mine_there.py has changed since" in caplog.text


def test_a_run_of_our_own_things_needs_none(tmp_path):
    data = mphil.benchmark("good-motif-basis", graphs=60)
    run = mphil.train(data, "erm", out=tmp_path / "run", encoder={"width": 4}, train={"epochs": 1, "batch_size": 12})
    assert read_run_plugins(run.folder) == run.result["plugins"] == []
    stored = json.loads((run.folder / "config.json").read_text())
    del stored["plugins"]  # as runs were before
    (run.folder / "config.json").write_text(json.dumps(stored))
    assert stored_run(run.folder)[0] == run.config


@pytest.mark.parametrize("plugins", [5, [5], [{"kind": 5}], [{"other": "x"}], "text", [{"name": "\x1b[2J"}]])
def test_a_damaged_list_is_named(tmp_path, plugins):
    (tmp_path / "config.json").write_text(json.dumps({"plugins": plugins}))
    with pytest.raises(IntegrityError, match=r"config\.json cannot be read"):
        read_run_plugins(tmp_path)


def test_a_bundle_needs_its_file(file, tmp_path, monkeypatch):
    with forgotten():
        add_plugins([file])
        run = mphil.train("decoy-scaffold", "third-erm", benchmark={"graphs": 60}, **SETTINGS)
        needed = tuple(model_plugins(run.config.method.name, run.config.encoder.kind))
        assert [plugin.name for plugin in needed] == ["third-erm", "third-gin"]
        bundle = bundle_of(run)
        write_bundle(tmp_path / "bundle", replace(bundle, config=bundle.config.model_copy(update={"plugins": needed})))
    monkeypatch.setenv("MPHIL_PLUGINS", "")
    with pytest.raises(UsageError, match=r"bundle: the method 'third-erm' .* --plugin mine_there\.py"):
        read_bundle(tmp_path / "bundle")
    add_plugins([file])
    assert mphil.load(tmp_path / "bundle").predict(["CCO"]).status == ["ok"]


def test_a_class_that_is_named_by_its_module(tmp_path):
    assert model_plugins("erm", "torch_geometric.nn:GraphSAGE") == []
    (found,) = model_plugins("erm", "somewhere.else_:Net")
    assert (found.kind, found.name, found.module) == ("encoder", "somewhere.else_:Net", "somewhere.else_")
    check_plugins("run", [found])  # its module is looked for when the encoder is built


def test_what_a_stored_file_says_is_shown_as_one_word():
    hostile = Plugin(kind="method", name="x", package="a; rm -rf ~", version="1")
    with pytest.raises(UsageError, match=r"if you trust it, install the package: pip install 'a; rm -rf ~==1'"):
        check_plugins("bundle", [hostile])
    with pytest.raises(UsageError, match="given in an interactive session"):
        check_plugins("run", [Plugin(kind="benchmark", name="x", module="__main__")])
