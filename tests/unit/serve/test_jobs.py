"""Files in the background: their names, limits, ends."""

import gzip
import time
from pathlib import Path

import openpyxl
import pytest

from mphil.errors import DataError
from mphil.serve import jobs as module
from mphil.serve.jobs import Job, Jobs, check_unpacked, shown_name, suffix_of
from mphil.serve.requests import Refusal
from mphil.tables.pool import WorkerPool
from tests.served import predictor

TABLE = "smiles,id\nCCO,a\nC C,b\nc1ccccc1,c\n"


@pytest.fixture(scope="module")
def model():
    return predictor()


@pytest.fixture
def pool():
    with WorkerPool(0) as pool:
        yield pool


def job(folder, text=TABLE, name="table.csv", column=None):
    found = Job(folder, name, column)
    found.source.write_bytes(text if isinstance(text, bytes) else text.encode())
    return found


def test_a_file_ends_with_an_answer_for_every_row(tmp_path, model, pool):
    found = job(tmp_path)
    found.run(model, pool)

    assert (found.state, found.error, found.done) == ("done", "", 3)
    assert found.summary.answered == 2
    assert [(row.name, row.cells["status"]) for row in found.results.page(1)] == [
        ("a", "ok"),
        ("b", "whitespace"),
        ("c", "ok"),
    ]
    assert not found.source.exists(), "what was sent is not kept"


def test_rows_keep_the_lines_of_the_file(tmp_path, model, pool):
    found = job(tmp_path, 'note,smiles,id\n"two\nlines",CCO,a\n\nx,y\nz,C,b\n')
    found.run(model, pool)
    rows = [(row.row, row.line, row.name, row.cells["status"]) for row in found.results.page(1)]
    assert rows == [(1, 2, "a", "ok"), (2, 5, "", "ragged"), (3, 6, "b", "ok")]


@pytest.mark.parametrize(
    ("text", "error"),
    [("", "assay.csv: the file is empty"), (b"\0\1\2" * 99, "assay.csv: holds binary data"), ("a,b\n1,2\n", "column")],
    ids=["empty", "binary", "no molecules"],
)
def test_a_file_that_cannot_be_read_fails_with_its_own_name(tmp_path, model, pool, text, error):
    found = job(tmp_path, text, "C:\\fakepath\\assay.csv")
    found.run(model, pool)
    assert found.state == "failed"
    assert error in found.error
    assert str(tmp_path) not in found.error
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_column_is_refused_with_a_suggestion(tmp_path, model, pool):
    found = job(tmp_path, column="smile")
    found.run(model, pool)
    assert "did you mean smiles?" in found.error


@pytest.mark.parametrize("known", [True, False], ids=["counted before", "counted on the way"])
def test_too_many_rows(tmp_path, model, pool, monkeypatch, known):
    monkeypatch.setattr(module, "MAX_UPLOAD_ROWS", 2)
    found = job(tmp_path, TABLE if known else TABLE.replace("\n", "\r"))
    found.run(model, pool)
    assert found.state == "failed"
    assert "rows" in found.error
    assert "`mphil predict BUNDLE FILE` takes files of any size" in found.error
    assert (found.done > 0) != known
    assert list(tmp_path.iterdir()) == []


def test_a_small_file_that_unpacks_to_much_is_refused_early(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_UNPACKED_BYTES", 1 << 20)
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"smiles\n" + b"C\n" * (1 << 20)))
    assert path.stat().st_size < 10_000
    with pytest.raises(DataError, match="unpacks to more than 1,048,576 bytes"):
        check_unpacked(path)
    path.write_bytes(gzip.compress(b"smiles\nC\n"))
    check_unpacked(path)


def test_a_packed_parquet_file_is_looked_at_too(tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "table.parquet"
    parquet.write_table(pyarrow.table({"smiles": [f"{'C' * 99}{i}" for i in range(999)]}), path)
    check_unpacked(path)
    monkeypatch.setattr(module, "MAX_UNPACKED_BYTES", 1_000)
    with pytest.raises(DataError, match="unpacks to more than"):
        check_unpacked(path)


def workbook(path):
    book = openpyxl.Workbook()
    for line in TABLE.splitlines():
        book.active.append(line.split(","))
    book.save(path)
    return path.read_bytes()


def test_a_workbook_is_answered_like_its_table(tmp_path, model, pool):
    found = job(tmp_path, workbook(tmp_path / "made.xlsx"), "assay.XLSX")
    found.run(model, pool)
    assert (found.state, found.error) == ("done", "")
    assert [(row.name, row.cells["status"]) for row in found.results.page(1)] == [
        ("a", "ok"),
        ("b", "whitespace"),
        ("c", "ok"),
    ]


def test_a_workbook_that_unpacks_to_much_is_refused(tmp_path, model, pool, monkeypatch):
    monkeypatch.setattr(module, "MAX_UNPACKED_BYTES", 1_000)
    content = workbook(tmp_path / "made.xlsx")
    for text, error in (
        (content, "assay.xlsx: it unpacks to more than"),
        (content[:900], "assay.xlsx: not a readable"),
    ):
        found = job(tmp_path, text, "assay.xlsx")
        found.run(model, pool)
        assert found.state == "failed"
        assert found.error.startswith(error)


def test_a_stopped_file_leaves_nothing(tmp_path, model, pool):
    found = job(tmp_path)
    found.stop()
    found.run(model, pool)
    assert (found.state, found.done) == ("failed", 0)
    assert list(tmp_path.iterdir()) == []


def finished(jobs, name="table.csv"):
    found = jobs.add(name, None)
    found.source.write_text(TABLE)
    jobs.start(found)
    deadline = time.monotonic() + 60
    while not found.finished:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return found


def test_the_oldest_finished_file_makes_room_and_unfinished_ones_do_not(model, monkeypatch):
    monkeypatch.setattr(module, "MAX_JOBS", 2)
    with Jobs(model, workers=1) as jobs:
        first = finished(jobs)
        waiting = jobs.add("b.csv", None)
        third = jobs.add("c.csv", None)
        assert list(jobs) == [waiting, third]
        assert not first.answers.exists()
        with pytest.raises(Refusal, match="no such job"):
            jobs[first.id]
        with pytest.raises(Refusal, match="2 files are being predicted already"):
            jobs.add("d.csv", None)
        folder = waiting.source.parent
    assert not folder.exists()


def test_ids_cannot_be_guessed_and_names_do_not_reach_the_disk(tmp_path):
    ids = {Job(tmp_path, "../../x.sdf", None).id for _ in range(20)}
    assert len(ids) == 20
    assert min(map(len, ids)) >= 20
    found = Job(tmp_path, "../../../etc/passwd\0.sdf.gz", None)
    assert found.source.parent == tmp_path
    assert found.source.name == f"{found.id}.sdf.gz"


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("a.CSV", ".csv"), ("a.tsv.gz", ".tsv.gz"), ("a.sdf", ".sdf"), ("a.smi", ".smi"), ("a.parquet", ".parquet"),
     ("a.xlsx", ".xlsx"), ("a.txt", ".csv"), ("", ".csv"), ("a.csv/../b", ".csv"), ("a.sh", ".csv"),
     (".gz", ".csv.gz")],
)  # fmt: skip
def test_suffixes(name, suffix):
    assert suffix_of(name) == suffix
    assert Path(f"x{suffix_of(name)}").name == f"x{suffix}"


def test_shown_names_are_plain():
    assert shown_name("C:\\data\\assay 1.csv") == "assay 1.csv"
    assert shown_name("a\n\x1b[31mb\u202e.csv") == "a[31mb.csv"
    assert shown_name("../..") == ".."
    assert shown_name("\0") == "molecules"
    assert len(shown_name("x" * 999)) == 120
