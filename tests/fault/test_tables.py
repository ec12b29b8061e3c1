"""No table, however broken, crashes or hangs the check: there is a report on every row, or one sentence."""

import faulthandler

import pytest

from mphil.errors import DataError
from mphil.pages.check import check_page
from mphil.tables.check import check
from tests.malformed import KINDS, malformed

PATIENCE = 120
"""Seconds after which a single table counts as a hang; the process then ends with a traceback."""


def outcome(path):
    """The report, or the sentence."""
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    try:
        return check(path, workers=0)
    except DataError as error:
        return str(error)
    finally:
        faulthandler.cancel_dump_traceback_later()


def try_out(numbers, folder):
    """Check the tables; how many gave a report and how many a refusal, by kind."""
    ends = {kind.__name__: [0, 0] for kind in KINDS}
    for number in numbers:
        name, content = malformed(number)
        path = folder / name
        path.write_bytes(content)
        found = outcome(path)
        ends[name.partition("-")[0]][isinstance(found, str)] += 1
        if isinstance(found, str):
            assert "\n" not in found
            assert name in found
            assert len(found) < 1_000
            continue
        statuses = list(found.survey.statuses())
        assert [status.row for status in statuses] == list(range(found.survey.rows)), "rows in = rows out"
        assert sum(status.kept for status in statuses) == len(found.survey)
        assert found.as_dict()["usable"] == len(found.survey) > 0
        if number % 5 == 0:
            assert "</html>" in check_page(found)
    return ends


def test_malformed_tables(tmp_path):
    ends = try_out(range(14 * 15), tmp_path)
    assert all(sum(counts) == 15 for counts in ends.values())
    assert sum(reports for reports, _ in ends.values()) >= 30
    assert sum(refusals for _, refusals in ends.values()) >= 60


@pytest.mark.slow
def test_a_thousand_malformed_tables(tmp_path):
    try_out(range(1_000, 2_000), tmp_path)
