"""The script that measures the default of the tool: a table as a file, what is missing, and the report."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

import mphil
from mphil.benchmarks.development import build
from mphil.lab.records import RecordFile
from mphil.model.product import prepare, train_product
from mphil.provenance import NUMERICS
from mphil.task import Task

BENCHMARKS = Path(__file__).parents[4] / "benchmarks"


@pytest.fixture(scope="module")
def script():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module("product")


def record(table, seed, committee, forest):
    scores = {"random forest": forest, "committee": committee}
    parts = {name: {"id_test": score, "ood_test": score} for name, score in scores.items()}
    return {"table": table, "seed": seed, "numerics": NUMERICS, "scores": parts}


def test_a_table_is_read_back_with_its_parts_and_labels(script, tmp_path):
    data = mphil.benchmark("decoy-scaffold", graphs=200)
    path = tmp_path / "table.csv"
    script.write_table(data, path)
    given = {"path": str(path), "smiles": "smiles", "targets": ["label_0"], "split": "predefined"}
    own = prepare({"benchmark": given | {"standardise": False, "duplicates": "keep"}}).data
    for part, graphs in data.split:
        expected = sorted(data.store.smiles[i] for i in graphs.tolist())
        assert sorted(own.store.smiles[i] for i in own.split[part].tolist()) == expected
    label = dict(zip(data.store.smiles, data.store.y[:, 0].tolist(), strict=True))
    assert [label[one] for one in own.store.smiles] == own.store.y[:, 0].tolist()


def test_the_report_has_means_and_ranks_over_seeds_and_tables(script):
    records = [record("a", 0, 0.8, 0.7), record("a", 1, 0.9, 0.8), record("b", 0, 0.6, None), record("c", 0, 0.7, 0.7)]
    lines = script.report(records).splitlines()
    assert lines[0] == "| table | seeds | part | committee | random forest |"
    assert lines[2] == "| a | 2 | id_test | 85.0 | 75.0 |"
    assert lines[4] == "| b | 1 | id_test | - | - |", "a part that not all can be scored on ranks nobody"
    assert lines[-2:] == ["| mean of 2 tables | | ood_test | 77.5 | 72.5 |", "| mean rank | | ood_test | 1.2 | 1.8 |"]


def test_calibration_error_beside_that_of_true_probabilities(script):
    found = {"count": [80.0, 0.0, 20.0], "predicted": [0.1, None, 0.9], "observed": [0.2, None, 0.9]}
    other = {"count": [80.0, 0.0, 20.0], "predicted": [0.1, None, 0.9], "observed": [0.0, None, 0.9]}
    tables = {"a": found, "b": other}
    records = [
        {"table": name, "trust": {"id_test": {"reliability": one}, "ood_test": None}} for name, one in tables.items()
    ]
    records[0]["trust"]["ood_test"] = {"reliability": found}
    id_test, ood_test = script.calibration(records).splitlines()[2:]
    cells = [cell.strip() for cell in id_test.strip("|").split("|")]
    assert cells[:5] == ["temperature", "id_test", "2", "200", "0.080"]
    assert cells[8] == "0.000", "errors of two tables that are opposite are none of all rows"
    squares = [0.8 * (0.01 - spread / 79) - 0.2 * 0.09 / 19 for spread in (0.16, 0.0)]
    assert cells[6] == f"{sum(square**0.5 for square in squares) / 2:.3f}", "squares less variances, table by table"
    assert cells[7] == f"{(sum(squares) / 2) ** 0.5:.3f}"
    assert 0.02 < float(cells[5]) < 0.05, "0.8 * (2 / pi * 0.09 / 80) ** 0.5 = 0.021, and the second bin"
    assert ood_test.endswith("| 0.080 |")
    both = script.calibration([*records, records[0] | {"calibration": "platt"}]).splitlines()
    assert [line.split(" | ")[:3] for line in both[2:]] == [
        ["| temperature", "id_test", "2"],
        ["| temperature", "ood_test", "1"],
        ["| platt", "id_test", "1"],
        ["| platt", "ood_test", "1"],
    ]


def test_tables_that_share_rows_are_shown_and_count_nothing(script):
    lines = script.report([record("a", 0, 0.8, 0.7), record("dev-hiv-size", 0, 0.1, 0.9)]).splitlines()
    assert "| dev-hiv-size \\* | 1 | id_test | 10.0 | 90.0 |" in lines
    assert "| mean of 1 tables | | id_test | 80.0 | 70.0 |" in lines


@pytest.mark.slow
def test_which_tables_share_rows(script, shared_data):
    def tested(table):
        data = build(table)
        return {data.store.smiles[graph] for part in script.TESTS for graph in data.split[part].tolist()}

    def same_labels(one, other):
        return one.source == other.source and bool(set(one.labels) & set(other.labels) or one.labels == other.labels)

    seen = [(spec, tested(spec)) for spec in script.CHOSEN_ON.values()]
    found = {
        name
        for name, table in script.ALL.items()
        if any(same_labels(spec, table) and rows & tested(table) for spec, rows in seen)
    }
    assert found == script.SHARED


def test_a_rival_is_shown_when_it_has_run_everywhere(script):
    records = [record("a", 0, 0.8, 0.7), record("b", 0, 0.8, 0.7)]
    rivals = [{"table": name, "seed": 0, "scores": {"chemprop": {"id_test": 0.9, "ood_test": 0.9}}} for name in "ab"]
    assert "chemprop" not in script.report(records, rivals[:1])
    assert script.report(records, rivals).splitlines()[2] == "| a | 1 | id_test | 80.0 | 70.0 | 90.0 |"


def test_second_networks_share_a_column(script):
    scores = {name: {"id_test": 0.5, "ood_test": 0.5} for name in ("committee", "erm", "erm, seed 3")}
    assert list(script._by_kind(scores)) == ["committee", "erm", "erm, second"]


def test_what_is_recorded_is_not_run_again(script, tmp_path):
    out = tmp_path / "product.jsonl"
    parser = script.per_table.parser(None, "product", ["a", "b"])
    RecordFile(out).append(record("a", 0, 0.8, 0.7), once=False)
    RecordFile(out).append(record("b", 0, 0.8, 0.7) | {"numerics": NUMERICS - 1}, once=False)
    options = parser.parse_args(["--seeds", "0", "--out", str(out)])
    assert list(script.missing(options)) == [{"table": "b", "seed": 0}]


def test_records_of_other_defaults_are_not_shown(script, tmp_path, monkeypatch):
    out = tmp_path / "product.jsonl"
    RecordFile(out).append(record("a", 0, 0.8, 0.7) | {"recipe": script.recipe()}, once=False)
    assert [one["table"] for one in script.present(out)] == ["a"]
    monkeypatch.setattr(script, "MEMBERS", script.MEMBERS + 1)
    assert script.present(out) == []


def test_what_networks_should_weigh_is_asked_on_validation_parts(script, tmp_path):
    committee = importlib.import_module("committee")
    data = mphil.benchmark("decoy-scaffold", graphs=200)
    script.write_table(data, tmp_path / "a.csv")
    given = script.given_table("a", tmp_path)
    folder = tmp_path / script.recipe() / "a-s0"
    settings = {"benchmark": given, "train": {"epochs": 1}, "encoder": {"layers": 1, "width": 8}, "seed": 0}
    train_product(prepare(settings), folder, members=1)
    found = committee.measure("a", 0, tmp_path)
    assert list(found) == ["id_val", "ood_val"]
    assert found["ood_val"]["0.0"] != found["ood_val"]["1.0"]
    record = {"scores": {part: dict.fromkeys(map(str, committee.SHARES), 0.5) for part in committee.PARTS}}
    record["scores"]["ood_val"]["0.3"] = None
    other = {"scores": {part: dict.fromkeys(map(str, committee.SHARES), 0.7) for part in committee.PARTS}}
    assert "| 0.3 | 60.00 | 70.00 | 65.00 |" in committee.report([record, other])


def bent(rng, n, slope, offset, domains):
    """Logits, labels whose true logits are `slope` and `offset` away, and domains."""
    calibration = importlib.import_module("calibration")
    logits = rng.normal(0, 2, (n, 1))
    y = (rng.random((n, 1)) < 1 / (1 + np.exp(-slope * logits - offset))).astype(float)
    y[::9] = np.nan
    return calibration.Rows(logits, y, np.arange(n) % domains)


def test_calibrations_are_compared_on_folds_that_they_have_not_seen(script):
    calibration = importlib.import_module("calibration")
    rng = np.random.default_rng(0)
    rows = {"id_val": bent(rng, 300, 0.5, 0.0, 1), "ood_val": bent(rng, 300, 0.5, -1.0, 40)}
    found = calibration.compare(rows, Task("binary", 1, "roc_auc"), ordered=False)
    assert list(found) == ["2", "5"]
    loss = {name: {part: one["log_loss"] for part, one in parts.items()} for name, parts in found["5"].items()}
    assert loss["temperature, prior 0.8, id_val"]["id_val"] < loss["none"]["id_val"] - 0.02
    assert loss["platt, prior 0.8, id_val + ood_val"]["ood_val"] < loss["platt, prior 0.8, id_val"]["ood_val"] - 0.02
    assert loss["temperature, prior 0.1, id_val"]["id_val"] > loss["temperature, prior 0.8, id_val"]["id_val"]
    assert loss["temperature, no prior, id_val"]["id_val"] == pytest.approx(
        loss[calibration.FORMER]["id_val"], abs=0.01
    )
    tests = {"id_test": bent(rng, 300, 0.5, 0.0, 1), "ood_test": bent(rng, 300, 0.5, -1.0, 40)}
    record = {"table": "a", "scores": found, "tested": calibration.tested(rows | tests, Task("binary", 1, "roc_auc"))}
    assert f"| none | {loss['none']['id_val']:.4f} | " in calibration.report([record])
    measured = {how: parts["ood_test"]["log_loss"] for how, parts in record["tested"].items()}
    assert measured["platt"] < measured["temperature"], "the offset of ood_val is known to it"
    assert "| platt | ood_test | 1 | 266 | " in calibration.tested_report([record])


def test_folds_keep_domains_whole_and_sizes_in_order(script):
    calibration = importlib.import_module("calibration")
    domain = np.repeat(np.arange(12), [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8])
    drawn = calibration.folds(domain, 2, False, np.random.default_rng(0))
    assert {len(set(drawn[domain == one])) for one in range(12)} == {1}
    assert sorted(set(drawn.tolist())) == [0, 1]
    ordered = calibration.folds(domain, 5, True, np.random.default_rng(0))
    assert (np.diff(ordered) >= 0).all()
    assert np.bincount(calibration.folds(np.full(50, -1), 5, False, np.random.default_rng(0))).tolist() == [10] * 5
    logits = np.linspace(-3, 3, 40)
    for shape, prior in (("temperature", None), ("platt", 0.2), ("beta", 0.4)):
        said = calibration.fitted(logits, (logits < 0).astype(float), shape, prior)(logits)
        assert (np.diff(said) >= 0).all(), "labels that are all wrong turn no ranking round"
