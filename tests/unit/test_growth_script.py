"""The script that measures growth: what it gives the commands, and its exponents by hand."""

from __future__ import annotations

import importlib.util
import json
import shlex
import sys
from itertools import islice
from pathlib import Path

import pytest
from rdkit import Chem

from mphil.lab.records import parse, read_folder
from mphil.lab.report.make import write_report

FOLDER = Path(__file__).parents[2] / "benchmarks"
STEMS = ["CCO", "c1ccccc1", "CC(=O)N", "COC"]


@pytest.fixture(scope="module")
def script():
    sys.path.append(str(FOLDER))  # its neighbours
    spec = importlib.util.spec_from_file_location("growth", FOLDER / "growth.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(FOLDER))


def test_tails_fit_the_stems_that_are_taken(script):
    assert all(map(script.OPEN_END.search, STEMS))
    assert not any(map(script.OPEN_END.search, ["CC=O", "CC#N", "CCl", "C[N+]", "c1ccc2c(c1)cccc2C(=O)"]))
    made = [stem + tail for stem in STEMS for tail in script.TAILS]
    assert all(Chem.MolFromSmiles(text) is not None for text in made)
    assert len(set(script.TAILS)) == len(script.TAILS)


def test_a_table_has_different_molecules_and_a_few_that_contradict(script, monkeypatch):
    monkeypatch.setattr(script, "REPEATED", 0.2)
    monkeypatch.setattr(script, "UNREADABLE", 0.1)
    header, *rows = script.table(STEMS, 60)
    assert (header, len(rows)) == (["id", "smiles", "assay", "active"], 60)
    assert rows == list(script.table(STEMS, 60))[1:]
    assert len({row[0] for row in rows}) == 60
    broken = [row for row in rows if row[1] == "C("]
    labels: dict[str, list[str]] = {}
    for _, smiles, _, active in rows:
        labels.setdefault(smiles, []).append(active)
    del labels["C("]
    several = [found for found in labels.values() if len(found) > 1]
    assert 0 < len(broken) < 20
    assert several
    assert all(len(set(found)) == 2 for found in several)


def test_records_that_are_made_up_are_reported_on(script, tmp_path):
    script.write_records(tmp_path / "records", 7)
    found, problems = read_folder(tmp_path / "records")
    assert (len(found), problems) == (7, [])
    written = write_report([], tmp_path / "records", tmp_path / "report")
    assert (written.records, list(written.problems)) == (7, [])


def test_a_cell_of_two_suites_has_one_record(script):
    model = parse(script.MODEL_RECORDS.read_bytes().splitlines()[0])
    some = list(islice(script.cells(), 3))
    made = list(script.records(model, [*some, *some]))
    assert [record["cell"] for record in made] == [cell.id for cell in some]
    assert made[0]["last"]["scores"] != made[1]["last"]["scores"]


def test_exponents_by_hand(script):
    assert script.beyond_start([1, 10, 100], [5 + 2 * n for n in (1, 10, 100)]) == 1.0
    assert script.beyond_start([1, 10, 100], [5 + 2 * n * n for n in (1, 10, 100)]) == 2.0
    assert script.beyond_start([1, 10, 100], [5.0, 4.0, 9.0]) is None
    amounts = {10_000: (10, 300), 100_000: (100, 300), 1_000_000: (1000, 600)}
    records = {
        ("check", size): {"size": size, "cpu_seconds": cpu, "seconds": 1.5, "megabytes": memory, "load": 1}
        for size, (cpu, memory) in amounts.items()
    }
    rows = list(script.lines(records))
    assert rows[0] == ["check", "10,000", "10", "1.5", "300", "", "", "", "", "1"]
    assert rows[1][5:9] == ["1.00", "", "0.00", ""]
    assert rows[2][5:9] == ["1.00", "1.00", "0.30", ""]
    assert all(len(row) == len(script.HEADER) for row in rows)


def test_what_is_recorded_is_not_measured_again(script, tmp_path, monkeypatch, capsys):
    figures = {"cpu_seconds": 1.0, "seconds": 1.0, "megabytes": 1}
    asked: list[str] = []
    monkeypatch.setattr(script, "check_committed", lambda: None)
    monkeypatch.setattr(script, "prepare_case", lambda what, size, folder: asked.append(f"{what} {size}"))
    monkeypatch.setattr(script, "measure", lambda command, folder: figures)
    out = tmp_path / "growth.jsonl"
    script.main(["--only", "check", "predict", "--most", "10000", "--out", str(out)])
    script.main(["--only", "check", "--out", str(out)])
    script.main(["--report", "--out", str(out)])
    assert asked == ["check 10000", "predict 10000", "check 100000"]
    (record, *_) = map(json.loads, out.read_text().splitlines())
    assert (record["times"], record["runs"]) == (1, script.COMMANDS["check"])
    assert shlex.split(record["command"])[-3:] == ["check", "--most", "10000"]
    assert record.keys() >= {"machine", "versions", "commit", "dirty", "load"}
    assert "check | 100,000" in capsys.readouterr().out


def test_a_command_is_measured_with_its_children(script, tmp_path, monkeypatch):
    (tmp_path / "busy.py").write_text(
        "import subprocess, sys, time\n"
        "held = b'x' * 60_000_000\n"
        "subprocess.run([sys.executable, '-c', 'sum(range(3_000_000))'], check=True)\n"
        "time.sleep(0.3)\n"
    )
    found = script.measure("busy", tmp_path)
    assert found["cpu_seconds"] > 0
    assert found["seconds"] >= 0.3
    assert found["megabytes"] >= 60
    (tmp_path / "busy.py").write_text("raise SystemExit('no such luck')")
    with pytest.raises(SystemExit, match="no such luck"):
        script.measure("busy", tmp_path)
