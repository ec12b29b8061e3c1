"""`mphil.study`: real runs in a folder, taken up again, and what is said of them."""

import math
import sys
from statistics import mean
from xml.etree import ElementTree

import pytest

import mphil
from mphil.errors import UnknownName, UsageError
from mphil.lab.cells import Request, expand
from mphil.lab.records import RecordFile
from mphil.lab.report import write_report
from mphil.lab.report.sheets import fill
from mphil.lab.statistics import paired_p, t_interval
from mphil.lab.study import Study
from mphil.lab.suite import parse_suite
from tests.unit.lab.made import TINY, TREES, record

BASIS, SIZE = "good-motif-basis", "good-motif-size"
SETTINGS = {
    "benchmark": {"graphs": 120},
    "encoder": {"width": 8, "layers": 2},
    "train": {"epochs": 1, "batch_size": 60},
}
SCORES = {"erm": [0.60, 0.62, 0.67], "vrex": [0.70, 0.72, 0.71], "mphil": [0.65, 0.66, 0.70]}


@pytest.fixture(scope="module")
def made():
    """A study of records made by hand; the last score is that of seed 2 on the size split."""
    text = TINY.replace('["erm"]', '["erm", "vrex", "mphil"]').replace(f'["{BASIS}"]', f'["{BASIS}", "{SIZE}"]')
    suite = parse_suite("study", text.replace("[0, 1]", "[0, 1, 2]"))
    records = [record(c, SCORES[c.row][c.seed], cpu_seconds=3.0, last5={"ood_test": 0.4}) for c in expand(suite)]
    return Study(fill(suite, Request(), records))


def test_runs(made):
    runs = made.runs
    assert len(runs) == 18
    first = runs[(runs.method == "erm") & (runs.benchmark == BASIS) & (runs.seed == 2)].iloc[0]
    assert (first.ood_val, first["last"], first.last5, first.cpu_seconds) == pytest.approx((67.0, 40.0, 40.0, 3.0))
    assert first.id_val is None or math.isnan(first.id_val)  # no epoch was chosen by it
    assert first.command.startswith("mphil train --benchmark")


def test_means(made):
    found = made.means().set_index(["method", "benchmark"]).loc[("erm", BASIS)]
    scores = [60.0, 62.0, 67.0]
    assert (found.seeds, found["mean"], found.sd) == (3, pytest.approx(mean(scores)), pytest.approx(math.sqrt(13)))
    assert (found.low, found.high) == pytest.approx(t_interval(scores))
    assert set(made.means("last5")["mean"].round(6)) == {40.0}
    with pytest.raises(UnknownName, match="selection rule"):
        made.means("best")
    with pytest.raises(UnknownName, match="part"):
        made.means(part="test")


def test_tests_are_corrected(made):
    found = made.tests("mphil").set_index(["method", "benchmark"])
    p = paired_p(dict(enumerate([60.0, 62.0, 67.0])), dict(enumerate([65.0, 66.0, 70.0])))
    erm = found.loc[("erm", BASIS)]
    assert (erm.difference, erm.p, erm.p_holm) == pytest.approx((-4.0, p, 2 * p))
    assert erm.low < -4 < erm.high
    assert len(found) == 4
    with pytest.raises(UnknownName, match="method of the study"):
        made.tests("gsat")


def test_plots(made):
    for text in (made.plot(BASIS), made.plot_ranks()):
        assert ElementTree.fromstring(text).tag.endswith("svg")
    with pytest.raises(UnknownName, match="benchmark of the study"):
        made.plot("good-hiv-size")


def test_plots_without_scores():
    empty = Study(fill(parse_suite("study", TINY), Request(), []))
    assert empty.runs.empty
    assert list(empty.means().state) == ["missing"]
    with pytest.raises(UsageError, match="no run on good-motif-basis has a score"):
        empty.plot(BASIS)
    with pytest.raises(UsageError, match="mean ranks need three methods"):
        empty.plot_ranks()


def test_pandas_is_asked_for(made, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="need pandas; install it with `pip install pandas`"):
        _ = made.runs


def test_trees_beside_networks(tmp_path):
    suite = parse_suite("study", TREES.replace('scored = "validation"', 'scored = "all"'))
    records = [record(cell, 0.5, last5={"ood_test": 0.5}) for cell in expand(suite)]
    trees, _ = records
    trees["last"] = {"epoch": 0, "scores": {"ood_test": 0.5}}
    for one in records:
        RecordFile(tmp_path / "study.jsonl").append(one)
    (tmp_path / "study.toml").write_text(TREES.replace('scored = "validation"', 'scored = "all"'))
    found = Study(fill(suite, Request(), records))
    assert list(found.runs.method) == list(found.means().method) == ["forest", "erm"]
    assert set(found.means().state) == {"run"}
    assert found.sheet.efforts == {"decoy-scaffold": "1 epochs"}
    assert found.sheet.entries["forest", "decoy-scaffold"].seconds() == [8.0]
    written = write_report([str(tmp_path / "study.toml")], tmp_path, tmp_path / "report", against=["erm"])
    assert (written.records, written.problems) == (2, [])
    assert "scikit-learn" in (tmp_path / "report" / "method-forest.html").read_text()
    assert "forest 50.0" in (tmp_path / "report" / "report.md").read_text()  # the best other method


@pytest.mark.parametrize(
    ("methods", "benchmarks", "settings", "message"),
    [
        ("erm", [BASIS], {}, "methods='erm': a list of names"),
        (["erm"], BASIS, {}, "benchmarks='good-motif-basis': a list of names"),
        (["ermm"], [BASIS], {}, "ermm"),
        (["erm"], ["motif"], {}, "motif"),
        ({"mine": {"temperature": 0.2}}, [BASIS], {}, "method 'mine': give its name"),
        (["erm"], [BASIS], {"train": {"epoch": 1}}, "epoch"),
        (["erm"], [BASIS], {"trian": {"epochs": 1}}, "trian"),
        (["erm"], [BASIS], {"train": {"epochs": object()}}, "is no number, text, list"),
        ([], [BASIS], {}, "no rows"),
        ({"mine": {"name": "forest", "trees": 9}}, [BASIS], {}, "method forest has no options or presets"),
    ],
)
def test_refusals_come_before_any_run(methods, benchmarks, settings, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        mphil.study(methods, benchmarks, [0], out=tmp_path / "s", dirty=True, **settings)
    assert not (tmp_path / "s").exists()


@pytest.mark.slow
def test_a_study_runs_is_resumed_and_reported(tmp_path):
    methods = {"erm": {"name": "erm"}, "mphil, K = 2": {"name": "mphil", "prototypes": 2}}
    with pytest.raises(UsageError, match="has a comma"):
        mphil.study(methods, [BASIS], [0], out=tmp_path, dirty=True, **SETTINGS)
    methods = {"erm": {"name": "erm"}, "mphil K=2": {"name": "mphil", "prototypes": 2}}
    first = mphil.study(methods, [BASIS], [0], out=tmp_path, dirty=True, **SETTINGS)
    assert first.problems == []
    assert list(first.runs.method) == ["erm", "mphil K=2"]
    size = (tmp_path / "study.jsonl").stat().st_size
    again = mphil.study(methods, [BASIS], [0], out=tmp_path, dirty=True, **SETTINGS)
    assert again.runs.equals(first.runs)
    assert (tmp_path / "study.jsonl").stat().st_size == size
    found, problems = RecordFile(tmp_path / "study.jsonl").read()
    assert (len(found), problems) == (2, [])
    written = write_report([str(tmp_path / "study.toml")], tmp_path, tmp_path / "report", against=["mphil K=2"])
    assert (written.records, written.problems) == (2, [])
