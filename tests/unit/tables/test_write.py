"""Cells that a spreadsheet would run."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mphil.tables.write import csv_text, harmless, is_formula


@pytest.mark.parametrize(
    "cell",
    [
        "=1+1",
        "=cmd|' /C calc'!A0",
        "+A1",
        "-A1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        "-1+1",
        "+49 30 1234",
        "＝1",
        "--1",
    ],
)
def test_formulas(cell):
    assert is_formula(cell)
    assert harmless(cell) == f"'{cell}"


@pytest.mark.parametrize(
    "cell", ["", "1", "-1.5", "-1,5", "+3", "-1e-5", "-.5", "C=O", "'=1", "-", "+", "a=b", "[O-]C", " =1", "N#N"]
)
def test_no_formulas(cell):
    assert not is_formula(cell)
    assert harmless(cell) is cell


@given(st.text(max_size=8))
def test_what_comes_out_never_begins_a_formula(cell):
    out = harmless(cell)
    assert out.removeprefix("'") == cell or out == cell
    if out[:1] in ("=", "@", "\t", "\r", "\n"):
        raise AssertionError(out)
    if out[:1] in ("+", "-") and len(out) > 1:
        float(out.replace(",", ".", 1))


@given(st.lists(st.lists(st.text(max_size=6), min_size=2, max_size=2), max_size=4))
def test_a_table_comes_back(rows):
    written = csv_text(rows)
    assert list(csv.reader(io.StringIO(written, newline=""))) == [[harmless(cell) for cell in row] for row in rows]


def test_a_lone_carriage_return_breaks_no_line():
    assert csv_text([["a\rb", "c"]]) == '"a\rb",c\n'
