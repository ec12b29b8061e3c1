"""Networks trained in processes beside this one: same bits, nothing left behind, whatever happens to a helper."""

import multiprocessing
import os
import signal
import time

import pytest

from mphil.files import write_json
from mphil.model.product import build, prepare, train_product
from mphil.model.product import members as beside_module
from mphil.model.product.members import trained_beside
from mphil.nn.threads import loop_threads
from tests.products import TINY, binary_table

WEIGHTS = ("model.safetensors", "committee.safetensors")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    path = binary_table(tmp_path_factory.mktemp("beside") / "assay.csv")
    return prepare({"benchmark": {"path": str(path)}, **TINY})


@pytest.fixture(scope="module")
def alone(prepared, tmp_path_factory):
    """What one process makes."""
    return contents(train_product(prepared, tmp_path_factory.mktemp("alone") / "out", members=3))


def contents(product):
    return {name: (product.path / name).read_bytes() for name in WEIGHTS}


def test_two_processes_make_the_same_committee(prepared, alone, tmp_path, capfd):
    made = train_product(prepared, tmp_path / "out", members=3, processes=2)
    assert contents(made) == alone
    assert not multiprocessing.active_children()


def test_a_helper_that_dies_is_replaced(prepared, alone, tmp_path, monkeypatch):
    def die(beside, alive, said):
        os.read(beside.queue, 1)
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(beside_module, "_help", die)
    assert contents(train_product(prepared, tmp_path / "out", members=3, processes=2)) == alone


def test_a_helper_that_fails_says_so_and_is_replaced(prepared, alone, tmp_path, monkeypatch, capfd):
    first = os.getpid()
    execute = beside_module.execute

    def fail(*args, **kwargs):
        if os.getpid() != first:
            raise OSError("no room")
        return execute(*args, **kwargs)

    monkeypatch.setattr(beside_module, "execute", fail)
    assert contents(train_product(prepared, tmp_path / "out", members=3, processes=2)) == alone
    assert "this one takes over (no room)" in capfd.readouterr().err


def test_interrupted_and_taken_up(prepared, alone, tmp_path, monkeypatch):
    out = tmp_path / "out"
    started = time.monotonic()

    def interrupted(*args, **kwargs):
        while not (out / "erm-descriptors" / "config.json").exists() and time.monotonic() < started + 60:
            time.sleep(0.01)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(build, "execute", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train_product(prepared, out, members=3, processes=2)
    assert not multiprocessing.active_children()
    assert contents(train_product(prepared, out, members=3, processes=2)) == alone


def test_finished_runs_and_single_processes_need_no_helper(prepared, tmp_path):
    write_json(tmp_path / "result.json", {})
    for folder, processes in ((tmp_path, 2), (tmp_path / "new", 1)):
        with trained_beside([(prepared.config, folder)], prepared.data, processes) as beside:
            assert not beside.helpers
    on_gpu = prepared.config.model_copy(update={"train": prepared.config.train.model_copy(update={"device": "cuda:0"})})
    with trained_beside([(on_gpu, tmp_path / "new")], prepared.data, 2) as beside:
        assert not beside.helpers


def test_each_process_uses_one_thread(prepared, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(beside_module, "_help", lambda *args: None)
    assert loop_threads(0) == 2
    with trained_beside([(prepared.config, tmp_path / "new")], prepared.data, 2):
        assert (loop_threads(0), loop_threads(3)) == (1, 3)
    assert loop_threads(0) == 2
