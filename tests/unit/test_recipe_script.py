"""The script of the recipe study: its statistics by hand, and its page from whatever runs there are."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from importlib import resources
from pathlib import Path

import pytest

from mphil.benchmarks.development import TABLES
from mphil.lab.cells import expand
from mphil.lab.records import RecordFile
from mphil.lab.suite import parse_suite
from tests.unit.lab.made import record

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "recipe.py"
SMALL = """
title = "Small"
benchmarks = ["dev-hiv-scaffold", "dev-hiv-size", "dev-muv-scaffold"]
against = "base"
seeds = [0, 1]
[[variants]]
name = "base"
method = "erm"
[[variants]]
name = "readout max"
method = "erm"
settings.encoder = { readout = "max" }
[[variants]]
name = "dropout 0"
method = "erm"
settings.encoder = { dropout = 0.0 }
[[variants]]
name = "width 64"
method = "erm"
settings.encoder = { width = 64 }
[[variants]]
name = "readout max + dropout 0"
method = "erm"
settings.encoder = { readout = "max", dropout = 0.0 }
"""


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("recipe", SCRIPT)
    module = sys.modules["recipe"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["recipe"]


def epoch(ood: float, number: int = 60) -> dict:
    return {"epoch": number, "scores": {"id_val": 0.9, "ood_val": ood, "id_test": 0.111, "ood_test": 0.222}}


def run(cell, last: float, chosen: float) -> dict:
    chosen_on = {"ood_val": epoch(chosen, 7), "id_val": epoch((last + chosen) / 2, 9)}
    return record(cell, selections=chosen_on) | {"last": epoch(last), "last5": epoch(last)["scores"]}


def test_a_paired_effect_by_hand(script):
    base = {("a", 0): 70.0, ("a", 1): 72.0, ("b", 0): 60.0, ("c", 0): 50.0}
    changed = {("a", 0): 73.0, ("a", 1): 73.0, ("b", 0): 59.0, ("c", 1): 90.0, ("d", 0): 10.0}
    found = script.paired_effect(changed, base)
    # Differences: table a (3 + 1) / 2 = 2, table b -1; mean 0.5, standard deviation 3 / sqrt(2), over sqrt(2).
    assert found.mean == pytest.approx(0.5)
    assert found.se == pytest.approx(1.5)
    assert (found.better, found.tables, found.runs) == (1, 2, 3)
    assert not found.counts


def test_effects_from_few_tables(script):
    one = script.paired_effect({("a", 0): 2.0}, {("a", 0): 1.0})
    assert (one.mean, one.se, one.counts) == (1.0, None, False)
    nothing = script.paired_effect({("a", 0): 2.0}, {("a", 1): 1.0})
    assert (nothing.mean, nothing.se, nothing.tables) == (None, None, 0)
    assert script.shown(nothing) == "-"
    assert script.shown(one) == "+1.00"


@pytest.mark.parametrize(
    ("differences", "counts"),
    [([1.0, 1.1, 0.9], True), ([-1.0, -1.1, -0.9], True), ([0.4, 0.4, 0.41], False), ([4.0, -1.0, 0.0], False)],
)
def test_what_counts_is_large_and_sure(script, differences, counts):
    assert script.effect_of(differences, 3).counts == counts


def test_means_of_tables(script):
    assert script.table_means({("a", 0): 1.0, ("a", 1): 3.0, ("b", 0): 5.0}) == {"a": 2.0, "b": 5.0}


@pytest.fixture
def reported(script, tmp_path, monkeypatch):
    """Writes records and gives the page; `chosen` says of each cell the last and the chosen OOD validation score."""
    (tmp_path / "small.toml").write_text(SMALL)

    def make(chosen) -> str:
        for cell in expand(parse_suite("small", SMALL)):
            scores = chosen(cell)
            if scores is not None:
                RecordFile(tmp_path / "small.jsonl").append(run(cell, *scores))
        places = {"--suite": "small.toml", "--out": "page.md"}
        words = [word for option, file in places.items() for word in (option, str(tmp_path / file))]
        monkeypatch.setattr("sys.argv", ["recipe.py", "report", "--records", str(tmp_path), *words])
        script.main()
        return (tmp_path / "page.md").read_text()

    return make


def test_a_page_from_some_of_the_runs(reported):
    tables = list(parse_suite("small", SMALL).benchmarks)

    def scores(cell):
        level = 0.7 + 0.01 * tables.index(cell.benchmark)
        if cell.row == "base":
            return level, level + 0.02
        if cell.row == "readout max":
            return level - 0.05, level + 0.02
        if cell.row == "readout max + dropout 0":
            return level - 0.04, level + 0.02
        return (level + 0.001, level + 0.02) if cell.row == "dropout 0" and cell.seed == 0 else None

    page = reported(scores)
    assert "21 of 30 runs" in page
    assert "Worse than the row it is compared with: readout max -5.00 (0.00)." in page
    assert "Better than the row it is compared with: readout max + dropout 0 +1.00 (0.00)." in page
    assert "No difference that counts: dropout 0." in page
    assert "Not run yet, or not on a table and seed of the other row: width 64." in page
    assert "| **readout max**" not in page
    assert "| readout max | base | **-5.00 (0.00)** | **-2.50 (0.00)** | +0.00 (0.00) | 0 of 3 | 6 |" in page
    assert (
        "| readout max + dropout 0 | readout max | **+1.00 (0.00)** | +0.50 (0.00) | +0.00 (0.00) | 3 of 3 | 6 |"
        in page
    )
    assert page.index("| readout max | base | **-5") < page.index("| dropout 0 | base | +0.10 (0.00)")
    assert "| base | 70.0 | 71.0 | 72.0 | 71.0 |" in page
    assert "11.1" not in page, "a test score is shown"
    assert "22.2" not in page, "a test score is shown"


def test_a_page_without_runs(reported):
    page = reported(lambda cell: None)
    assert "0 of 30 runs" in page
    assert "| base | - | - | - | - |" in page


def test_the_suite_covers_all_tables_one_factor_at_a_time():
    text = resources.files("mphil.lab").joinpath("suites", "recipe.toml").read_text()
    suite = parse_suite("recipe", text)
    assert set(suite.benchmarks) == set(TABLES)
    assert (suite.seeds, suite.against) == ((0, 1, 2), "base")
    rows = {row.name: row for row in suite.rows()}
    assert rows.pop("forest").method == "forest"
    flagship = rows.pop("mphil+")
    assert flagship.settings["method"] == {"pooled": True, "descriptors": True}
    with_flagship = rows | {"mphil+": flagship}
    assert all((row.method == "mphil+") == name.startswith("mphil+") for name, row in with_flagship.items())
    assert dict(rows.pop("base").settings) == {"method": {"descriptors": True}}
    settings = tomllib.loads(text)["settings"]
    for name, row in rows.items():
        for section in ("train", "encoder"):
            for key, value in row.settings.get(section, {}).items():
                assert settings[section].get(key) != value, name
        assert " + " not in name or name.rpartition(" + ")[0] in with_flagship
