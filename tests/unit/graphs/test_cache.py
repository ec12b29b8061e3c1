import json
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from mphil.graphs.cache import Entry, cache_folder, remember

KEY = "k" * 64


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MPHIL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Maker:
    """Builds an entry and counts how often."""

    def __init__(self, lasting=True):
        self.calls, self.lasting = 0, lasting

    def __call__(self):
        self.calls += 1
        arrays = {"x": np.arange(12, dtype=np.int32).reshape(4, 3), "none": np.empty((0, 3), np.uint8)}
        return Entry(arrays, [[1, "empty", "there is nothing in it"]], self.lasting)


def never():
    raise AssertionError("the entry should have been there")


def assert_made(entry):
    expected = Maker()()
    assert entry.report == expected.report
    assert entry.arrays.keys() == expected.arrays.keys()
    for name, array in expected.arrays.items():
        np.testing.assert_array_equal(entry.arrays[name], array)
        assert entry.arrays[name].dtype == array.dtype


def test_the_second_time_is_as_the_first_without_the_work():
    assert_made(remember("test", KEY, Maker()))
    assert_made(remember("test", KEY, never))


def test_other_keys_and_kinds_are_other_entries():
    remember("test", KEY, Maker())
    for kind, key in (("test", "j" * 64), ("other", KEY)):
        maker = Maker()
        remember(kind, key, maker)
        assert maker.calls == 1


def test_what_a_reader_writes_into_its_arrays_stays_with_it():
    remember("test", KEY, Maker()).arrays["x"][:] = 7
    remember("test", KEY, never).arrays["x"][:] = 8
    assert_made(remember("test", KEY, never))


@pytest.mark.parametrize("name", ["x.npy", "none.npy", "report.json", "manifest.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "delete", "garbage"])
def test_a_damaged_entry_is_built_again(folder, name, damage, caplog):
    remember("test", KEY, Maker())
    file = folder / "test" / KEY / "entry" / name
    data = bytearray(file.read_bytes())
    if damage == "delete":
        file.unlink()
    else:
        data[len(data) // 2] ^= 1
        file.write_bytes({"flip": bytes(data), "cut": data[:-1], "empty": b"", "garbage": b"\xff\0{" * 9}[damage])
    maker = Maker()
    assert_made(remember("test", KEY, maker))
    assert maker.calls == 1
    assert "built again" in caplog.text or damage == "delete"
    assert_made(remember("test", KEY, never))


def test_a_file_that_nobody_wrote_is_damage(folder):
    remember("test", KEY, Maker())
    np.save(folder / "test" / KEY / "entry" / "extra.npy", np.zeros(3))
    assert_made(remember("test", KEY, Maker()))


def test_an_entry_of_another_format_is_built_again(folder):
    remember("test", KEY, Maker())
    file = folder / "test" / KEY / "entry" / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format": 99}))
    maker = Maker()
    remember("test", KEY, maker)
    assert maker.calls == 1


def test_what_may_end_otherwise_is_not_kept():
    for _ in range(2):
        maker = Maker(lasting=False)
        assert_made(remember("test", KEY, maker))
        assert maker.calls == 1


def test_a_failure_leaves_nothing_behind(folder):
    with pytest.raises(RuntimeError, match="no luck"):
        remember("test", KEY, lambda: (_ for _ in ()).throw(RuntimeError("no luck")))
    assert_made(remember("test", KEY, Maker()))


def test_of_two_at_once_one_builds_and_the_other_waits():
    made, begun, go_on = [], threading.Event(), threading.Event()

    def slow():
        begun.set()
        go_on.wait(10)
        return Maker()()

    first = threading.Thread(target=lambda: made.append(remember("test", KEY, slow)))
    second = threading.Thread(target=lambda: made.append(remember("test", KEY, never)))
    first.start()
    assert begun.wait(10)
    second.start()
    second.join(0.2)
    assert second.is_alive()
    go_on.set()
    first.join(10)
    second.join(10)
    assert len(made) == 2
    for entry in made:
        assert_made(entry)


WRITER = """
import sys, numpy as np
import mphil.graphs.cache as cache
def stall(*args, **options):
    print("writing", flush=True)
    sys.stdin.read()
np.save = stall
cache.remember("test", "k" * 64, lambda: cache.Entry({"x": np.zeros(3)}, None))
"""


def test_a_killed_writer_is_swept_up_after(folder):
    """The writer is killed half way through its files; its lock is free and its draft goes."""
    process = subprocess.Popen([sys.executable, "-c", WRITER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        assert process.stdout.readline() == b"writing\n"
        home = folder / "test" / KEY
        assert [path.name[:13] for path in home.iterdir() if path.name != ".lock"] == [".entry.draft-"]
        process.send_signal(signal.SIGKILL)
    maker = Maker()
    assert_made(remember("test", KEY, maker))
    assert maker.calls == 1
    assert sorted(path.name for path in home.iterdir()) == [".lock", "entry"]


def test_a_folder_that_cannot_be_used_costs_the_cache_only(folder, caplog):
    folder.write_text("in the way")
    for _ in range(2):
        maker = Maker()
        assert_made(remember("test", KEY, maker))
        assert maker.calls == 1
    assert "nothing can be kept here" in caplog.text


def test_a_full_disk_costs_the_cache_only(monkeypatch, caplog):
    def full(*args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with caplog.at_level(logging.WARNING):
        assert_made(remember("test", KEY, Maker()))
    assert "No space left" in caplog.text


def test_where_the_cache_is(monkeypatch):
    monkeypatch.setenv("MPHIL_CACHE", "~/somewhere")
    assert cache_folder() == Path.home() / "somewhere"
    monkeypatch.delenv("MPHIL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", f"{os.sep}xdg")
    assert cache_folder() == Path(f"{os.sep}xdg") / "mphil"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache_folder() == Path.home() / ".cache" / "mphil"
