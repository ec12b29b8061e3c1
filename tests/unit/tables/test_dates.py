"""Dates in the forms that people use: read, ordered, and refused when they could mean two days."""

import contextlib
import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mphil.errors import DataError, UsageError
from mphil.tables.dates import FORMATS, looks_like_date, read_dates

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
