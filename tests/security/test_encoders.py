"""A stored model names its encoder, and must never make us import or call what it names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

import mphil
from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.model.bundle import read_bundle, write_bundle
from mphil.nn.encoders import build_encoder
from mphil.training.run import read_run_config
from tests.bundles import bundle_of
from tests.security.test_bundles import edit

NETWORK = """
from pathlib import Path
from torch import nn

Path(__file__).with_suffix(".ran").touch()


class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.linear = nn.Linear(config.width, config.width)

    def forward(self, x, edge_index):
        return self.linear(x)
"""


@pytest.fixture
def canary(tmp_path, monkeypatch):
    """A module that can be imported and leaves a trace when it is."""
    file = tmp_path / "canary_module.py"
    file.write_text(NETWORK)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield file
    sys.modules.pop("canary_module", None)


def ran(canary):
    return canary.with_suffix(".ran").exists()


HARMFUL = ("os:system", "builtins:exec", "subprocess:Popen", "posix:_exit", "canary_module:Net", "mphil:Net")


@pytest.mark.parametrize("kind", HARMFUL)
def test_settings_only_look_at_the_name(canary, kind):
    assert EncoderConfig(kind=kind).kind == kind
    assert not ran(canary)


@pytest.mark.parametrize("kind", HARMFUL)
def test_a_bundle_is_refused_and_nothing_is_imported(product, tmp_path, canary, kind):
    folder = shutil.copytree(product.path, tmp_path / "bundle")
    edit(folder, "config.json", lambda values: values["encoder"].update(kind=kind))
    with pytest.raises(UsageError, match=r"encoder\.kind=") as refusal:
        read_bundle(folder)
    assert str(folder) in str(refusal.value)
    assert not ran(canary)
    if kind.startswith("canary"):
        assert "MPHIL_PLUGINS=canary_module" in str(refusal.value)


@pytest.mark.parametrize("kind", ["os:system()", "os.path", "../evil:Net", "a:b:c", "a-b:C", ":C", "a:", "x" * 300])
def test_names_of_another_form_are_no_settings(kind):
    with pytest.raises(ValueError, match="kind"):
        EncoderConfig(kind=kind)


def test_a_module_that_answers_for_missing_names_is_not_asked(monkeypatch):
    asked = []
    monkeypatch.setattr(mphil, "__getattr__", lambda name: asked.append(name))
    with pytest.raises(UsageError, match="there is no such name"):
        build_encoder(EncoderConfig(kind="mphil:Lazy"))
    assert asked == []


@pytest.mark.slow
def test_a_run_folder_imports_nothing(canary, tmp_path):
    run = mphil.train(
        "decoy-scaffold",
        "erm",
        benchmark={"graphs": 60},
        encoder={"width": 4, "kind": "canary_module:Net"},
        train={"epochs": 1, "batch_size": 12},
        out=tmp_path / "run",
    )
    assert ran(canary)
    canary.with_suffix(".ran").unlink()
    config, _ = read_run_config(run.folder)
    assert config.encoder.kind == "canary_module:Net"
    program = f"from mphil.training.run import load_run; from pathlib import Path; load_run(Path({str(run.folder)!r}))"
    ended = python(program, PYTHONPATH=tmp_path)
    assert "UsageError" in ended.stderr
    assert "MPHIL_PLUGINS=canary_module" in ended.stderr
    assert not ran(canary)
    for plugin in ("canary_module", canary):
        ended = python(program, PYTHONPATH=tmp_path, MPHIL_PLUGINS=plugin)
        assert ended.returncode == 0, ended.stderr
        assert ran(canary)


def python(program, *, PYTHONPATH, **variables):
    """A new process that has imported nothing."""
    path = os.pathsep.join([str(PYTHONPATH), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, **{name: str(value) for name, value in variables.items()}}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_bundle_of_a_pyg_model_loads_by_itself(tmp_path):
    data = mphil.benchmark("decoy-scaffold", graphs=120)
    encoder = {"kind": "torch_geometric.nn:GraphSAGE", "width": 8, "layers": 2}
    run = mphil.train(data, "erm", train={"epochs": 1, "batch_size": 24}, encoder=encoder)
    write_bundle(tmp_path / "bundle", bundle_of(run))
    program = f"import mphil; print(mphil.load({str(tmp_path / 'bundle')!r}).predict(['CCO']).status)"
    ended = python(program, PYTHONPATH=tmp_path)
    assert ended.stdout == "['ok']\n", ended.stderr
