"""A third-party package and a file of one's own, in every command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from mphil.testing import check_method
from tests.command import call
from tests.plugged import ENTRY_POINTS, QUICK, SOURCE, SUITE, install

PROJECT = """[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "mphil-third"
version = "0.1"

[tool.setuptools]
py-modules = ["third_party"]

[project.entry-points."mphil.methods"]
third-erm = "third_party:ThirdERM"

[project.entry-points."mphil.encoders"]
third-gin = "third_party:ThirdGIN"

[project.entry-points."mphil.benchmarks"]
third-motif = "third_party"
"""
TRAIN = ("train", "--benchmark", "third-motif", "--method", "third-erm", *QUICK, "--out", "run")
LAB = ("lab", "run", "suite.toml", "--out", "records", "--runs", "runs", "--dirty")
TUNE = ("lab", "tune", "third-erm", "third-motif", "--trials", "2", *QUICK, "--runs", "runs", "--dirty", "--out", "t")
REPORT = ("lab", "report", "suite.toml", "--records", "records", "--out", "report")


@pytest.fixture
def here(plugged, tmp_path, monkeypatch):
    """An empty folder to work in, with a suite that asks for the third party's things."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "suite.toml").write_text(SUITE)
    return folder


def done(*words: str) -> str:
    ended = call(*words)
    assert ended.code == 0, ended.err
    return ended.out


@pytest.mark.slow
def test_an_installed_package_in_this_process(here, tmp_path, monkeypatch):
    site = tmp_path / "site"
    site.mkdir()
    install(site)
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # for the worker
    assert "third-erm" in done("methods", "list")
    assert "third-gin" in done("encoders")
    done(*TRAIN)
    done("resume", "run")
    assert json.loads(done("evaluate", "run", "--json"))["metric"] == "accuracy"
    assert "1 run," in done(*LAB)
    (record,) = map(json.loads, Path("records/suite.jsonl").read_text().splitlines())
    assert {plugin["package"] for plugin in record["plugins"]} == {"mphil-third"}
    assert "--plugin" not in record["command"]
    assert "1 records on" in done(*REPORT)
    assert "third-erm" in Path("report/report.md").read_text()
    assert check_method("third-erm", encoder={"kind": "third-gin"})


@pytest.mark.slow
def test_a_file_reaches_the_workers_and_is_named_where_it_is_missing(here, monkeypatch):
    Path("mine_e2e.py").write_text(SOURCE)
    plugin = ("--plugin", "mine_e2e.py")
    assert "1 run," in done(*LAB, *plugin)
    (record,) = map(json.loads, Path("records/suite.jsonl").read_text().splitlines())
    assert record["command"].endswith("--plugin mine_e2e.py")
    assert "1 records on" in done(*REPORT, *plugin)


def test_records_without_their_plugin_are_named(here):
    from mphil.lab.report.sheets import known_names

    known = {"kind": "method", "name": "gone", "file": "gone_away.py"}
    records = [{"method": "gone", "benchmark": "good-motif-basis", "plugins": [known]}]
    _, problems = known_names(records)
    assert problems == [
        "method 'gone' is not known here: 1 of its records are left out; give the file that defines it: "
        "--plugin gone_away.py"
    ]


@pytest.mark.slow
def test_a_package_in_a_fresh_environment(here, tmp_path):
    package, home = tmp_path / "package", tmp_path / "venv"
    package.mkdir()
    (package / "pyproject.toml").write_text(PROJECT)
    (package / "third_party.py").write_text(SOURCE)
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    where = [sys.executable, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    (site,) = home.glob("lib/python*/site-packages")
    ours = [sysconfig.get_path("purelib"), str(Path(__file__).parents[2] / "src")]
    assert subprocess.check_output(where, text=True).strip() in ours
    (site / "ours.pth").write_text("\n".join(ours) + "\n")
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MPHIL_PLUGINS")}

    def run(*words: object) -> str:
        ended = subprocess.run(
            [str(python), *map(str, words)], env=variables, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    run("-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--no-index", package)
    points = next(site.glob("mphil_third-0.1.dist-info/entry_points.txt")).read_text()
    assert {line for line in points.splitlines() if line} == {line for line in ENTRY_POINTS.splitlines() if line}
    run("-m", "mphil", *TRAIN)
    assert "1 run," in run("-m", "mphil", *LAB)
    assert "different settings tried: 2" in run("-m", "mphil", *TUNE)
    assert "1 records on" in run("-m", "mphil", *REPORT)
    assert "class facts" in run("-c", "from mphil.testing import check_method; print(check_method('third-erm'))")
