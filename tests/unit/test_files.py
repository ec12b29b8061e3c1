"""Safe writing, locks and cores."""

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import types
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from mphil import files
from mphil.files import cores, lock, remove_drafts, replace_file, replace_folder, write_bytes, write_json, write_text


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    return path


@contextmanager
def at_most(n_bytes):
    """No file may grow beyond this size: what a full disk looks like to a writer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def forbidden():
    """A folder in which this process may not write, even when root runs the tests."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "file").write_bytes(b"old")
        folder.chmod(0o555)
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)
        try:
            yield folder
        finally:
            if root:
                os.seteuid(0)
            folder.chmod(0o755)


def test_write_and_replace(tmp_path):
    write_bytes(tmp_path / "a", b"\x00\xff")
    write_text(tmp_path / "b", "Ångström")
    write_json(tmp_path / "c", {"a": [1, None]})
    write_text(tmp_path / "b", "new")
    assert (tmp_path / "a").read_bytes() == b"\x00\xff"
    assert (tmp_path / "b").read_text() == "new"
    assert json.loads((tmp_path / "c").read_text()) == {"a": [1, None]}
    assert names(tmp_path) == ["a", "b", "c"]


@pytest.mark.parametrize("value", [float("nan"), object()])
def test_json_that_nobody_reads_is_not_written(old, value):
    with pytest.raises((ValueError, TypeError)):
        write_json(old, [value])
    assert old.read_bytes() == b"old"


def test_full_disk(old):
    with at_most(1000), pytest.raises(OSError, match="File too large"):
        write_bytes(old, bytes(5000))
    assert old.read_bytes() == b"old"
    assert names(old.parent) == ["file"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_failure_at_any_step(old, monkeypatch, step, error):
    def fail(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(*((os, "fsync") if step == "fsync" else (Path, "replace")), fail)
        with pytest.raises(type(error)):
            write_bytes(old, b"new")
    assert old.read_bytes() == b"old"
    assert names(old.parent) == ["file"]


def test_synced_before_it_gets_its_name_and_the_folder_after(old, monkeypatch):
    events = []
    sync, replace = os.fsync, Path.replace
    monkeypatch.setattr(
        os, "fsync", lambda handle: (events.append(Path(f"/proc/self/fd/{handle}").resolve()), sync(handle))
    )
    monkeypatch.setattr(Path, "replace", lambda path, target: (events.append("rename"), replace(path, target)))
    write_bytes(old, b"new")
    draft, rename, folder = events
    assert draft.parent == old.parent
    assert draft != old
    assert rename == "rename"
    assert folder == old.parent


def test_forbidden_folder(forbidden):
    with pytest.raises(PermissionError):
        write_bytes(forbidden / "file", b"new")
    with pytest.raises(PermissionError), replace_folder(forbidden / "folder"):
        pytest.fail("there is nowhere to write")
    assert (forbidden / "file").read_bytes() == b"old"
    assert names(forbidden) == ["file"]


def test_missing_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_bytes(tmp_path / "missing" / "file", b"new")


def fill(path, text):
    with replace_folder(path) as draft:
        (draft / "deep").mkdir()
        (draft / "deep" / "file").write_text(text)


@pytest.fixture(params=["exchange", "three renames"])
def swapping(request, monkeypatch):
    """Both ways to swap two folders, whatever the system has."""
    if request.param == "three renames":
        monkeypatch.setattr(files, "_exchange", lambda one, other: False)


@pytest.mark.usefixtures("swapping")
def test_folder_is_made_and_replaced(tmp_path):
    path = tmp_path / "some" / "folder"
    fill(path, "old")
    (path / "leftover").write_text("of the old")
    fill(path, "new")
    assert (path / "deep" / "file").read_text() == "new"
    assert names(path) == ["deep"]
    assert names(path.parent) == ["folder"]


@pytest.mark.usefixtures("swapping")
def test_folder_through_a_link_replaces_what_it_points_to(tmp_path):
    fill(tmp_path / "real", "old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    fill(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "deep" / "file").read_text() == "new"
    assert names(tmp_path) == ["link", "real"]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_folder_of_a_failed_writer_vanishes(tmp_path, error):
    fill(tmp_path / "folder", "old")

    def fail():
        with replace_folder(tmp_path / "folder") as draft:
            (draft / "half").write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert names(tmp_path) == ["folder"]
    assert (tmp_path / "folder" / "deep" / "file").read_text() == "old"


def test_folder_does_not_replace_a_file(old):
    with pytest.raises(NotADirectoryError):
        fill(old, "new")
    assert old.read_bytes() == b"old"
    assert names(old.parent) == ["file"]


def test_two_writers_of_one_folder(tmp_path):
    path = tmp_path / "folder"
    with replace_folder(path) as draft:
        (draft / "file").write_text("slow")
        fill(path, "quick")
    assert (path / "file").read_text() == "slow"
    assert names(tmp_path) == ["folder"]


def test_drafts_of_the_killed_are_swept(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        patch.setattr(files.shutil, "rmtree", lambda *_, **__: None)
        patch.setattr(Path, "replace", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            write_text(tmp_path / "file", "half")
        with pytest.raises(ZeroDivisionError), replace_folder(tmp_path / "folder"):
            raise ZeroDivisionError
    (tmp_path / ".hidden").write_text("kept")
    (tmp_path / "kept.draft-1").write_text("kept")
    assert len(names(tmp_path)) == 4
    remove_drafts(tmp_path)
    assert names(tmp_path) == [".hidden", "kept.draft-1"]


class TestReplaceFile:
    def test_the_new_file_appears_when_all_is_written(self, old):
        with replace_file(old) as file:
            file.write(b"new ")
            assert old.read_bytes() == b"old"
            file.write(b"and long")
        assert old.read_bytes() == b"new and long"
        assert names(old.parent) == ["file"]

    @pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, ValueError])
    def test_a_fault_leaves_the_old_one(self, old, error):
        def break_off():
            with replace_file(old) as file:
                file.write(b"half")
                raise error

        with pytest.raises(error):
            break_off()
        assert old.read_bytes() == b"old"
        assert names(old.parent) == ["file"]


class TestNames:
    """An error names what the user wants to write, not a draft of ours."""

    def test_a_full_disk(self, old):
        with at_most(1000), pytest.raises(OSError, match="File too large") as error:
            write_bytes(old, bytes(5000))
        assert error.value.filename == str(old)

    @pytest.mark.parametrize("write", [Path.write_bytes, lambda path, data: np.save(path, np.frombuffer(data, "u1"))])
    def test_a_full_disk_in_a_folder(self, tmp_path, write):
        with at_most(1000), pytest.raises(OSError, match=r"File too large|requested and") as error:  # noqa: SIM117
            with replace_folder(tmp_path / "out") as draft:
                write(draft / "a.npy", bytes(50_000))
        assert error.value.filename.startswith(str(tmp_path / "out"))
        assert names(tmp_path) == []

    def test_a_missing_folder_as_it_was_written(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(FileNotFoundError, match="no such folder") as error:
            write_bytes(Path("missing/out.csv"), b"")
        assert error.value.filename == "missing"

    def test_errors_of_others_are_left_alone(self, old):
        for given in (ConnectionResetError(104, "reset"), OSError(2, "missing", "other"), OSError("corrupt")):
            with pytest.raises(type(given)) as error, replace_file(old):
                raise given
            assert error.value is given


class TestDead:
    """Drafts of processes that were killed."""

    def leave(self, path, how):
        """The draft of a process that is killed while it writes."""
        code = f"""
import os, pathlib, signal
from mphil.files import replace_file, replace_folder
with {how}(pathlib.Path({str(path)!r})) as draft:
    os.kill(os.getpid(), signal.SIGKILL)
"""
        ended = subprocess.run([sys.executable, "-c", code], check=False)
        assert ended.returncode == -signal.SIGKILL
        (draft,) = path.parent.glob(".*draft-*")
        return draft

    @pytest.mark.parametrize("how", ["replace_file", "replace_folder"])
    def test_the_next_writer_removes_them(self, tmp_path, monkeypatch, how):
        monkeypatch.setattr(files, "NEW_SECONDS", 0)
        draft = self.leave(tmp_path / "out", how)
        with replace_file(tmp_path / "other"):
            assert draft.exists()
        with replace_file(tmp_path / "out"):
            assert not draft.exists()
        assert names(tmp_path) == ["other", "out"]

    def test_those_of_the_living_stay(self, tmp_path, monkeypatch):
        monkeypatch.setattr(files, "NEW_SECONDS", 0)
        with replace_file(tmp_path / "out") as first, replace_folder(tmp_path / "folder") as folder:
            for writer in (replace_file(tmp_path / "out"), replace_folder(tmp_path / "folder")):
                with writer:
                    assert Path(first.name).exists()
                    assert folder.exists()

    def test_a_new_one_and_a_link_stay(self, tmp_path):
        new, link, target = tmp_path / ".out.draft-1", tmp_path / ".out.draft-2", tmp_path / "target"
        new.touch()
        target.mkdir()
        link.symlink_to(target)
        write_bytes(tmp_path / "out", b"")
        assert new.exists()
        assert link.is_symlink()
        assert target.exists()


def test_cores_are_those_we_may_use():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert cores() == len(before)


def test_one_holder_at_a_time(tmp_path):
    path = tmp_path / "file"
    first, second = (os.open(path, os.O_RDWR | os.O_CREAT) for _ in range(2))
    lock(first)
    with pytest.raises(BlockingIOError):
        lock(second, wait=False)
    waiter = threading.Thread(target=lock, args=[second])
    waiter.start()
    waiter.join(0.05)
    assert waiter.is_alive()
    os.close(first)
    waiter.join(5)
    assert not waiter.is_alive()
    os.close(second)


def test_without_handles_of_folders_files_are_written_and_nothing_is_swept(tmp_path, monkeypatch):
    """As on Windows: the calls that it lacks are not made."""
    msvcrt = types.SimpleNamespace(LK_LOCK=1, LK_NBLCK=2, locking=lambda *_: None)
    monkeypatch.setitem(sys.modules, "msvcrt", msvcrt)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.delattr(os, "geteuid")
    monkeypatch.delattr(os, "O_DIRECTORY")
    write_bytes(tmp_path / "file", b"new")
    with files.held_folder(tmp_path / "held"):
        write_text(tmp_path / "held" / "file", "text")
    files.remove_if_dead(tmp_path / "held")
    assert (tmp_path / "held" / "file").read_text() == "text"
    assert (tmp_path / "file").read_bytes() == b"new"
