"""The script that measures trust: resumable, repeatable, and its figures counted by hand."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

import mphil
from mphil.trust.ood import VERDICTS
from tests.toys import SMALL, small_benchmark

ROOT = Path(__file__).parents[3]
TINY = ["benchmark.graphs=200", "encoder.width=8", "train.epochs=1", "train.batch_size=50"]


@pytest.fixture(scope="module")
def script():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        yield importlib.import_module("trust")


@pytest.fixture(scope="module")
def tables(script):
    return importlib.import_module("trust_tables")


@pytest.fixture(scope="module")
def asked(script, tmp_path_factory):
    """The arguments of a tiny sweep that has been carried out once."""
    home = tmp_path_factory.mktemp("trust")
    changes = [word for text in TINY for word in ("--set", text)]
    where = ["--out", str(home / "trust.jsonl"), "--runs", str(home / "runs")]
    arguments = ["--benchmarks", "decoy-scaffold", "--seeds", "0", *changes, *where]
    script.main(arguments)
    return arguments


@pytest.fixture
def path(asked):
    return Path(asked[asked.index("--out") + 1])


def test_a_record_for_each_method(script, path):
    first, second = script.recorded(path)
    assert (first["method"], second["method"]) == ("erm", "mphil")
    assert second["distance"].keys() - first["distance"].keys() == {"prototypes"}
    assert first["distance"].keys() == {"max probability", "energy", "knn", "mahalanobis", "tanimoto"}
    assert first["distance"]["tanimoto"] == second["distance"]["tanimoto"]
    for record in (first, second):
        assert record["selection"] == "ood_val"
        assert record["budget"] == {"epochs": 10, "fraction": 1.0, "eval_fraction": 1.0}
        assert "--benchmarks decoy-scaffold" in record["command"]
        assert record["machine"]["cores"] > 0
        assert record["config"]["train"]["epochs"] == 1
        assert record["selections"]["ood_val"]["epoch"] == record["epoch"]
        labels = record["conformal"]["split"]["id_test"]["labels"]
        assert sum(record["calibration"]["none"]["id_test"]["reliability"]["count"]) == labels == 20


def test_what_is_recorded_is_not_done_again(script, asked, path, monkeypatch):
    before = path.read_bytes()
    monkeypatch.setattr(script.Cell, "train", lambda *_: pytest.fail("this is recorded"))
    script.main(asked)
    assert path.read_bytes() == before


def test_a_record_that_was_lost_comes_back_the_same(script, asked, path):
    before = script.recorded(path)
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second[: len(second) // 2])
    script.main(asked)
    after = script.recorded(path)
    assert len(after) == 2
    for key in ("distance", "calibration", "conformal", "fingerprint", "command"):
        assert after[1][key] == before[1][key]


def test_distances_counted_pair_by_pair(script):
    generator = np.random.default_rng(0)
    by_part = {"id_val": generator.normal(size=300), "id_test": generator.normal(size=7), "ood_test": np.arange(5.0)}
    found = script.distances({"some": by_part})["some"]
    wins = [float(out > inside) for out in by_part["ood_test"] for inside in by_part["id_test"]]
    assert found["auroc"] == pytest.approx(sum(wins) / len(wins))
    ordered = np.sort(by_part["id_val"])
    out = sum(value > ordered[297] for value in by_part["ood_test"]) / 5  # place 301 - floor(3.01) = 298
    assert found["verdicts"]["ood_test"]["out of domain"] == pytest.approx(out)
    assert all(sum(found["verdicts"][part][word] for word in VERDICTS) == pytest.approx(1) for part in script.TESTS)


@pytest.mark.parametrize("kind", ["multiclass", "multitask"])
def test_other_tasks_with_missing_labels(script, kind):
    run = mphil.train(small_benchmark(kind, missing=0.2, graphs=200), "mphil", **SMALL)
    found = script.measure(run)
    json.dumps(found, allow_nan=False)
    assert "tanimoto" not in found["distance"]
    for part in script.TESTS:
        y = run.benchmark.store.y[run.benchmark.split[part]]
        known = int((~y.isnan()).sum())
        assert 0 < known < y.numel()
        assert found["conformal"]["class-conditional"][part]["labels"] == known
        own = found["calibration"]["none"][part]
        predicted = script.predict_logits(run.method, script._batches(run, part))
        right = predicted.argmax(1, keepdim=True) == y if kind == "multiclass" else (predicted > 0).float() == y
        assert own["accuracy"] == pytest.approx(float(right.sum()) / known)


def test_the_document_shows_what_the_records_say(script, tables):
    text = (ROOT / "docs" / "explanation" / "trust.md").read_text()
    expected = tables.written(text, script.present(script.recorded(script.RESULTS)))
    assert text == expected, "run `python benchmarks/trust.py --write docs/explanation/trust.md`"


def test_tables_of_records(script, tables, path):
    records = [record | {"changes": []} for record in script.recorded(path)]
    again = [record | {"seed": 1} for record in records]
    again[0] = json.loads(json.dumps(again[0]))
    again[0]["distance"]["knn"]["auroc"] = records[0]["distance"]["knn"]["auroc"] + 0.2
    text = tables.tables(records + again)
    middle = 100 * records[0]["distance"]["knn"]["auroc"] + 10
    assert f"| {middle:.1f} (14.1) |" in text
    assert "decoy-scaffold, mphil [0, 1]: 10 epochs" in text
    assert tables.tables(script.recorded(path)) == tables.NOTHING  # changed settings are no result of the benchmark
    document = f"before\n{tables.BEGIN}old{tables.END}\nafter\n"
    once = tables.written(document, records)
    assert once.startswith("before\n")
    assert once.endswith("\nafter\n")
    assert tables.written(once, records) == once


def test_the_tables_are_written_into_a_document(script, tables, asked, path, tmp_path):
    document = tmp_path / "page.md"
    document.write_text(f"{tables.BEGIN}old{tables.END}\n")
    script.main([*asked, "--write", str(document)])
    assert document.read_text() == f"{tables.BEGIN}{tables.NOTHING}{tables.END}\n"
