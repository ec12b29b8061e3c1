"""`mphil serve` as a process: it says where it is, and Ctrl-C ends it cleanly, whatever it is doing."""

import os
import re
import signal
import socket
import subprocess
import sys

import pytest

from tests.command import call, wait_until
from tests.served import Client, bundle_folder

LISTENING = re.compile(r"open this page: http://127\.0\.0\.1:(\d+)")


@pytest.fixture
def start(tmp_path):
    """Starts servers whose temporary files are in a folder of their own, and sees to it that they end."""
    begun = []

    def begin(*arguments):
        number = len(begun)
        out, err = (tmp_path / f"{number}.{end}" for end in ("out", "err"))
        (scratch := tmp_path / f"scratch-{number}").mkdir()
        with out.open("w") as stdout, err.open("w") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "mphil", "serve", str(bundle_folder()), "--port", "0", *arguments],
                stdout=stdout,
                stderr=stderr,
                env=os.environ | {"TMPDIR": str(scratch), "OMP_NUM_THREADS": "1"},
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )
        begun.append(process)
        wait_until(lambda: LISTENING.search(out.read_text()) or process.poll() is not None)
        match = LISTENING.search(out.read_text())
        assert match, err.read_text()
        return process, Client(int(match[1])), scratch, err

    yield begin
    for process in begun:
        if process.poll() is None:
            process.kill()
        process.wait()


@pytest.mark.slow
def test_ctrl_c_ends_it_cleanly_while_a_file_is_under_way(start):
    process, client, scratch, err = start()
    wait_until(lambda: client.get("/readyz").status == 200)
    job = client.send(b"smiles\n" + b"CCO\n" * 90_000).json()["id"]
    wait_until(lambda: client.get(f"/api/jobs/{job}").json()["rows_done"] > 0)
    assert any(scratch.iterdir())

    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert err.read_text() == "stopped\n"
    assert list(scratch.iterdir()) == []
    with pytest.raises(ConnectionRefusedError):
        client.get("/healthz")


def test_a_polite_kill_ends_it_too(commands):
    with socket.create_server(("127.0.0.1", 0)) as free:
        client = Client(free.getsockname()[1])
    process = commands.start("serve", bundle_folder(), "--port", client.port)
    wait_until(lambda: listens(client))
    process.send(signal.SIGTERM)
    ended = process.wait()
    assert (ended.code, ended.err) == (143, "stopped\n")
    assert client.address in ended.out


def listens(client):
    try:
        return client.get("/healthz").status == 200
    except ConnectionRefusedError:
        return False


def test_a_port_that_is_taken_is_an_error_with_a_remedy():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = call("serve", bundle_folder(), "--port", port)
    assert ended.code == 2
    assert f"cannot listen on 127.0.0.1 port {port}" in ended.err
    assert "--port 0 takes a free port" in ended.err


def test_an_address_that_is_not_ours_is_an_error():
    ended = call("serve", bundle_folder(), "--host", "no.such.host.invalid")
    assert ended.code == 2
    assert "--host no.such.host.invalid" in ended.err
    assert "there is no password" in ended.err


def test_a_folder_without_a_bundle_is_an_error(tmp_path):
    ended = call("serve", tmp_path)
    assert ended.code == 2
    assert str(tmp_path) in ended.err


def test_help_has_an_example():
    ended = call("serve", "--help")
    assert ended.code == 0
    assert "mphil serve runs/first/bundle --open" in " ".join(ended.out.split())


def test_without_the_extra_it_says_what_to_install(tmp_path):
    code = (
        "import sys; sys.modules['fastapi'] = None; sys.argv = ['mphil', 'serve', 'x']\n"
        "from mphil.cli import main\nmain()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 2
    assert "pip install 'mphil[serve]'" in ended.stderr
