"""Folders of tables: what is finished is not done again, and one bad file does not stop the others."""

import json
import shutil

import pyarrow
import pytest
from pyarrow import parquet

from mphil.errors import UnknownName, UsageError
from mphil.model.bundle import read_bundle, write_bundle
from mphil.model.screening_folder import screen_folder
from tests.products import molecules, rows_of, write_table


@pytest.fixture
def tables(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        table = pyarrow.table({"smiles": molecules()[10 * number : 10 * number + 10], "n": list(range(10))})
        parquet.write_table(table, folder / f"{number}.parquet")
    write_table(folder / "more.csv", {"smiles": ["CCO", "C C"], "n": [1, 2]})
    (folder / "readme.txt").write_text("not a table")
    return folder


def screen(product, tables, out, **options):
    return list(screen_folder(product.path, tables, out, workers=0, **options))[-1]


def test_every_file_is_predicted_once(product, tables, tmp_path):
    out = tmp_path / "out"
    first = screen(product, tables, out)
    assert sorted(path.name for path in out.glob("[!.]*")) == ["0.parquet", "1.parquet", "2.parquet", "more.csv"]
    assert (len(first.done), first.before, first.failed) == (4, [], {})
    assert first.as_dict()["rows"] == 32
    assert parquet.read_table(out / "1.parquet").column("status").to_pylist() == ["ok"] * 10
    assert [row[-2] for row in rows_of(out / "more.csv")[1:]] == ["ok", "whitespace"]
    stamps = {path.name: path.stat().st_mtime_ns for path in out.glob("[!.]*")}
    again = screen(product, tables, out)
    assert (again.done, len(again.before)) == ([], 4)
    assert {path.name: path.stat().st_mtime_ns for path in out.glob("[!.]*")} == stamps


@pytest.mark.parametrize(
    "change",
    ["source", "marker", *(pytest.param(one, marks=pytest.mark.slow) for one in ("answers", "lost", "bundle"))],
)
def test_what_has_changed_is_done_again(product, tables, tmp_path, change):
    out, bundle = tmp_path / "out", shutil.copytree(product.path, tmp_path / "bundle")
    list(screen_folder(bundle, tables, out, workers=0))
    if change == "source":
        parquet.write_table(pyarrow.table({"smiles": ["CCO"]}), tables / "0.parquet")
    elif change == "answers":
        (out / "0.parquet").write_bytes(b"half")
    elif change == "marker":
        (out / ".done" / "0.parquet.json").write_text("{")
    elif change == "lost":
        (out / "0.parquet").unlink()
    else:
        old = read_bundle(bundle)
        write_bundle(bundle, type(old)(**{**vars(old), "metrics": {"other": 1}}))
    found = list(screen_folder(bundle, tables, out, workers=0))[-1]
    assert len(found.done) == (4 if change == "bundle" else 1)
    rows = 1 if change == "source" else 10
    assert parquet.read_table(out / "0.parquet").num_rows == rows


def test_a_bad_file_does_not_stop_the_others(product, tables, tmp_path):
    (tables / "1.parquet").write_bytes(b"PAR1 and nothing else")
    write_table(tables / "zero.csv", {"a": [1], "b": [2]})
    found = screen(product, tables, tmp_path / "out")
    assert len(found.done) == 3
    assert list(found.failed) == ["1.parquet", "zero.csv"]
    assert "not a readable parquet file" in found.failed["1.parquet"]
    assert not (tmp_path / "out" / "1.parquet").exists()
    parquet.write_table(pyarrow.table({"smiles": ["CCO"]}), tables / "1.parquet")
    again = screen(product, tables, tmp_path / "out")
    assert ([one["rows"] for one in again.done], list(again.failed)) == ([1], ["zero.csv"])


def test_what_a_killed_one_left_is_removed(product, tables, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / ".0.parquet.draft-123456789abc").write_bytes(b"half")
    screen(product, tables, out)
    assert not list(out.glob(".*draft*"))


def test_markers_are_plain_facts(product, tables, tmp_path):
    screen(product, tables, tmp_path / "out")
    marker = json.loads((tmp_path / "out" / ".done" / "0.parquet.json").read_text())
    assert marker.keys() == {"bundle", "source", "answers", "rows"}
    assert marker["bundle"] == read_bundle(product.path).digest


def test_mistakes(product, tables, tmp_path):
    with pytest.raises(UsageError, match="is the folder that is read"):
        screen(product, tables, tables)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no .parquet, .csv"):
        screen(product, tmp_path / "empty", tmp_path / "out")
    with pytest.raises(UnknownName, match="did you mean ray"):
        screen(product, tables, tmp_path / "out", engine="rya")
    with pytest.raises(UsageError, match="goes with --engine ray"):
        screen(product, tables, tmp_path / "out", address="127.0.0.1:1")
