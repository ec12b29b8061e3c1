"""Numbers in the writing of several countries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mphil.tables.numbers import Measured, decimal_mark, read_measured


@pytest.mark.parametrize(
    ("cell", "mark", "value", "bound"),
    [
        ("6.5", ".", 6.5, ""),
        ("6,5", ",", 6.5, ""),
        ("1,234.5", ".", 1234.5, ""),
        ("1.234,5", ",", 1234.5, ""),
        ("1.234.567", ",", 1234567, ""),
        ("10 000", ".", 10000, ""),
        ("10\u00a0000,25", ",", 10000.25, ""),
        ("10'000", ".", 10000, ""),
        (">10", ".", 10, ">"),
        ("< 0,1", ",", 0.1, "<"),
        ("≥ 5", ".", 5, ">"),
        ("<= 1e-3", ".", 0.001, "<"),
        ("~7", ".", 7, ""),
        ("=7", ".", 7, ""),
    ],
)
def test_numbers(cell, mark, value, bound):
    assert read_measured(cell, mark) == Measured(value, bound)


@pytest.mark.parametrize("cell", ["", "active", "6.5 nM", "1,2,3", "1.2.3", "12,34.5", "> x", "1 2", "inf", "5-6"])
def test_text(cell):
    assert read_measured(cell) is None


def test_the_decimal_mark_is_that_of_the_column():
    assert decimal_mark(["1,234", "6,5"]) == ","
    assert decimal_mark(["1,234", "6.5"]) == "."
    assert decimal_mark(["1.234.567"]) == ","
    assert decimal_mark(["0,125"]) == ",", "no thousands begin with 0"
    assert decimal_mark(["1,234", "x", ""]) == "."


def test_three_decimals_are_not_thousands():
    potencies = [f"{5 + step / 7:.3f}".replace(".", ",") for step in range(20)]
    assert decimal_mark(potencies) == ","
    assert decimal_mark([*potencies, ">9,000", "n.d."]) == ","
    assert decimal_mark([*potencies, "850"]) == ".", "a number below 1,000 has no separator"


@given(st.lists(st.floats(-1e9, 1e9).filter(lambda v: abs(v) > 1e-3), min_size=1), st.sampled_from(".,"))
def test_grouped_numbers_come_back(values, mark):
    swap = str.maketrans(".,", ".," if mark == "." else ",.")
    cells = [f"{value:,.4f}".translate(swap) for value in values]
    assert decimal_mark(cells) == mark
    assert [read_measured(cell, mark).value for cell in cells] == [float(f"{value:.4f}") for value in values]
