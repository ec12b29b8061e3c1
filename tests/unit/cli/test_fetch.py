"""`mphil benchmarks fetch` brings files, checks those that are there, and says what a person has to do."""

import hashlib
from dataclasses import replace

import pytest

from mphil.benchmarks.sources import SOURCES
from tests.command import call
from tests.publisher import answering, published

CONTENT = b"smiles,HIV_active\nCCO,1\n"
SHA = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MPHIL_DATA", str(tmp_path))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("MPHIL_ACCEPT_ANY_DATA", raising=False)
    return tmp_path


@pytest.fixture
def publish(monkeypatch):
    """Lets a file be published at these addresses, with this content."""

    def change(name, *urls, sha256=SHA):
        size = None if sha256 is None else len(CONTENT)
        source = replace(SOURCES[name], urls=urls, size=size, sha256=sha256, also=())
        monkeypatch.setitem(SOURCES._entries, name, source)

    return change


def test_downloads_and_checks(folder, publish):
    with published(CONTENT, behaviour=answering(404)) as dead, published(CONTENT) as good:
        publish("hiv", dead.url, good.url)
        ended = call("benchmarks", "fetch", "good-hiv-scaffold", "good-hiv-size")
    path = folder / "moleculenet" / "HIV.csv"
    assert (ended.code, path.read_bytes()) == (0, CONTENT)
    assert ended.out == f"{path}: downloaded, {len(CONTENT)} bytes, checksum verified\n"
    assert ended.err == (f"cannot download {dead.url}: the server answered 404 Not Found; trying the next address\n")
    ended = call("benchmarks", "fetch", "good-hiv-scaffold")
    assert ended.out == f"{path}: already there, {len(CONTENT)} bytes, checksum verified\n"


def test_wrong_checksum_is_refused(folder, publish):
    with published(CONTENT[::-1]) as other:
        publish("hiv", other.url)
        ended = call("benchmarks", "fetch", "good-hiv-scaffold")
    assert ended.code == 4
    assert "gave another file" in ended.err
    assert "To get it by hand:" in ended.err
    assert not [path for path in folder.rglob("*") if path.is_file()]


def test_unknown_checksum_is_a_warning(folder, publish):
    with published(CONTENT) as publisher:
        publish("pcba", publisher.url, sha256=None)
        ended = call("benchmarks", "fetch", "good-pcba-size")
    assert ended.code == 0
    assert "not verified" in ended.out
    unknown = "warning: no checksum of the published file is known; "
    assert ended.err == f"{unknown}sha256 of this one is {SHA}, which every result records\n"


def test_by_hand(folder):
    """The others are fetched all the same, and every file that is missing is explained."""
    ended = call("benchmarks", "fetch", "drugood-ec50-assay", "drugood-ic50-size", "good-motif-basis")
    assert ended.code == 3
    assert ended.out == "good-motif-basis is generated; there is nothing to fetch\n"
    for text in ("lbap_core_ec50_assay.json", "lbap_core_ic50_size.json", str(folder / "drugood"), "drugood.github.io"):
        assert text in ended.err


def test_unknown_name(folder):
    ended = call("benchmarks", "fetch", "good-hvi-scaffold")
    assert ended.code == 2
    assert "good-hiv-scaffold" in ended.err
