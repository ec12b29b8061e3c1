"""`mphil lab` on the command line."""

import json

import pytest

from mphil.lab.cells import expand
from mphil.lab.records import RecordFile
from mphil.lab.suite import load_suite, suite_names
from tests.command import call
from tests.unit.lab.made import TINY, Inline, record

VERBS = ["list", "run", "tune", "report"]


@pytest.fixture
def suite(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture(autouse=True)
def committed(monkeypatch):
    """These tests may be run before a commit."""
    monkeypatch.setattr("mphil.provenance.checkout", lambda package=None: {"commit": "1234", "dirty": False})


@pytest.fixture
def inline(monkeypatch):
    """Cells are not trained: the engine makes their records up."""
    scripted = {"erm": "run"}
    monkeypatch.setattr("mphil.lab.engine.LocalEngine", lambda home, jobs: Inline(home, scripted))
    return scripted


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_an_example(verb):
    ended = call("lab", verb, "--help")
    assert ended.code == 0
    assert f"Example: mphil lab {verb}" in " ".join(ended.out.split())


def test_list():
    listed = json.loads(call("lab", "list", "--json").out)
    assert [one["name"] for one in listed] == suite_names()
    assert "spmotif-binary" in call("lab", "list").out


class TestRun:
    def test_tells_what_was_done(self, suite, inline, tmp_path):
        ended = call("lab", "run", suite, "--out", tmp_path / "r", "--runs", tmp_path / "runs")
        assert ended.code == 0
        assert ended.out.splitlines() == [
            "2 cells: 2 run, 0 refused by their method, 0 recorded before, 0 failed",
            f"records: {tmp_path / 'r' / 'tiny.jsonl'}",
        ]
        again = call("lab", "run", suite, "--out", tmp_path / "r", "--runs", tmp_path / "runs")
        assert "0 run, 0 refused by their method, 2 recorded before" in again.out

    def test_failures_are_listed_and_the_code_says_so(self, suite, inline, tmp_path):
        inline["erm"] = "failed"
        ended = call("lab", "run", suite, "--out", tmp_path / "r", "--seeds", "0")
        assert ended.code == 3
        assert "failed: mphil train --benchmark good-motif-basis --method erm --seed 0" in ended.out
        assert "it broke" in ended.out

    def test_dry_run_starts_nothing(self, suite, tmp_path):
        first = expand(load_suite(str(suite)))[0]
        RecordFile(tmp_path / "r" / "tiny.jsonl").append(record(first))
        ended = call("lab", "run", suite, "--dry-run", "--out", tmp_path / "r", "--runs", tmp_path / "runs")
        lines = ended.out.splitlines()
        assert lines[0] == f"recorded  {first.id}  {first.command}"
        assert lines[1].startswith("to run    ")
        assert not (tmp_path / "runs").exists()

    def test_a_list_has_commas_or_is_given_option_by_option(self, suite, tmp_path):
        plans = [
            call("lab", "run", suite, "--dry-run", "--out", tmp_path, *words).out
            for words in (["--seeds", "0,2,5"], ["--seeds", "0", "--seeds", "2,5"])
        ]
        assert plans[0] == plans[1]
        assert "--seed 5" in plans[0]

    def test_records_of_other_numerics_are_named(self, suite, inline, tmp_path):
        old = RecordFile(tmp_path / "r" / "old.jsonl")
        for cell in expand(load_suite(str(suite))):
            old.append(record(cell) | {"numerics": 0})
        ended = call("lab", "run", suite, "--out", tmp_path / "r", "--runs", tmp_path / "runs")
        assert "2 cells: 2 run, 0 refused by their method, 0 recorded before" in ended.out
        assert "note: old.jsonl: 2 records of numerics 0 (before they had a number) left out" in ended.err
        planned = call("lab", "run", suite, "--dry-run", "--out", tmp_path / "r")
        assert "note: old.jsonl: 2 records of numerics 0" in planned.err

    @pytest.mark.parametrize("words", [("run", "smoke"), ("tune", "erm", "good-motif-basis")])
    def test_uncommitted_changes_are_refused(self, words, tmp_path, monkeypatch):
        monkeypatch.setattr("mphil.provenance.checkout", lambda package=None: {"commit": "1234", "dirty": True})
        ended = call("lab", *words, "--out", tmp_path / "r")
        assert (ended.code, ended.out) == (2, "")
        assert (
            "has uncommitted changes, so the records could not be repeated; commit them, or run with --dirty"
            in ended.err
        )
        assert not (tmp_path / "r").exists()

    def test_unless_told_otherwise(self, suite, inline, tmp_path, monkeypatch):
        monkeypatch.setattr("mphil.provenance.checkout", lambda package=None: {"commit": "1234", "dirty": True})
        ended = call("lab", "run", suite, "--out", tmp_path / "r", "--runs", tmp_path / "runs", "--dirty")
        assert ended.code == 0

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--seeds", "a"], "--seeds 'a': write whole numbers"),
            (["--seeds", "-1"], "a seed is 0 or more"),
            (["--methods", "emr"], "unknown row of suite tiny 'emr'; did you mean erm"),
            (["--budget", "large"], "unknown budget of suite tiny 'large'"),
            (["--set", "train.epoch=3"], "did you mean epochs"),
        ],
    )
    def test_mistakes(self, suite, tmp_path, options, message):
        ended = call("lab", "run", suite, "--out", tmp_path / "r", "--runs", tmp_path / "runs", *options)
        assert (ended.code, ended.out) == (2, "")
        assert message in ended.err
        assert not (tmp_path / "r").exists()

    def test_unknown_suite(self):
        ended = call("lab", "run", "god")
        assert (ended.code, ended.err) == (2, "error: unknown suite 'god'; did you mean good or drugood?\n")

    def test_a_place_that_cannot_be_written(self, suite, inline, tmp_path):
        (tmp_path / "r").touch()
        ended = call("lab", "run", suite, "--out", tmp_path / "r")
        assert ended.code == 3
        assert ended.err.splitlines()[-1].startswith(f"error: cannot read or write {tmp_path / 'r'}")


class TestTune:
    def test_writes_settings_for_config(self, inline, tmp_path):
        ended = call("lab", "tune", "erm", "good-motif-basis", "--out", tmp_path, "--set", "benchmark.graphs=200")
        assert ended.code == 0, ended.err
        file = tmp_path / "erm-good-motif-basis.toml"
        assert ended.out.splitlines() == [
            "best ood_val 0.6000, trial 0; different settings tried: 1",
            f"settings: {file}",
            f"next: mphil train --benchmark good-motif-basis --config {file}",
        ]

    def test_test_parts_do_not_judge(self, tmp_path):
        ended = call("lab", "tune", "erm", "good-motif-basis", "--selection", "ood_test", "--out", tmp_path)
        assert ended.code == 2
        assert "unknown selection rule 'ood_test'" in ended.err


class TestReport:
    def test_writes_three_files_and_names_what_is_left_out(self, suite, tmp_path):
        for cell in expand(load_suite(str(suite))):
            RecordFile(tmp_path / "r" / "tiny.jsonl").append(record(cell))
        with (tmp_path / "r" / "tiny.jsonl").open("a") as file:
            file.write("nonsense\n")
        ended = call("lab", "report", suite, "--records", tmp_path / "r", "--out", tmp_path / "out")
        assert ended.code == 0
        assert ended.out.startswith("2 records on 3 pages\n")
        assert ended.err.startswith("note: tiny.jsonl:3: not a record (broken JSON: 'nonsense')")
        assert {"index.html", "report.md", "report.tex"} <= {path.name for path in (tmp_path / "out").iterdir()}

    def test_against_a_method_that_has_no_row(self, suite, tmp_path):
        RecordFile(tmp_path / "r" / "tiny.jsonl").append(record(expand(load_suite(str(suite)))[0]))
        words = ["lab", "report", suite, "--records", tmp_path / "r", "--out", tmp_path / "out"]
        ended = call(*words, "--against", "ermm")
        assert ended.code == 2
        assert "'ermm'" in ended.err
        assert call(*words, "--against", "erm").code == 0

    def test_nothing_there(self, tmp_path):
        ended = call("lab", "report", "--records", tmp_path / "none", "--out", tmp_path / "out")
        assert ended.code == 3
        assert "no records of any suite" in ended.err
