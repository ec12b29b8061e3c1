"""Workbooks in and out: cells keep their meaning, sheets are named, faults are sentences."""

import datetime
import io
import zipfile

import pytest
from openpyxl import Workbook, load_workbook

import mphil.tables.binary_files
from mphil.errors import DataError, UnknownName, UsageError
from mphil.tables.inspection import check
from mphil.tables.read import open_table
from mphil.tables.write import open_writer
from tests.command import call
from tests.products import molecules

SMILES = molecules()
STRINGS = b'<Override PartName="/xl/sharedStrings.xml" ContentType="application/vnd.openxmlformats-officedocument.'
STRINGS += b'spreadsheetml.sharedStrings+xml"/>'


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
    assert (list(chunk.lines), chunk.issues) == ([2, 4], {})
    assert [len(part) for part in table.chunks(1)] == [1, 1]


def test_a_cover_sheet_is_left_out(tmp_path):
    cover = ("Info", [["Project X"], ["Contact", "someone"]])
    path = book(tmp_path / "a.xlsx", cover, ("Assay", [["ID", "Structure"], ["a", "CCO"]]))
    table = open_table(path)
    assert (table.sheet, table.columns) == ("Assay", ("ID", "Structure"))
    assert table.notes == ("sheet 'Assay' is read; the workbook also has 'Info' (--sheet)",)
    assert open_table(path, sheet="Info").sheet == "Info"
    assert open_table(book(tmp_path / "b.xlsx", cover, ("x", [["y"]]))).sheet == "Info", "no sheet has molecules"


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
    monkeypatch.setattr(mphil.tables.binary_files, "MOST_BYTES", 100)
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


class TestBombs:
    """A few kilobytes that would take memory or time without end."""

    def part(self, path, name, content):
        book, buffer = Workbook(), io.BytesIO()
        book.active.append(["smiles", "active"])
        book.save(buffer)
        whole = zipfile.ZipFile(buffer)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for one in whole.namelist():
                if one != name:
                    archive.writestr(one, whole.read(one).replace(b"</Types>", STRINGS + b"</Types>"))
            for one in {"xl/sharedStrings.xml", name}:
                archive.writestr(one, content if one == name else b"<sst/>")
        return path

    def sheet(self, path, rows, dimension=b""):
        name = b"http://schemas.openxmlformats.org/spreadsheetml/2006/main"
        content = b'<worksheet xmlns="%s">%s<sheetData>%s</sheetData></worksheet>' % (name, dimension, rows)
        return self.part(path, "xl/worksheets/sheet1.xml", content)

    @pytest.mark.parametrize(
        "name", ["xl/sharedStrings.xml", "xl/styles.xml", "xl/theme/theme1.xml", "xl/workbook.xml"]
    )
    def test_parts(self, tmp_path, monkeypatch, name):
        monkeypatch.setattr(mphil.tables.binary_files, "MOST_STRING_BYTES", 60_000)
        monkeypatch.setattr(mphil.tables.binary_files, "MOST_PART_BYTES", 50_000)
        with pytest.raises(DataError, match=rf"x\.xlsx: its part '{name}' has 70,000 bytes"):
            open_table(self.part(tmp_path / "x.xlsx", name, b" " * 70_000))

    def test_a_row_without_end(self, tmp_path, monkeypatch):
        monkeypatch.setattr(mphil.tables.binary_files, "LONGEST_ROW", 1_000)
        path = self.sheet(tmp_path / "x.xlsx", b'<row r="1">' + b"<c/>" * 1_000 + b"</row>")
        with pytest.raises(DataError, match="1,000 bytes in which no row begins"):
            open_table(path)

    @pytest.mark.parametrize("row", [b'<row r="999999999999"><c><v>1</v></c></row>', b"<row/>" * 1_100])
    def test_rows_without_end(self, tmp_path, monkeypatch, row):
        monkeypatch.setattr(mphil.tables.binary_files, "MOST_ROWS", 1_000)
        with pytest.raises(DataError, match="more than 1,000 rows"):
            open_table(self.sheet(tmp_path / "x.xlsx", row))

    def test_what_a_sheet_says_of_its_size_does_not_matter(self, tmp_path):
        row = b'<row r="300"><c r="A300" t="inlineStr"><is><t>smiles</t></is></c></row>'
        path = self.sheet(tmp_path / "x.xlsx", row, b'<dimension ref="A1:XFD1048576"/>')
        assert open_table(path).columns == ("smiles",)


@pytest.mark.parametrize("part", ["xl/worksheets/sheet1.xml", "xl/workbook.xml", "[Content_Types].xml"])
def test_a_part_that_cannot_be_unpacked(tmp_path, part):
    path = tmp_path / "table.xlsx"
    Workbook().save(path)
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo(part)
    content = bytearray(path.read_bytes())
    start = entry.header_offset + 30 + len(part)
    content[start : start + entry.compress_size] = b"\xff" * entry.compress_size
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"table.xlsx: not a readable Excel workbook .*; save the table as CSV"):
        check(path, workers=0)


def test_warnings_of_the_library_are_not_shown(tmp_path, recwarn):
    made = Workbook()
    for row in (["smiles", "day"], ["CCO", 1e10]):
        made.active.append(row)
    made.active["B2"].number_format = "yyyy-mm-dd"
    made.save(tmp_path / "late.xlsx")
    (chunk,) = open_table(tmp_path / "late.xlsx").chunks()
    assert list(chunk.columns["day"]) == ["#VALUE!"]
    assert not recwarn.list
