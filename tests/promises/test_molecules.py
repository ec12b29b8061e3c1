"""Hostile molecules: rows out = rows in, no crash, none over a second, by whatever way they come."""

import csv
import time

import openpyxl
import pytest
from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

from mphil.chem.read_rows import read_batch
from mphil.limits import MAX_REQUEST_CHARACTERS, MAX_REQUEST_ROWS
from tests.bundles import written
from tests.command import call
from tests.mutated import mutated
from tests.products import rows_of

pytestmark = pytest.mark.promise("hostile molecules")

SECONDS = 1.0
HUGE = [
    "C" * 3_999,
    "C1" * 1_999,
    "(" * 3_999,
    "[C@@H]" * 600,
    "C%99" * 900,
    "c1ccccc1" * 499,
    "." * 3_999,
    "C.." * 1_300,
    "C1" + "C" * 988 + "C1",
    "N" + "[C@@H](C)C(=O)N" * 160 + "CC(=O)O",
]
PAGES = 10
"""Of rows, of those that the server shows: the first, the last and some between."""


@pytest.fixture
def rows(amount):
    return [*HUGE, *mutated(amount("molecules") - len(HUGE), seed=11)]


def test_one_by_one(rows, figure):
    slowest, refused = 0.0, 0
    for text in rows:
        begun = time.process_time()
        batch = read_batch([text], wanted=["spelling", "graph", "fingerprint"], definite=True)
        slowest = max(slowest, time.process_time() - begun)
        assert len(batch.arrays["n_nodes"]) + len({issue.row for issue in batch.issues}) == 1
        refused += bool(batch.issues)
    assert slowest < SECONDS
    figure(f"{len(rows):,} strings, {refused:,} refused with a status, slowest {slowest:.2f} s")


def write_csv(path, rows):
    with path.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        csv.writer(file).writerows([("id", "smiles"), *((i, text) for i, text in enumerate(rows))])
    return path


def write_xlsx(path, rows):
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()
    sheet.append(["id", "smiles"])
    for number, text in enumerate(rows):
        cell = openpyxl.cell.WriteOnlyCell(
            sheet, ILLEGAL_CHARACTERS_RE.sub("?", text.encode("utf-8", "replace").decode())
        )
        cell.data_type = "s"
        sheet.append([number, cell])
    book.save(path)
    return path


@pytest.mark.parametrize("write", [write_csv, write_xlsx])
def test_in_a_file(rows, tmp_path, figure, write):
    suffix = write.__name__.removeprefix("write_")
    rows = [text.encode("utf-8", "replace").decode() for text in rows]
    table, out = write(tmp_path / f"in.{suffix}", rows), tmp_path / "out.csv"
    ended = call("predict", written(tmp_path / "bundle"), table, "--out", out, "--workers", 1)
    assert ended.code == 0, ended
    head, *answers = rows_of(out)
    assert [row[0] for row in answers] == [str(number) for number in range(len(rows))]
    statuses = [row[head.index("status")] for row in answers]
    assert all(statuses)
    assert not set(statuses) & {"crash", "timeout"}
    figure(f"{suffix}: {len(rows):,} rows in, {len(answers):,} out, {statuses.count('ok'):,} answered")


def requests(rows):
    """Rows in pieces that the server takes."""
    piece, characters = [], 0
    for text in rows:
        if len(piece) == MAX_REQUEST_ROWS or characters + len(text) > MAX_REQUEST_CHARACTERS:
            yield piece
            piece, characters = [], 0
        piece.append(text)
        characters += len(text)
    yield piece


def test_by_the_server(client, rows, tmp_path, figure):
    answers = 0
    for piece in requests(rows):
        answer = client.post("/api/predict", {"smiles": piece})
        assert answer.status == 200, answer.body[:500]
        found = answer.json()["rows"]
        assert len(found) == len(piece)
        assert not {row["cells"]["status"] for row in found} & {"crash", "timeout"}
        answers += len(found)
    whole = [text.encode("utf-8", "replace").decode() for text in rows]
    state = client.finish(write_csv(tmp_path / "in.csv", whole).read_bytes())
    assert state["state"] == "done", state
    assert state["summary"]["rows"] == len(rows)
    shown = {1 + (state["pages"] - 1) * number // (PAGES - 1) for number in range(PAGES)}
    for page in shown:
        answer = client.get(f"/api/jobs/{state['id']}/rows?page={page}")
        assert answer.status == 200, answer.body[:500]
    assert client.get("/readyz").status == 200
    figure(f"API: {len(rows):,} in, {answers:,} out; page: {state['summary']['rows']:,} rows, {len(shown)} pages shown")
