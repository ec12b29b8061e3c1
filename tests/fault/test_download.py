"""A download that is killed, interrupted or starved goes on where it stopped and ends with the same bytes."""

import hashlib
import random
import resource
import signal
import subprocess
import sys

import pytest

from mphil.benchmarks.fetch import fetch
from tests.command import wait_until
from tests.publisher import held, published, well

CONTENT = random.Random(0).randbytes(3_000_000)
SHA = hashlib.sha256(CONTENT).hexdigest()
CODE = (
    "import sys, pathlib, mphil.benchmarks.fetch as m; "
    "m.fetch(sys.argv[1], pathlib.Path(sys.argv[2]), sha256=sys.argv[3:])"
)


@pytest.fixture(autouse=True)
def _direct(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def target(tmp_path):
    return tmp_path / "file"


@pytest.fixture(params=["checked", pytest.param("unchecked", marks=pytest.mark.slow)])
def sha256(request):
    """The checksum to expect, if any: without one, the version the server tells must suffice."""
    return [SHA] if request.param == "checked" else []


def arrived(target):
    part = target.with_name(".file.part")
    return part.stat().st_size if part.exists() else 0


def names(target):
    return sorted(path.name for path in target.parent.iterdir())


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_stopped_three_times(target, sha256, number):
    with published(CONTENT) as publisher:
        for _ in range(3):
            before, piece = arrived(target), random.randint(1, 900_000)
            publisher.behaviour = held(piece)
            command = [sys.executable, "-c", CODE, publisher.url, str(target), *sha256]
            with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
                wait_until(lambda goal=before + piece: arrived(target) == goal)
                process.send_signal(number)
            assert process.returncode != 0
            assert not target.exists()
        publisher.behaviour = well
        begun = arrived(target)
        fetch(publisher.url, target, sha256=sha256)
        assert publisher.asked[-1] == ("/file", f"bytes={begun}-", '"one"')
    assert target.read_bytes() == CONTENT
    assert names(target) == ["file"]


def test_killed_while_the_file_changes(target):
    """The rest of another version is not glued to the beginning of the old one."""
    with published(CONTENT[::-1], etag='"old"', behaviour=held(1_000_000)) as publisher:
        with subprocess.Popen([sys.executable, "-c", CODE, publisher.url, str(target)]) as process:
            wait_until(lambda: arrived(target) == 1_000_000)
            process.kill()
        publisher.content, publisher.etag, publisher.behaviour = CONTENT, '"new"', well
        fetch(publisher.url, target)
        assert publisher.asked[-1] == ("/file", "bytes=1000000-", '"old"')
    assert target.read_bytes() == CONTENT


def test_full_disk(target, sha256):
    """A limit on the size of files stands for a disk without space."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with published(CONTENT) as publisher:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
        try:
            with pytest.raises(OSError, match="File too large"):
                fetch(publisher.url, target, sha256=sha256)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert not target.exists()
        assert len(publisher.asked) == 1
        assert arrived(target) == 1_000_000
        fetch(publisher.url, target, sha256=sha256)
        assert publisher.asked[-1][1] == "bytes=1000000-"
    assert target.read_bytes() == CONTENT
    assert names(target) == ["file"]
