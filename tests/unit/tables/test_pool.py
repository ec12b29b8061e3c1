"""Processes that read molecules, and rows that are the end of them."""

import numpy as np
import pytest

import mphil.tables.pool as pool
from mphil.chem.read_rows import ARRAYS
from mphil.tables.pool import ReadingWorker, WorkerPool, run

ROWS = ["CCO", "C C", "c1ccccc1", "", "[CH9]", "C[C@H](N)C(=O)O", "O"] * 30
OPTIONS = {"wanted": ["graph"]}


def assert_same(one, other):
    assert one.issues == other.issues
    assert one.arrays.keys() == other.arrays.keys()
    for name, array in other.arrays.items():
        np.testing.assert_array_equal(one.arrays[name], array)
        assert one.arrays[name].dtype == array.dtype


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(pool, "CHUNK", 16)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("options", [OPTIONS, {"wanted": list(ARRAYS), "lenient": True}])
def test_processes_give_the_same_bits_in_the_same_order(options):
    done: list[int] = []
    alone = run(ROWS, options, workers=0)
    together = run(ROWS, options, workers=2, advance=done.append)
    assert_same(together, alone)
    assert sum(done) == len(ROWS)
    assert len(done) == -(-len(ROWS) // 16)


def test_no_rows():
    for workers in (0, 2):
        batch = run([], OPTIONS, workers=workers)
        assert batch.issues == []
        assert batch.arrays["x"].shape == (0, 9)


# A worker that dies on one molecule and stalls on another; everything else is done as by the real one.
DEADLY = """
import os, time
import mphil.chem.reader_process as reader
true = reader.answer
def answer(message):
    if "CCCCl" in message["smiles"]:
        os.abort()
    if "CCCBr" in message["smiles"]:
        time.sleep(60)
    return true(message)
reader.answer = answer
reader.main()
"""


@pytest.fixture
def deadly(monkeypatch):
    """The processes that were started."""
    true, started = pool.subprocess.Popen, []

    def popen(command, **options):
        started.append(true([command[0], "-c", DEADLY], **options))
        return started[-1]

    monkeypatch.setattr(pool.subprocess, "Popen", popen)
    return started


@pytest.mark.usefixtures("deadly", "small_chunks")
def test_a_row_that_kills_its_process_is_the_only_one_lost():
    rows = ["CCO"] * 5 + ["CCCCl"] + ["CC", "C C"]
    batch = run(rows, OPTIONS, workers=1)
    assert [(issue.row, issue.status) for issue in batch.issues] == [(5, "crash"), (7, "whitespace")]
    assert batch.arrays["n_nodes"].tolist() == [3] * 5 + [2]


@pytest.mark.usefixtures("deadly")
def test_a_row_that_never_ends_is_the_only_one_lost(monkeypatch):
    monkeypatch.setattr(pool, "WORKER_SECONDS", 1.0)
    batch = run(["CCO", "CCCBr", "CC"], OPTIONS, workers=1)
    assert [(issue.row, issue.status) for issue in batch.issues] == [(1, "timeout")]
    assert batch.arrays["n_nodes"].tolist() == [3, 2]


def test_a_process_that_does_not_start_is_an_error_and_not_a_bad_row(monkeypatch):
    true = pool.subprocess.Popen
    monkeypatch.setattr(
        pool.subprocess,
        "Popen",
        lambda command, **options: true([command[0], "-c", "raise SystemExit('no such luck')"], **options),
    )
    with pytest.raises(RuntimeError, match="no such luck"):
        run(ROWS, OPTIONS, workers=1)


def test_a_fault_of_ours_is_an_error_and_not_a_bad_row():
    with pytest.raises(RuntimeError, match="KeyError"):
        run(ROWS, {"wanted": ["graph"], "schema": "none"}, workers=1)


def test_giving_up_ends_the_processes(deadly):
    class GiveUp(Exception):
        pass

    def advance(done):
        raise GiveUp

    with pytest.raises(GiveUp):
        run(["C"] * pool.CHUNK + ["CCCBr"] * pool.CHUNK * 3, OPTIONS, workers=2, advance=advance)
    assert deadly
    assert all(process.poll() is not None for process in deadly)


def test_a_closed_worker_starts_nothing():
    worker = ReadingWorker()
    worker.close()
    with pytest.raises(RuntimeError, match="closed"):
        worker.ask(["C"], OPTIONS)


@pytest.mark.usefixtures("small_chunks")
def test_a_pool_answers_again_and_again_in_any_order(deadly):
    expected = run(ROWS[:50], OPTIONS, workers=0)
    with WorkerPool(2) as processes:
        works = [processes.begin(ROWS[:50], OPTIONS) for _ in range(3)]
        for work in reversed(works):
            assert_same(work.finish(), expected)
        assert_same(processes.begin([], OPTIONS).finish(), run([], OPTIONS, workers=0))
        assert len(deadly) == 2
    assert all(process.poll() is not None for process in deadly)
