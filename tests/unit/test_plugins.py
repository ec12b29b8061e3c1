"""Code that the environment lists."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from mphil.errors import UsageError
from mphil.plugins import load_plugins


@pytest.fixture
def listed(monkeypatch):
    """Set the variable; modules that were imported by it are forgotten afterwards."""
    before = set(sys.modules)
    yield lambda value: monkeypatch.setenv("MPHIL_PLUGINS", value)
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_nothing_is_listed(monkeypatch):
    monkeypatch.delenv("MPHIL_PLUGINS", raising=False)
    assert load_plugins() == frozenset()


def test_files_and_modules(listed, tmp_path):
    file = tmp_path / "plugged_file.py"
    file.write_text("COUNT = [1]\n")
    listed(f"{file}, json ,")
    assert load_plugins() == {"plugged_file", "json"}
    module = sys.modules["plugged_file"]
    load_plugins()
    assert sys.modules["plugged_file"] is module


def test_an_encoder_and_a_method_get_a_name(tmp_path):
    file = tmp_path / "plugged_names.py"
    file.write_text(
        "from mphil.methods import register\nfrom mphil.methods.erm import ERM\n"
        "from mphil.nn.encoders import register_encoder\nfrom mphil.nn.encoders.gin import GIN\n\n"
        "@register_encoder('mine')\nclass Mine(GIN):\n    '''Mine.'''\n\n"
        "@register('ours', paper='none')\nclass Ours(ERM):\n    '''Ours.'''\n"
    )
    program = (
        "import mphil; data = mphil.benchmark('good-motif-basis', graphs=60);"
        "run = mphil.train(data, 'ours', encoder={'kind': 'mine', 'width': 4}, train={'epochs': 1, 'batch_size': 8});"
        "print(type(run.method.encoder).__name__)"
    )
    path = os.pathsep.join(sys.path)
    environment = {**os.environ, "MPHIL_PLUGINS": str(file), "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "Mine\n", done.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1 / 0\n", "ZeroDivisionError"),
        ("import nothing_like_this\n", "ModuleNotFoundError"),
        (None, "FileNotFoundError"),
    ],
)
def test_failures_name_the_variable_and_the_entry(listed, tmp_path, content, message):
    file = tmp_path / "plugged_wrong.py"
    if content is not None:
        file.write_text(content)
    listed(str(file))
    with pytest.raises(
        UsageError, match=rf"plugged_wrong.py \(--plugin or MPHIL_PLUGINS\) cannot be imported: {message}"
    ):
        load_plugins()
    assert "plugged_wrong" not in sys.modules


def test_a_file_does_not_take_the_name_of_a_module(listed, tmp_path):
    (tmp_path / "json.py").write_text("")
    listed(str(tmp_path / "json.py"))
    with pytest.raises(UsageError, match="a module json exists already"):
        load_plugins()
