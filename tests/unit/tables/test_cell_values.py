"""Numbers and dates as people write them."""

import contextlib
import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mphil.errors import DataError, UsageError
from mphil.tables.cell_values import FORMATS, Measured, decimal_mark, looks_like_date, read_dates, read_measured


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


DAYS = st.lists(st.dates(datetime.date(1990, 1, 1), datetime.date(2040, 12, 31)), min_size=1, max_size=20)
FULL = [form for form in FORMATS if form != "%Y-%m"]


@given(days=DAYS, form=st.sampled_from(FULL))
def test_every_form_is_read_as_it_was_written(days, form):
    cells = [day.strftime(form) for day in days]
    assert all(map(looks_like_date, cells))
    assert read_dates(cells, "d", form) == [day.isoformat() for day in days]
    found = None
    with contextlib.suppress(DataError):
        found = read_dates(cells, "d")
    assert found in (None, [day.isoformat() for day in days]), "ambiguous, or as it was written"


def test_one_clear_cell_decides_for_the_column():
    assert read_dates(["01/02/2020", "31/12/2020"], "d") == ["2020-02-01", "2020-12-31"]
    assert read_dates(["01/02/2020", "12/31/2020"], "d") == ["2020-01-02", "2020-12-31"]
    assert read_dates(["09.06.2015", "n.a.", "2.7.2014 10:30"], "d")[::2] == ["2015-06-09", "2014-07-02"]
    assert read_dates(["05/05/2020", ""], "d") == ["2020-05-05", ""], "the same day either way"


def test_ambiguous_dates_are_refused():
    with pytest.raises(DataError, match=r"'01/02/2020' is 2020-02-01 if dates are %d/%m/%Y, and 2020-01-02"):
        read_dates(["01/02/2020", "03/04/2021"], "measured")
    assert read_dates(["01/02/2020"], "measured", "%m/%d/%Y") == ["2020-01-02"]


def test_what_is_no_date():
    with pytest.raises(DataError, match=r"column 'd': 'soon' is no date of the form %Y-%m-%d, nor are 0 other"):
        read_dates(["2020-01-01", "2020-01-02", "soon"], "d")
    with pytest.raises(UsageError, match="has no field"):
        read_dates(["2020-01-01"], "d", "iso")
    assert not any(map(looks_like_date, ("6.5", "2015", "1e-3", "CCO", "", "1.2.3.4")))
