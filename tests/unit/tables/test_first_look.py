"""What is refused before anything slow is imported."""

import subprocess
import sys

import pytest

from mphil.errors import DataError, UnknownName
from mphil.tables.roles import first_look
from tests.products import molecules, write_table

SMILES = molecules()


def table(path, labels, rows=60):
    return write_table(path / "a.csv", {"smiles": SMILES[:rows], "hit": [labels[i % len(labels)] for i in range(rows)]})


def test_a_table_that_can_be_learned_from(tmp_path):
    first_look(table(tmp_path, ["ja", "nein"]), targets=["hit"])


@pytest.mark.parametrize(
    ("labels", "rows", "told"),
    [
        (["ja", "nein"], 49, "a.csv: 49 rows, and 50 are needed"),
        (["ja"], 60, "all 60 labels of 'hit' are ja: nothing can be learned"),
        (["active", "Active", "n.d.", "active"], 60, "all 45 labels of 'hit' are active"),
        (["6.5"], 60, "all 60 labels of 'hit' are 6.5"),
    ],
)
def test_refusals(tmp_path, labels, rows, told):
    path = table(tmp_path, labels, rows)
    with pytest.raises(DataError, match=told):
        first_look(path, targets=["hit"])
    first_look(path, targets=["hit"], whole=False)


def test_a_threshold_may_divide_what_looks_alike(tmp_path):
    first_look(table(tmp_path, ["6.5"]), targets=["hit"], measured=True)


@pytest.mark.parametrize("told", [{"smiles": "mol"}, {"targets": ["hits"]}, {"id": "name"}])
def test_no_such_column(tmp_path, told):
    with pytest.raises(UnknownName, match=r"unknown column of a\.csv"):
        first_look(table(tmp_path, ["ja", "nein"]), **told)


def test_long_tables_are_judged_later(tmp_path, monkeypatch):
    monkeypatch.setattr("mphil.tables.roles.SAMPLE", 59)
    first_look(table(tmp_path, ["ja"]), targets=["hit"])


def test_a_table_of_long_rows_is_not_judged_by_its_first_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr("mphil.tables.read.CHARACTERS", 1_000)
    labels = ["ja"] * 40 + ["nein"] * 20
    path = write_table(tmp_path / "a.csv", {"smiles": SMILES[:60], "hit": labels, "note": ["x" * 100] * 60})
    first_look(path, targets=["hit"])


def test_torch_is_not_imported():
    said = "import sys, mphil.tables.roles, mphil.training.place; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", said], check=False).returncode == 0
