"""The script that measures coverage under shift: its figures on a small benchmark, and its table."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from mphil.provenance import NUMERICS
from tests.bundles import trained

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "coverage.py"


@pytest.fixture(scope="module")
def script():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPT.parent))
        spec = importlib.util.spec_from_file_location("coverage_script", SCRIPT)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


def test_plain_and_weighted_sets_are_measured_on_both_tests(script):
    found = script.measure(trained("erm", graphs=200, epochs=1))
    assert found["held_out"] > 0
    for promise in ("0.9", "0.8"):
        for part in ("id_test", "ood_test"):
            plain, weighted = found[promise][part]["plain"], found[promise][part]["weighted"]
            assert plain["labels"] == weighted["labels"] > 0
            assert 0 <= weighted["covered"] <= 1
            assert 0 <= weighted["unsupported"] <= 1
            assert 1 <= weighted["effective_rows"] <= found["held_out"] + 1e-6


def test_the_table_has_means_over_seeds(script):
    def record(table: str, seed: int, share: float) -> dict:
        cell = {kind: {"covered": share, "size": 1.5} for kind in ("plain", "weighted")}
        parts = dict.fromkeys(("id_test", "ood_test"), cell)
        return {"table": table, "seed": seed, "numerics": NUMERICS, "coverage": {"0.9": parts, "0.8": parts}}

    lines = script.report([record("b", 0, 0.8), record("b", 1, 0.9), record("a", 0, 0.5)]).splitlines()
    assert len(lines) == 2 + 4 + 2
    assert lines[2].startswith("| a | 0.9 | 1 | 50.0 |")
    assert lines[4] == "| b | 0.9 | 2 | 85.0 | 85.0 | 85.0 | 85.0 | 1.50 | 1.50 |"
    assert lines[6] == "| mean of 2 tables | 0.9 | | 67.5 | 67.5 | 67.5 | 67.5 | 1.50 | 1.50 |"


def test_a_table_that_does_not_exist(script, capsys):
    with pytest.raises(SystemExit):
        script.main(["--tables", "dev-nothing"])
    assert "invalid choice" in capsys.readouterr().err
