"""`mphil new`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.command import call

KINDS = ("method", "benchmark", "encoder")


@pytest.mark.slow
def test_the_templates_pass_their_tests_at_once(tmp_path):
    for kind in KINDS:
        ended = call("new", kind, f"my_{kind}", "--out", tmp_path / "mine")
        assert ended.code == 0, ended.err
        assert f"mphil train --plugin {tmp_path / 'mine' / f'my_{kind}.py'}" in ended.out
    assert len(list((tmp_path / "mine").iterdir())) == 6
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def test_the_templates_are_in_style(tmp_path):
    for kind in KINDS:
        call("new", kind, f"my_{kind}", "--out", tmp_path)
    for words in (("check", "--ignore", "ANN,D,INP"), ("format", "--check")):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *words, "--config", "pyproject.toml", tmp_path],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("kind", KINDS)
class TestRefusals:
    @pytest.mark.parametrize("name", ["my-method", "1st", "a.b", "../a", "class", "", "mühle"])
    def test_a_name_that_is_no_identifier(self, kind, name, tmp_path):
        ended = call("new", kind, name, "--out", tmp_path)
        assert (ended.code, list(tmp_path.iterdir())) == (2, [])
        assert "is not a valid name of a Python module" in ended.err

    def test_a_name_that_is_taken(self, kind, tmp_path, plugged):
        taken = {"method": "gsat", "encoder": "gin", "benchmark": "taken_already"}[kind]
        if kind == "benchmark":  # none of ours is an identifier
            from mphil.benchmarks import register

            register(taken, lambda: None, summary="", source="")
        ended = call("new", kind, taken, "--out", tmp_path)
        assert (ended.code, list(tmp_path.iterdir())) == (2, [])
        assert f"a {kind} '{taken}' exists already, see `mphil {kind}s`" in ended.err

    def test_a_module_of_that_name(self, kind, tmp_path):
        ended = call("new", kind, "json", "--out", tmp_path)
        assert (ended.code, list(tmp_path.iterdir())) == (2, [])
        assert "a Python module 'json' exists already" in ended.err

    @pytest.mark.parametrize("existing", ["mine_own.py", "test_mine_own.py"])
    def test_nothing_is_overwritten(self, kind, existing, tmp_path):
        (tmp_path / existing).write_text("precious")
        ended = call("new", kind, "mine_own", "--out", tmp_path)
        assert (ended.code, [file.name for file in tmp_path.iterdir()]) == (2, [existing])
        assert (tmp_path / existing).read_text() == "precious"
        assert "exists and is not overwritten" in ended.err
