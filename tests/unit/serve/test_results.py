"""Answers read back from a file, a page at a time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.errors import DataError
from mphil.serve.results import PAGE, name_column, open_results
from mphil.tables.write import harmless, open_writer

OURS = ["prediction", "probability", "message"]


def written(path, rows):
    with open_writer(path, ["id", "smiles", "note"], None, OURS, [False, True, False]) as writer:
        columns = [list(column) for column in zip(*rows, strict=True)] or [[]] * 6
        writer.write(columns[:3], columns[3:])
    return open_results(path, molecule=1, name=0, columns=OURS, lines=range(2, 2 + len(rows)))


CELL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)


@settings(max_examples=10)
@given(cells=st.lists(st.tuples(CELL, CELL, CELL), max_size=5), times=st.sampled_from([1, 45]))
def test_pages_together_are_the_table(tmp_path_factory, cells, times):
    rows = [[*given, "active", i / 7, None] for i, given in enumerate(cells * times)]
    results = written(tmp_path_factory.mktemp("answers") / "a.csv", rows)
    read = [row for number in range(1, results.pages + 1) for row in results.page(number)]

    assert results.rows == len(rows)
    assert [(row.row, row.line) for row in read] == [(number, number + 1) for number in range(1, len(rows) + 1)]
    assert [(row.name, row.smiles) for row in read] == [(harmless(cells[0]), harmless(cells[1])) for cells in rows]
    assert [row.cells["probability"] for row in read] == pytest.approx([cells[4] for cells in rows], rel=1e-5)
    assert all(row.cells["prediction"] == "active" and row.cells["message"] is None for row in read)


@pytest.mark.parametrize(
    ("rows", "pages", "last"), [(0, 1, 0), (1, 1, 1), (PAGE, 1, PAGE), (PAGE + 1, 2, 1), (3 * PAGE, 3, PAGE)]
)
def test_pages_end_where_they_should(tmp_path, rows, pages, last):
    results = written(tmp_path / "a.csv", [[str(i), "C", "", None, None, None] for i in range(rows)])
    assert results.pages == pages
    assert len(results.page(pages)) == last
    if last:
        assert results.page(pages)[-1].name == str(rows - 1)


def test_a_cell_too_long_to_be_read_back_is_an_error_that_says_where(tmp_path):
    with pytest.raises(DataError, match="row 2: .*`mphil predict`"):
        written(tmp_path / "a.csv", [["1", "C", "", None, None, None], ["2", "C", "x" * 140_000, None, None, None]])


@pytest.mark.parametrize(
    ("columns", "molecule", "name"),
    [
        (["smiles"], 0, -1),
        (["smiles", "name"], 0, 1),
        (["batch", "smiles", "ID"], 1, 2),
        (["batch", "smiles", "dose"], 1, 0),
        (["name", "title"], 0, 1),
    ],
)
def test_the_column_that_names_the_rows(columns, molecule, name):
    assert name_column(columns, molecule) == name
