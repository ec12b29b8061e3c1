"""One holder per folder, whatever becomes of it."""

import os
import subprocess
import sys

import pytest

from mphil.errors import IntegrityError
from mphil.files import write_text
from mphil.training.lock import lock_run

HOLD = """
import sys
from pathlib import Path
from mphil.training.lock import lock_run
with lock_run(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock of `tmp_path` until its input ends or it is killed."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_second_process_is_refused_until_the_first_is_killed(tmp_path, holder):
    refusal = f"in use by process {holder.pid}; wait for it or choose another --out"
    with pytest.raises(IntegrityError, match=refusal), lock_run(tmp_path):
        pytest.fail("two holders")
    holder.kill()
    holder.wait()
    with lock_run(tmp_path):
        assert (tmp_path / ".lock").read_text() == f"{os.getpid()}\n"


def test_second_open_in_one_process_is_refused(tmp_path):
    with lock_run(tmp_path):
        with pytest.raises(IntegrityError, match=f"process {os.getpid()}"), lock_run(tmp_path):
            pytest.fail("two holders")
        with pytest.raises(IntegrityError), lock_run(tmp_path):
            pytest.fail("a refusal must not release the lock of the holder")


def test_released_after_success_and_after_an_error(tmp_path):
    with lock_run(tmp_path):
        pass
    with pytest.raises(ZeroDivisionError), lock_run(tmp_path):
        raise ZeroDivisionError
    with lock_run(tmp_path):
        pass


def test_other_folders_are_free_and_missing_ones_are_made(tmp_path):
    with lock_run(tmp_path / "one"), lock_run(tmp_path / "deep" / "two"):
        assert (tmp_path / "deep" / "two").is_dir()


def test_holder_without_a_number_yet(tmp_path):
    with lock_run(tmp_path):
        (tmp_path / ".lock").write_text("")
        with pytest.raises(IntegrityError, match="in use by another process"), lock_run(tmp_path):
            pytest.fail("two holders")


def test_new_holder_sweeps_drafts_and_nothing_else(tmp_path):
    write_text(tmp_path / "result.json", "kept")
    (tmp_path / ".result.json.draft-0123456789ab").write_text("half")
    (tmp_path / ".hidden").write_text("kept")
    with lock_run(tmp_path):
        assert sorted(p.name for p in tmp_path.iterdir()) == [".hidden", ".lock", "result.json"]
