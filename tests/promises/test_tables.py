"""Hostile tables: a report on every row or one sentence, within bounded memory."""

import csv
import faulthandler
import gzip
import io
import zipfile
from collections.abc import Iterator

import openpyxl
import pytest

from mphil.errors import MphilError
from mphil.pages.check_page import check_page
from mphil.tables.inspection import check
from tests.malformed import KINDS, malformed
from tests.measured import MEGABYTE, apart

pytestmark = pytest.mark.promise("hostile tables")

PATIENCE = 120
"""Seconds after which a single table counts as a hang; the process then ends with a traceback."""
MOST_BYTES = 500 * MEGABYTE
PIECE = 2_000_000


def outcome(path):
    """The report, or the sentence."""
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    try:
        return check(path, workers=0)
    except MphilError as error:
        return str(error)
    finally:
        faulthandler.cancel_dump_traceback_later()


def told(path):
    """Try one table; returns whether it was refused."""
    found = outcome(path)
    if isinstance(found, str):
        assert "\n" not in found
        assert path.name in found
        assert len(found) < 1_000
        return True
    statuses = list(found.survey.statuses())
    assert [status.row for status in statuses] == list(range(found.survey.rows)), "rows in = rows out"
    assert sum(status.kept for status in statuses) == len(found.survey)
    assert found.as_dict()["usable"] == len(found.survey) > 0
    if found.survey.rows % 5 == 0:
        assert "</html>" in check_page(found)
    return False


def many(folder, number):
    refused = 0
    for index in range(number):
        name, content = malformed(index)
        path = folder / name
        path.write_bytes(content)
        refused += told(path)
        path.unlink()
    return refused


def test_malformed_tables(tmp_path, amount, figure):
    number = amount("tables")
    measured = apart(many, tmp_path, number, patience=3_600)
    assert measured.error is None, measured.error
    assert number / 10 < measured.found < number * 0.95
    assert measured.bytes < MOST_BYTES
    figure(
        f"{number:,} tables of {len(KINDS)} kinds, {measured.found:,} refused with a sentence, "
        f"{measured.bytes / MEGABYTE:.0f} MB"
    )


def pieces(head: bytes, piece: bytes, size: int) -> Iterator[bytes]:
    yield head
    block = piece * (PIECE // len(piece))
    for _ in range(max(1, size // len(block))):
        yield block


def zipped(path, contents: Iterator[bytes]) -> None:
    """A gzip file of members; equal ones are packed once."""
    packed: dict[int, bytes] = {}
    with path.open("wb") as file:
        for content in contents:
            file.write(packed.setdefault(id(content), gzip.compress(content, 1, mtime=0)))


def plain(path, contents: Iterator[bytes]) -> None:
    with path.open("wb") as file:
        file.writelines(contents)


WORKSHEET = "xl/worksheets/sheet1.xml"
SHEET = b'<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
END = b"</sheetData></worksheet>"
STRINGS = b'<Override PartName="/xl/sharedStrings.xml" ContentType="application/vnd.openxmlformats-officedocument.'
STRINGS += b'spreadsheetml.sharedStrings+xml"/>'


def workbook(path, part: str, contents: Iterator[bytes]) -> None:
    """A workbook of one small sheet, one part of which is replaced."""
    book, buffer = openpyxl.Workbook(), io.BytesIO()
    for row in (["smiles", "active"], ["CCO", "yes"], ["=1+1", "no"]):
        book.active.append(row)
    book.save(buffer)
    whole = zipfile.ZipFile(buffer)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        if part != "xl/sharedStrings.xml":
            archive.writestr("xl/sharedStrings.xml", b"<sst/>")
        for name in whole.namelist():
            if name != part:
                archive.writestr(name, whole.read(name).replace(b"</Types>", STRINGS + b"</Types>"))
        with archive.open(part, "w", force_zip64=True) as file:
            for content in contents:
                file.write(content)


def many_columns(folder, amount):
    columns = amount("columns")
    plain(folder / "x.csv", iter([b"smiles" + b",a" * (columns - 1) + b"\n", b"CCO" + b",1" * (columns - 1) + b"\n"]))
    return folder / "x.csv"


def many_columns_in_a_row(folder, amount):
    plain(folder / "x.csv", iter([b"smiles,active\nCCO,1\n", b"1," * amount("columns") + b"\n", b"CCN,0\n"]))
    return folder / "x.csv"


def a_long_line(folder, amount):
    plain(folder / "x.csv", pieces(b"smiles,active\nCCO,1\n", b"C", amount("bytes of a line")))
    return folder / "x.csv"


def a_long_first_line(folder, amount):
    plain(folder / "x.csv", pieces(b"", b"C", amount("bytes of a line")))
    return folder / "x.csv"


def a_long_quoted_field(folder, amount):
    plain(folder / "x.csv", pieces(b'smiles,active\n"', b"CCCCCCCCC\n", amount("bytes of a line")))
    return folder / "x.csv"


def a_gzip_bomb_of_one_line(folder, amount):
    zipped(folder / "x.csv.gz", pieces(b"smiles,active\n", b"C", amount("bytes of a line")))
    return folder / "x.csv.gz"


def a_gzip_bomb_of_blank_lines(folder, amount):
    zipped(folder / "x.csv.gz", pieces(b"smiles,active\n", b"\n", amount("bytes of a line")))
    return folder / "x.csv.gz"


def a_gzip_bomb_of_wide_rows(folder, amount):
    rows = b"C" * 130_000 + b"," + b"1" * 130_000 + b"\n"
    zipped(folder / "x.csv.gz", pieces(b"smiles,active\n", rows, amount("bytes of a line")))
    return folder / "x.csv.gz"


def a_gzip_bomb_in_an_sdf(folder, amount):
    zipped(folder / "x.sdf.gz", pieces(b"name\n\n\n", b"C\n", amount("bytes of a line")))
    return folder / "x.sdf.gz"


def a_zip_bomb(folder, amount):
    with (
        zipfile.ZipFile(folder / "x.csv", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("a.csv", "w", force_zip64=True) as file,
    ):
        for content in pieces(b"", b"\0", amount("bytes of a line")):
            file.write(content)
    return folder / "x.csv"


def a_workbook_of_one_cell(folder, amount):
    head = SHEET + b'<row r="1"><c r="A1" t="inlineStr"><is><t>'
    workbook(folder / "x.xlsx", WORKSHEET, pieces(head, b"C", amount("bytes of a line")))
    return folder / "x.xlsx"


def a_workbook_of_many_cells(folder, amount):
    row = b'<row><c t="inlineStr"><is><t>CCO</t></is></c><c><v>1</v></c></row>'
    workbook(folder / "x.xlsx", WORKSHEET, pieces(SHEET, row, amount("bytes of a line") // 8))
    return folder / "x.xlsx"


def a_workbook_of_empty_rows(folder, amount):
    workbook(folder / "x.xlsx", WORKSHEET, pieces(SHEET, b"<row/>", amount("bytes of a line")))
    return folder / "x.xlsx"


def a_workbook_of_shared_strings(folder, amount):
    head = b'<?xml version="1.0"?><sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
    strings = pieces(head, b"<si><t>C</t></si>", amount("bytes of a line"))
    workbook(folder / "x.xlsx", "xl/sharedStrings.xml", strings)
    return folder / "x.xlsx"


def a_workbook_of_styles(folder, amount):
    head = b'<?xml version="1.0"?><styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><fonts>'
    workbook(folder / "x.xlsx", "xl/styles.xml", pieces(head, b"<font/>", amount("bytes of a line")))
    return folder / "x.xlsx"


def a_workbook_of_entities(folder, amount):
    """Each entity is ten of the one before."""
    entities = b"".join(b'<!ENTITY e%d "%s">' % (i, b"&e%d;" % (i - 1) * 10) for i in range(1, 12))
    text = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e0 "CCCCCCCCCC">' + entities + b"]>"
    cell = b'<row r="1"><c r="A1" t="inlineStr"><is><t>&e11;</t></is></c></row>'
    workbook(folder / "x.xlsx", WORKSHEET, iter([text + SHEET.partition(b"?>")[2] + cell + END]))
    return folder / "x.xlsx"


def a_workbook_with_a_far_cell(folder, amount):
    cells = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    workbook(folder / "x.xlsx", WORKSHEET, iter([SHEET + cells + END]))
    return folder / "x.xlsx"


def formulas(folder, amount):
    starts = ("=1+1", "=cmd|' /C calc'!A0", "@SUM(1)", "+1+1", "-1+1", "\t=1", '=HYPERLINK("http://x")')
    with (folder / "x.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", "active", *starts])
        writer.writerows([start, number % 2, *starts] for number, start in enumerate(starts * 10))
    return folder / "x.csv"


EXTREMES = (
    many_columns,
    many_columns_in_a_row,
    a_long_line,
    a_long_first_line,
    a_long_quoted_field,
    a_gzip_bomb_of_one_line,
    a_gzip_bomb_of_blank_lines,
    a_gzip_bomb_of_wide_rows,
    a_gzip_bomb_in_an_sdf,
    a_zip_bomb,
    a_workbook_of_one_cell,
    a_workbook_of_many_cells,
    a_workbook_of_empty_rows,
    a_workbook_of_shared_strings,
    a_workbook_of_styles,
    a_workbook_of_entities,
    a_workbook_with_a_far_cell,
    formulas,
)


@pytest.mark.parametrize("extreme", EXTREMES, ids=lambda extreme: extreme.__name__)
def test_extremes(tmp_path, amount, figure, extreme):
    path = extreme(tmp_path, amount)
    measured = apart(told, path)
    path.unlink()
    assert measured.error is None, measured.error
    assert measured.bytes < MOST_BYTES
    figure(
        f"{extreme.__name__.replace('_', ' ')}: {'refused' if measured.found else 'read'} in {measured.seconds:.1f} s, "
        f"{measured.bytes / MEGABYTE:.0f} MB"
    )
