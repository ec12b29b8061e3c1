"""Traversal: whatever spelling of a path is sent, nothing outside the folders that are served is read."""

import itertools

import pytest

from mphil.errors import MphilError
from mphil.methods.base import METHODS
from mphil.model.bundle import read_bundle
from mphil.training.checkpoint import Checkpoints
from tests.bundles import written
from tests.command import call
from tests.security.test_bundles import seal, seal_manifest

pytestmark = pytest.mark.promise("traversal")

SECRET = "root:x:0:0"
UP = (
    "../",
    "..%2f",
    "%2e%2e/",
    "%2e%2e%2f",
    "..%252f",
    "%252e%252e%252f",
    "..;/",
    "....//",
    "..\\",
    "..%5c",
    "%2e%2e%5c",
)
UP += (
    "..%c0%af",
    "%c0%ae%c0%ae/",
    "..%ef%bc%8f",
    "..%00/",
    "./../",
    "/../",
    "..//",
    "%2e./",
    ".%2e/",
    "..%u2215",
    "\\..\\",
)
TARGETS = ("etc/passwd", "etc%2fpasswd", "etc%252fpasswd", "proc/self/environ")
WHOLE = (
    "/etc/passwd",
    "//etc/passwd",
    "%2fetc%2fpasswd",
    "%252fetc%252fpasswd",
    "file:///etc/passwd",
    "file:%2f%2f/etc/passwd",
)
WHOLE += ("/proc/self/cwd/pyproject.toml", "C:/windows/win.ini", "~root/.profile", "etc/passwd%00.js", "%00/etc/passwd")
PLACES = (
    "/static/{}",
    "/{}",
    "/api/jobs/{}",
    "/api/jobs/{}/rows",
    "/api/jobs/{}/result.csv",
    "/map/{}",
    "/card/{}",
    "/docs/{}",
)


def paths():
    deep = [up * depth + target for up, depth, target in itertools.product(UP, (1, 3, 8), TARGETS)]
    return [place.format(path) for place in PLACES for path in (*deep, *WHOLE)]


def test_routes(client, amount, figure):
    asked = paths()[:: amount("one path of so many")]
    for path in asked:
        answer = client.get(path.encode("ascii", "ignore").decode().replace(" ", ""))
        assert answer.status in (400, 404, 405, 422), (path, answer.status)
        assert SECRET.encode() not in answer.body
        assert b"[project]" not in answer.body
    figure(f"{len(asked):,} paths on {len(PLACES)} routes, none answered")


NAMES = (
    "../secret",
    "../../etc/passwd",
    "/etc/passwd",
    "..",
    ".",
    "~/x",
    "a/../../b",
    "file:///etc/passwd",
    "%2e%2e/x",
)


@pytest.mark.parametrize("name", [NAMES[0], *(pytest.param(name, marks=pytest.mark.slow) for name in NAMES[1:])])
def test_names_that_are_no_paths(tmp_path, monkeypatch, name):
    """What is looked up by name in a folder of the package or of a run."""
    monkeypatch.chdir(tmp_path)
    for arguments in (
        ("train", "--benchmark", name, "--method", "erm", "--out", tmp_path / "run"),
        ("train", "--benchmark", "good-motif-basis", "--method", name, "--out", tmp_path / "run"),
        ("train", "--benchmark", "good-motif-basis", "--method", "erm", "--preset", name, "--out", tmp_path / "run"),
        ("methods", name),
        ("benchmarks", "show", name),
        ("lab", "run", name, "--out", tmp_path / "results", "--dirty"),
    ):
        ended = call(*arguments)
        assert ended.code in (2, 3), (arguments, ended)
        assert SECRET not in ended.out + ended.err
        assert "Traceback" not in ended.err
    assert list(tmp_path.iterdir()) == []
    with pytest.raises((KeyError, MphilError)):
        METHODS[name]


@pytest.mark.parametrize("name", NAMES)
def test_names_in_stored_files(tmp_path, name):
    folder = written(tmp_path / "bundle")
    seal(folder)
    seal_manifest(folder, files={name: {"sha256": "0" * 64, "bytes": 1}})
    with pytest.raises(MphilError) as refusal:
        read_bundle(folder)
    assert SECRET not in str(refusal.value)
    with pytest.raises(ValueError, match="cannot be a file name"):
        Checkpoints(tmp_path / "run").write({name: {}}, {})
