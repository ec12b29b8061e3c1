"""The script that measures explanations, at a size that takes a second."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "faithfulness.py"
TINY = ["--graphs", "220", "--epochs", "1", "--measured", "4", "--width", "8", "--seeds", "3"]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("faithfulness", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def measured(script, tmp_path, monkeypatch):
    """Runs the script and gives its records."""

    def run(*arguments: str) -> list[dict]:
        out = tmp_path / "records.jsonl"
        places = ["--out", str(out), "--runs", str(tmp_path / "runs")]
        monkeypatch.setattr("sys.argv", ["faithfulness.py", *TINY, *arguments, *places])
        script.main()
        return [json.loads(line) for line in out.read_text().splitlines() if line.startswith("{") and "}" in line]

    return run


def test_a_record_says_everything(measured):
    (record,) = measured("--methods", "mphil", "--benchmarks", "decoy-scaffold")
    assert (record["benchmark"], record["method"], record["seed"]) == ("decoy-scaffold", "mphil", 3)
    assert (record["selection"], record["epoch"]) == ("ood_val", 1)
    assert record["scores"].keys() >= {"id_test", "ood_test"}
    for part in ("id_test", "ood_test"):
        found = record["faithfulness"][part]
        assert list(found) == ["own", "contribution", "gradient", "random"]
        for values in found.values():
            assert values["graphs"] == values["auc_graphs"] == 4
            assert 0 <= values["auc"] <= 1
            for name in ("fidelity_plus", "fidelity_minus"):
                assert list(map(float, values[name])) == record["sparsities"]
                assert all(-1 <= value <= 1 for value in values[name].values())
    assert record["command"].startswith("python benchmarks/faithfulness.py --graphs 220")
    assert record["machine"]["threads"] == 1
    assert record["versions"]["mphil"]


def test_what_is_recorded_is_not_measured_again(measured, tmp_path):
    first = measured("--methods", "erm", "--benchmarks", "good-motif-basis")
    with (tmp_path / "records.jsonl").open("a") as file:
        file.write('{"torn": ')
    both = measured("--methods", "erm", "gil", "--benchmarks", "good-motif-basis")
    assert both[0] == first[0]
    assert [record["method"] for record in both] == ["erm", "gil"]
    assert both[1]["refused"]["gradient"].startswith("gil embeds parts")
    assert list(both[1]["faithfulness"]["id_test"]) == ["own", "random"]
    lines = (tmp_path / "records.jsonl").read_text().splitlines()
    assert lines[1] == '{"torn": '


def test_a_training_that_is_there_is_measured_as_before(script, tmp_path):
    job = {"benchmark": "good-motif-basis", "method": "erm", "seed": 0, "encoder": {"width": 8}}
    job |= {"graphs": 220, "epochs": 1, "measured": 4}
    one, other = (script.run(job, tmp_path / "run")["faithfulness"] for _ in range(2))
    assert one == other
