"""How a command ends: exit codes mean one thing each, and an interrupt is one sentence at any moment."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mphil import files
from mphil.serve.results import Scratch
from tests.bundles import written
from tests.command import call

pytestmark = pytest.mark.promise("clean stop")

SENTENCE = "stopped; give the same command again\n"
STARTING = """
import builtins, os, signal, sys
real, number, module = builtins.__import__, int(sys.argv.pop(1)), sys.argv.pop(1)
def strike(name, *rest, **options):
    if name == module:
        builtins.__import__ = real
        os.kill(os.getpid(), number)
    return real(name, *rest, **options)
builtins.__import__ = strike
signal.signal(signal.SIGINT, signal.default_int_handler)
from mphil.__main__ import main
main()
"""


@pytest.mark.parametrize(("number", "module"), [(signal.SIGINT, "typer"), (signal.SIGTERM, "typer"), (2, "torch")])
def test_while_it_starts(number, module):
    """The signal comes in the middle of an import: of the command line, or of what the command needs."""
    command = [sys.executable, "-c", STARTING, str(int(number)), module, "methods"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (128 + number, SENTENCE), ended


class TestCodes:
    def test_usage(self, tmp_path):
        assert call("predict", tmp_path, "none.csv").code == 2
        assert call("no-such-verb").code == 2

    def test_data(self, tmp_path):
        (tmp_path / "empty.csv").write_text("smiles,active\n")
        assert call("train", tmp_path / "empty.csv", "--out", tmp_path / "out").code == 3

    def test_integrity(self, tmp_path):
        bundle = written(tmp_path / "bundle")
        (bundle / "card.html").write_text("x")
        assert call("verify", bundle).code == 4

    def test_a_full_disk_names_the_file(self, tmp_path, monkeypatch):
        bundle = written(tmp_path / "bundle")
        (tmp_path / "new.csv").write_text("smiles\nCCO\n")

        def full(handle):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        ended = call("predict", bundle, tmp_path / "new.csv", "--out", tmp_path / "out.csv")
        assert (ended.code, ended.out) == (3, "")
        assert f"cannot read or write {tmp_path / 'out.csv'}: No space left on device" in ended.err

    def test_a_missing_folder_is_named_as_it_was_written(self, tmp_path, monkeypatch):
        bundle = written(tmp_path / "bundle")
        (tmp_path / "new.csv").write_text("smiles\nCCO\n")
        monkeypatch.chdir(tmp_path)
        ended = call("predict", bundle, "new.csv", "--out", "missing/out.csv")
        assert ended.code in (2, 3)
        assert "missing" in ended.err
        assert "draft" not in ended.err
        assert str(tmp_path / "missing") not in ended.err


def test_folders_of_dead_servers_are_removed_by_the_next(monkeypatch, tmp_path):
    monkeypatch.setattr(files, "NEW_SECONDS", 0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code = (
        "import sys, time; from mphil.serve.results import Scratch; s = Scratch(); print(s.path, flush=True); input()"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, **pipes) as server:
        assert server.stdout is not None
        folder = Path(server.stdout.readline().strip())
        (folder / "answers.csv").write_text("secret")
        living = Scratch()
        assert folder.exists()
        assert folder.stat().st_mode & 0o777 == 0o700
        server.kill()
        server.wait()
        time.sleep(0.01)
    following = Scratch()
    assert not folder.exists()
    assert living.path.exists()
    for one in (living, following):
        one.close()
    assert list(tmp_path.iterdir()) == []
