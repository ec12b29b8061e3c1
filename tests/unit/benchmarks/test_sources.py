"""Files are found where users put them, believed only when they are the right ones, and asked for precisely."""

import hashlib
import os
import re
import subprocess
import sys
import time
import types
from dataclasses import replace
from pathlib import Path

import pytest
from tests.publisher import answering, cut, published, stuck

from mphil.benchmarks.sources import SOURCES, Source, data_folder, find, locate
from mphil.errors import DataError, IntegrityError, UnknownName

CONTENT = b"smiles,active\nCCO,1\n"
SHA = hashlib.sha256(CONTENT).hexdigest()
TOY = Source("toy", "toy.csv", len(CONTENT), SHA, (), "the Toy Society", "CC0", "toys")
AT_HAND = {
    "hiv": "moleculenet/HIV.csv",
    "muv": "moleculenet/muv.csv.gz",
    "toxcast": "moleculenet/toxcast_data.csv.gz",
    "good-hiv-scaffold": "good/good_hiv_scaffold_covariate.csv.gz",
    "good-hiv-size": "good/good_hiv_size_covariate.csv.gz",
    "drugood-ec50-assay": "drugood/lbap_core_ec50_assay.json",
    "drugood-ec50-scaffold": "drugood/lbap_core_ec50_scaffold.json",
    "drugood-ec50-size": "drugood/lbap_core_ec50_size.json",
    "ic50-partial": "drugood/ic50_core_chembl29_partial_labels.csv.gz",
    "mnist": "mnist/mnist.npz",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty data folder, and a user who has accepted nothing."""
    monkeypatch.setenv("MPHIL_DATA", str(tmp_path))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("MPHIL_ACCEPT_ANY_DATA", raising=False)
    return tmp_path


def put(path: Path, content=CONTENT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


class TestRegistry:
    @pytest.mark.parametrize("name", SOURCES)
    def test_every_entry_is_complete(self, name):
        source = SOURCES[name]
        assert source.name == name
        assert source.where
        assert source.licence
        assert source.folder in ("moleculenet", "good", "drugood", "mnist")
        assert (source.size is None) == (source.sha256 is None)
        for sha256 in (source.sha256 or "0" * 64, *source.also):
            assert re.fullmatch("[0-9a-f]{64}", sha256)
        assert len(source.urls) == len(set(source.urls)) != 1, "an address may die: there must be another"
        for url in source.urls:
            assert url.startswith("https://")
            assert "github" not in url or re.search("/[0-9a-f]{40}/", url), "a branch may change"

    def test_no_two_entries_claim_one_file(self):
        claimed = [(s.folder, name) for s in map(SOURCES.__getitem__, SOURCES) for name in (s.file, *s.other_names)]
        assert len(claimed) == len(set(claimed))

    def test_unknown_name(self):
        with pytest.raises(UnknownName, match="unknown data file 'hvi'; did you mean hiv"):
            locate("hvi")

    def test_needs_no_tensors(self):
        code = "import sys, mphil.benchmarks.sources; sys.exit('torch' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestRealFiles:
    @pytest.mark.parametrize(("name", "path"), AT_HAND.items())
    def test_recognised(self, shared_data, name, path):
        if not (shared_data / path).is_file():
            pytest.skip(f"{path} is not at hand")
        located = locate(name)
        assert located.path == shared_data / path
        assert located.verified
        assert located.sha256 == hashlib.sha256(located.path.read_bytes()).hexdigest()
        assert (located.path.stat().st_size == SOURCES[name].size) == (located.sha256 == SOURCES[name].sha256)

    def test_published_hiv_is_the_same_table_with_other_line_ends(self, shared_data):
        """So the checksum of the published file, which is not at hand, is known to be right."""
        source = SOURCES["hiv"]
        content = (shared_data / AT_HAND["hiv"]).read_bytes()
        if hashlib.sha256(content).hexdigest() != source.sha256:
            content = content.replace(b"\n", b"\r\n\n")
        assert len(content) == source.size
        assert hashlib.sha256(content).hexdigest() == source.sha256


class TestFolder:
    def test_chosen_by_the_user(self, monkeypatch):
        monkeypatch.setenv("HOME", "/home/somebody")
        monkeypatch.setenv("XDG_DATA_HOME", "/xdg")
        monkeypatch.setenv("MPHIL_DATA", "~/data")
        assert data_folder() == Path("/home/somebody/data")
        monkeypatch.setenv("MPHIL_DATA", "")
        assert data_folder() == Path("/xdg/mphil")
        monkeypatch.delenv("MPHIL_DATA")
        assert data_folder() == Path("/xdg/mphil")
        monkeypatch.delenv("XDG_DATA_HOME")
        assert data_folder() == Path("/home/somebody/.local/share/mphil")

    @pytest.mark.parametrize("place", ["toys/toy.csv", "toy.csv"])
    def test_found_in_its_sub_folder_or_directly(self, folder, place):
        path = put(folder / place)
        assert find(TOY) == path
        located = locate(TOY)
        assert (located.path, located.sha256, located.verified) == (path, SHA, True)
        assert located.provenance() == {"file": "toy.csv", "sha256": SHA, "verified": True}

    def test_found_under_another_name(self, folder):
        path = put(folder / "toys/toy.csv.gz")
        assert find(TOY) is None
        assert find(replace(TOY, other_names=("toy.csv.gz",))) == path

    def test_two_publications_of_one_name(self, folder):
        put(folder / "drugood/lbap_core_ic50_size.json", b"29")
        assert find("drugood-ic50-size-chembl30") is None
        path = put(folder / "drugood/chembl30/lbap_core_ic50_size.json", b"30")
        assert find("drugood-ic50-size-chembl30") == path
        assert find("drugood-ic50-size") != path

    def test_the_right_one_of_two(self, folder):
        put(folder / "toys/toy.csv", b"wrong")
        path = put(folder / "toy.csv")
        assert locate(TOY).path == path

    def test_a_folder_of_that_name_is_no_file(self, folder):
        (folder / "toys" / "toy.csv").mkdir(parents=True)
        assert find(TOY) is None


class TestMissing:
    def test_message(self, folder):
        with pytest.raises(DataError) as error:
            locate(TOY)
        assert str(error.value) == (
            "toy.csv is missing and cannot be downloaded by a program\n"
            "  file       toy.csv\n"
            f"  size       {len(CONTENT)} bytes\n"
            f"  sha256     {SHA}\n"
            "  published  the Toy Society\n"
            "  licence    CC0\n"
            f"  put it in  {folder / 'toys'}\n"
            "or set MPHIL_DATA to the folder that holds it"
        )
        assert names(folder) == []

    @pytest.mark.parametrize("name", [name for name in SOURCES if not SOURCES[name].urls])
    def test_message_of_every_source(self, folder, name):
        source = SOURCES[name]
        with pytest.raises(DataError) as error:
            locate(name)
        told = str(error.value)
        assert Path(source.file).name in told
        assert source.where in told
        assert source.sha256 is None or (source.sha256 in told and f"{source.size:,} bytes" in told)
        assert str((folder / source.folder / source.file).parent) in told


class TestWrong:
    def test_message(self, folder):
        path = put(folder / "toys/toy.csv", b"wrong")
        with pytest.raises(IntegrityError) as error:
            locate(TOY)
        told = str(error.value)
        wrong = hashlib.sha256(b"wrong").hexdigest()
        assert told.startswith(f"{path} is not the published file: 5 bytes, sha256 {wrong}\n")
        assert TOY.instructions() in told
        assert "MPHIL_ACCEPT_ANY_DATA=1" in told
        assert path.read_bytes() == b"wrong"

    @pytest.mark.parametrize("way", ["argument", "environment"])
    def test_accepted_and_recorded(self, folder, monkeypatch, way):
        put(folder / "toys/toy.csv", b"wrong")
        if way == "environment":
            monkeypatch.setenv("MPHIL_ACCEPT_ANY_DATA", "1")
        located = locate(TOY, accept_any=way == "argument")
        wrong = hashlib.sha256(b"wrong").hexdigest()
        assert located.provenance() == {"file": "toy.csv", "sha256": wrong, "verified": False, "expected": SHA}

    @pytest.mark.parametrize("value", ["", "0", "no"])
    def test_accepted_only_when_said(self, folder, monkeypatch, value):
        put(folder / "toys/toy.csv", b"wrong")
        monkeypatch.setenv("MPHIL_ACCEPT_ANY_DATA", value)
        with pytest.raises(IntegrityError):
            locate(TOY)

    def test_accepting_does_not_prefer_it(self, folder):
        put(folder / "toys/toy.csv", b"wrong")
        put(folder / "toy.csv")
        assert locate(TOY, accept_any=True).verified

    def test_unknown_checksum_takes_any_and_records_it(self, folder):
        put(folder / "toys/toy.csv")
        located = locate(replace(TOY, size=None, sha256=None))
        assert located.provenance() == {"file": "toy.csv", "sha256": SHA, "verified": False, "expected": None}

    def test_copy_with_the_same_contents(self, folder):
        put(folder / "toys/toy.csv", b"copy")
        assert locate(replace(TOY, also=(hashlib.sha256(b"copy").hexdigest(),))).verified


class TestDownload:
    def test_once(self, folder):
        with published(CONTENT) as publisher:
            source = replace(TOY, urls=(publisher.url,))
            assert find(source) is None
            assert locate(source) == locate(source)
            assert len(publisher.asked) == 1
        assert names(folder) == ["toys/toy.csv"]
        assert locate(source).verified

    def test_not_when_it_is_there(self, folder):
        put(folder / "toy.csv")
        with published(CONTENT) as publisher:
            locate(replace(TOY, urls=(publisher.url,)))
            assert publisher.asked == []

    def test_a_wrong_file_is_not_replaced(self, folder):
        path = put(folder / "toy.csv", b"mine")
        with published(CONTENT) as publisher, pytest.raises(IntegrityError):
            locate(replace(TOY, urls=(publisher.url,)))
        assert path.read_bytes() == b"mine"
        assert publisher.asked == []

    def test_of_another_file(self, folder):
        with published(CONTENT[::-1]) as publisher, pytest.raises(IntegrityError) as error:
            locate(source := replace(TOY, urls=(publisher.url,)))
        assert str(error.value).startswith(f"toy.csv is missing: {publisher.url} gave another file")
        assert source.instructions() in str(error.value)
        assert names(folder) == []

    def test_of_another_file_that_is_accepted(self, folder):
        with published(b"another") as publisher:
            located = locate(replace(TOY, urls=(publisher.url,)), accept_any=True)
        assert located.path.read_bytes() == b"another"
        assert not located.verified

    def test_in_vain(self, folder):
        with published(CONTENT, behaviour=answering(404)) as publisher, pytest.raises(DataError) as error:
            locate(source := replace(TOY, urls=(publisher.url,)))
        told = str(error.value)
        assert told.startswith(
            f"toy.csv is missing: cannot download {publisher.url}: the server answered 404 Not Found"
        )
        assert source.instructions() in told
        assert publisher.url in source.instructions()

    def test_nowhere_to_save_it(self, folder, monkeypatch):
        monkeypatch.setenv("MPHIL_DATA", str(put(folder / "file")))
        with published(CONTENT) as publisher, pytest.raises(DataError, match="toy.csv is missing and cannot be saved"):
            locate(replace(TOY, urls=(publisher.url,)))
        assert publisher.asked == []


class TestSeveralAddresses:
    @pytest.fixture(autouse=True)
    def impatient(self, monkeypatch):
        monkeypatch.setattr(
            "mphil.benchmarks.fetch.time", types.SimpleNamespace(sleep=lambda seconds: None, monotonic=time.monotonic)
        )

    def test_dead_then_truncated_then_good(self, folder):
        told = []
        with (
            published(CONTENT, behaviour=answering(404)) as dead,
            published(CONTENT, behaviour=stuck(7)) as truncated,
            published(CONTENT) as good,
        ):
            source = replace(TOY, urls=(dead.url, truncated.url, good.url))
            located = locate(source, tell=told.append)
        assert (located.path.read_bytes(), located.verified) == (CONTENT, True)
        assert good.asked == [("/file", "bytes=7-", None)], "what the second had sent is not asked for again"
        assert [line.split(": ")[0] for line in told] == [f"cannot download {one.url}" for one in (dead, truncated)]
        assert names(folder) == ["toys/toy.csv"]

    def test_nobody_listens_at_the_first(self, folder):
        with published(CONTENT) as gone:
            pass
        with published(CONTENT) as good:
            assert locate(replace(TOY, urls=(gone.url, good.url))).verified

    def test_pieces_that_do_not_fit_are_brought_again(self, folder):
        with published(b"x" * len(CONTENT), behaviour=stuck(7)) as other, published(CONTENT) as good:
            assert locate(replace(TOY, urls=(other.url, good.url))).verified
        assert [asked[1] for asked in good.asked] == ["bytes=7-", None]

    def test_without_a_checksum_pieces_are_not_mixed(self, folder):
        with published(b"x" * len(CONTENT), behaviour=stuck(7)) as other, published(CONTENT) as good:
            located = locate(replace(TOY, urls=(other.url, good.url), size=None, sha256=None))
        assert located.path.read_bytes() == CONTENT
        assert good.asked == [("/file", None, None)]

    def test_resumed_after_a_cut(self, folder):
        with published(CONTENT, behaviour=cut(8)) as publisher:
            assert locate(replace(TOY, urls=(publisher.url,))).verified
        assert [asked[1] for asked in publisher.asked] == [None, "bytes=8-", "bytes=16-"]

    def test_another_file_everywhere(self, folder):
        with published(b"one") as one, published(b"other") as other, pytest.raises(IntegrityError) as error:
            locate(source := replace(TOY, size=None, urls=(one.url, other.url)))
        assert f"{one.url} gave another file" in str(error.value)
        assert f"{other.url} gave another file" in str(error.value)
        assert source.instructions() in str(error.value)
        assert names(folder) == []

    def test_another_file_here_and_nothing_there(self, folder):
        with (
            published(b"one") as one,
            published(CONTENT, behaviour=answering(404)) as other,
            pytest.raises(DataError, match="404 Not Found"),
        ):
            locate(replace(TOY, size=None, urls=(one.url, other.url)))
        assert names(folder) == []


def test_fixture_shows_the_folder_to_the_code(shared_data):
    assert data_folder() == shared_data
    assert os.environ["MPHIL_DATA"] == str(shared_data)
