"""Workbooks in and out: cells keep their meaning, sheets are named, faults are sentences."""

import datetime
import zipfile

import pytest
from openpyxl import Workbook, load_workbook

import mphil.tables.xlsx
from mphil.errors import DataError, UnknownName, UsageError
from mphil.tables.check import check
from mphil.tables.read import open_table
from mphil.tables.write import open_writer
from tests.command import call
from tests.products import molecules

SMILES = molecules()


def book(path, *sheets):
    made = Workbook()
    made.remove(made.active)
    for name, rows in sheets:
        sheet = made.create_sheet(name)
        for row in rows:
            sheet.append(row)
    made.save(path)
    return path


def rows_of(path):
    return [list(row) for row in load_workbook(path).active.iter_rows(values_only=True)]


def test_cells_as_text(tmp_path):
    rows = [
        ["smiles", "y", "day", "id", None],
        ["CCO", 1, datetime.datetime(2015, 6, 9), "00012"],
        [],
        ["CCN", 0.5, None, True],
    ]
    table = open_table(book(tmp_path / "a.xlsx", ("empty", []), ("Data", rows), ("Notes", [["hello"]])))
    assert (table.format, table.columns) == ("xlsx", ("smiles", "y", "day", "id"))
    assert table.notes == ("sheet 'Data' is read; the workbook also has 'empty', 'Notes' (--sheet)",)
    (chunk,) = table.chunks()
    assert {name: list(cells) for name, cells in chunk.columns.items()} == {
        "smiles": ["CCO", "CCN"],
        "y": ["1", "0.5"],
        "day": ["2015-06-09", ""],
        "id": ["00012", "true"],
    }
    assert (list(chunk.lines), chunk.problems) == ([2, 4], {})
    assert [len(part) for part in table.chunks(1)] == [1, 1]


def test_a_sheet_by_its_name(tmp_path):
    sheets = [("first", [["a"], [1]]), ("Data", [["smiles"], ["CCO"]]), ("none", [])]
    path = book(tmp_path / "a.xlsx", *sheets)
    table = open_table(path, sheet="Data")
    assert (table.columns, table.sheet) == (("smiles",), "Data")
    with pytest.raises(UnknownName, match=r"unknown sheet of a\.xlsx 'Dat'; did you mean Data"):
        open_table(path, sheet="Dat")
    with pytest.raises(DataError, match="sheet 'none' of the workbook is empty"):
        open_table(path, sheet="none")
    (tmp_path / "a.csv").write_text("smiles\nCCO\n")
    with pytest.raises(UsageError, match="no workbook and has no sheets"):
        open_table(tmp_path / "a.csv", sheet="Data")


def test_the_name_of_a_workbook_does_not_matter(tmp_path):
    path = book(tmp_path / "a.xlsx", ("Data", [["smiles"], ["CCO"]])).rename(tmp_path / "upload")
    assert open_table(path).format == "xlsx"


def test_check_reads_a_workbook(tmp_path):
    rows = [["smiles", "active"], *([one, "yes" if "N" in one else "no"] for one in SMILES)]
    report = check(book(tmp_path / "a.xlsx", ("Data", rows)), targets=["active"], splits=["random"])
    assert report.survey.targets[0].classes == ("no", "yes")
    assert len(report.survey) == len(SMILES)


@pytest.mark.parametrize("content", [b"PK\x03\x04 nonsense", None])
def test_what_is_no_workbook(tmp_path, content):
    path = tmp_path / "a.xlsx"
    if content:
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.txt", "x")
    with pytest.raises(DataError, match="not a readable Excel workbook"):
        open_table(path)


def test_empty_and_too_large(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="all sheets of the workbook are empty"):
        open_table(book(tmp_path / "a.xlsx", ("one", []), ("two", [])))
    monkeypatch.setattr(mphil.tables.xlsx, "MOST_BYTES", 100)
    with pytest.raises(DataError, match="bytes when unpacked, at most 100"):
        open_table(book(tmp_path / "b.xlsx", ("one", [["smiles"], ["CCO"]])))
    (tmp_path / "c.xls").write_bytes(b"\xd0\xcf\x11\xe0")
    with pytest.raises(DataError, match="an old spreadsheet or a zip archive"):
        open_table(tmp_path / "c.xls")


def test_numbers_and_formulas_on_the_way_out(tmp_path):
    path = tmp_path / "a.xlsx"
    with open_writer(path, ["id", "text"], None, ["p"], [True]) as writer:
        writer.write([["00012", "7.5"], ["=1+1", "a\x01"]], [[0.25, None]])
    assert rows_of(path) == [["id", "text", "p"], ["00012", "=1+1", 0.25], [7.5, "a\N{REPLACEMENT CHARACTER}", None]]
    assert load_workbook(path).active["B2"].data_type == "s", "text, and no formula"


def test_predict_answers_a_workbook_with_a_workbook(product, tmp_path):
    given = book(tmp_path / "new.xlsx", ("Data", [["code", "smiles"], ["m1", SMILES[0]], ["m2", "C C"]]))
    ended = call("predict", product.path, given)
    assert ended.code == 0, ended.err
    header, *rows = rows_of(tmp_path / "new-predictions.xlsx")
    assert header[:3] == ["code", "smiles", "prediction"]
    assert [row[0] for row in rows] == ["m1", "m2"]
    assert [row[header.index("status")] for row in rows] == ["ok", "whitespace"]
    assert isinstance(rows[0][header.index("probability")], float)
