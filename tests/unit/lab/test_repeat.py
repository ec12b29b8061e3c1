"""A recorded cell, run anew, gives the same bits.

The record is made by `mphil lab run repeat`, from a clean checkout, after removing benchmarks/results/repeat.jsonl.
"""

from pathlib import Path

import pytest

from mphil.lab.cells import expand
from mphil.lab.records import RecordFile
from mphil.lab.suite import load_suite
from mphil.lab.worker import make_record
from mphil.nn.fast.library import path_taken
from mphil.nn.threads import one_thread
from mphil.provenance import machine, versions

FILE = Path(__file__).parents[3] / "benchmarks" / "results" / "repeat.jsonl"
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


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.row)
def test_the_same_bits(cell, tmp_path):
    records = {record["cell"]: record for record in RecordFile(FILE).read()[0]}
    assert cell.id in records, f"{FILE.name} has no record of {cell.title}: run `mphil lab run repeat`"
    recorded = records[cell.id]
    then, now = conditions(recorded), here()
    others = [f"{key} was {then[key]!r}, here it is {now[key]!r}" for key in then if then[key] != now[key]]
    if others:
        pytest.skip(f"rounding may differ from that of the record: {'; '.join(others)}")
    again = make_record(cell, tmp_path / "run")
    assert {key: again[key] for key in SAME} == {key: recorded[key] for key in SAME}
