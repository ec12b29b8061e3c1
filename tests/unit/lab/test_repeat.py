"""A recorded cell, run anew, gives the same bits.

The records are made by `mphil lab run repeat --out FOLDER` from a clean checkout; tests/golden/repeat.jsonl has those
of every kind of machine that made one.
"""

from pathlib import Path

import pytest

from mphil.lab.cells import expand
from mphil.lab.records import parse
from mphil.lab.suite import load_suite
from mphil.lab.worker import make_record
from mphil.nn.fast.library import path_taken
from mphil.nn.threads import one_thread
from mphil.provenance import machine, versions

FILE = Path(__file__).parents[2] / "golden" / "repeat.jsonl"
SAME = ("selections", "last", "history", "weights", "data_digest", "split_digest", "fingerprint")
CELLS = expand(load_suite("repeat"))


def conditions(record):
    """All that may change rounding without being a mistake."""
    where = ("processor", "instructions", "compiler", "threads", "processes")
    return {key: record["machine"][key] for key in where} | {
        "path": record["path"],
        "torch": record["versions"]["torch"],
    }


def here():
    with one_thread():
        return conditions({"machine": machine(), "path": path_taken("cpu"), "versions": versions()})


def differences(then, now):
    return ", ".join(f"{key} was {then[key]!r}, here it is {now[key]!r}" for key in then if then[key] != now[key])


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.row)
def test_the_same_bits(cell, tmp_path):
    records = [record for record in map(parse, FILE.read_bytes().splitlines()) if record["cell"] == cell.id]
    assert records, f"{FILE.name} has no record of {cell.title}: run `mphil lab run repeat`"
    now = here()
    alike = [record for record in records if conditions(record) == now]
    if not alike:
        others = "; ".join(differences(conditions(record), now) for record in records)
        pytest.skip(f"rounding may differ from that of every record: {others}")
    again = make_record(cell, tmp_path / "run")
    for recorded in alike:
        assert {key: again[key] for key in SAME} == {key: recorded[key] for key in SAME}
