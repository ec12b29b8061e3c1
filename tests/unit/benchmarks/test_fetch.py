"""Whatever the server does, the target holds the whole file or was never made."""

import hashlib
import io
import json
import socket
import ssl
import threading
from urllib.error import URLError

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from tests.command import wait_until
from tests.publisher import (
    answering,
    claiming,
    cut,
    dripping,
    endless,
    held,
    in_turn,
    moved,
    nameless,
    published,
    silent,
    well,
    without_ranges,
    wrong_range,
)

from mphil import limits
from mphil.benchmarks import fetch as module
from mphil.benchmarks.fetch import Patience, fetch
from mphil.errors import DataError, IntegrityError

CONTENT = bytes(range(256)) * 40
SHA = hashlib.sha256(CONTENT).hexdigest()
EXPECTED = {"size": len(CONTENT), "sha256": [SHA]}
HASTY = Patience(pause=0)
IMPATIENT = Patience(stall=0.2, attempts=2, pause=0)


@pytest.fixture(autouse=True)
def _direct(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def publisher():
    with published(CONTENT) as publisher:
        yield publisher


@pytest.fixture
def target(tmp_path):
    return tmp_path / "file.csv"


def names(target):
    return sorted(path.name for path in target.parent.iterdir())


def part_of(target):
    return target.with_name(f".{target.name}.part")


def leave_part(target, content, url, validator='"one"'):
    """What an earlier download left behind."""
    part_of(target).write_bytes(content)
    part_of(target).with_suffix(".part.json").write_text(json.dumps({"url": url, "validator": validator}))


def assert_there(target, content=CONTENT):
    assert target.read_bytes() == content
    assert names(target) == [target.name]


def assert_nothing_kept(target):
    assert names(target) == []


class TestWell:
    @pytest.mark.parametrize("behaviour", [well, without_ranges, nameless, dripping(3000, 0.01)])
    @pytest.mark.parametrize("expected", [EXPECTED, {}])
    def test_arrives(self, publisher, target, behaviour, expected, capsys):
        publisher.behaviour = behaviour
        assert fetch(publisher.url, target, **expected) == SHA
        assert_there(target)
        assert publisher.asked == [("/file", None, None)]
        assert capsys.readouterr() == ("", "")

    def test_empty_file(self, target):
        with published(b"") as publisher:
            fetch(publisher.url, target)
        assert_there(target, b"")

    def test_there_already(self, publisher, target):
        target.write_bytes(CONTENT)
        assert fetch(publisher.url, target, **EXPECTED) == SHA
        assert publisher.asked == []
        assert_there(target)

    def test_something_else_is_replaced(self, publisher, target):
        target.write_bytes(b"old")
        fetch(publisher.url, target, **EXPECTED)
        assert_there(target)

    def test_old_file_stays_when_the_new_one_does_not_come(self, publisher, target):
        target.write_bytes(b"old")
        publisher.behaviour = answering(404)
        with pytest.raises(DataError):
            fetch(publisher.url, target, **EXPECTED)
        assert_there(target, b"old")

    def test_bar_on_a_terminal(self, publisher, target, monkeypatch):
        screen = io.StringIO()
        monkeypatch.setattr(module, "Console", lambda **_: Console(file=screen, force_terminal=True, width=100))
        fetch(publisher.url, target, **EXPECTED)
        assert "downloading file.csv" in screen.getvalue()
        assert "10.2/10.2 kB" in screen.getvalue()


class TestResume:
    @pytest.mark.parametrize("expected", [EXPECTED, {}])
    def test_only_the_rest_is_asked_for(self, publisher, target, expected):
        leave_part(target, CONTENT[:4000], publisher.url)
        fetch(publisher.url, target, **expected)
        assert_there(target)
        assert publisher.asked == [("/file", "bytes=4000-", '"one"')]

    def test_cut_again_and_again(self, publisher, target):
        """Far more often than attempts in vain would be made."""
        publisher.behaviour = cut(1000)
        fetch(publisher.url, target, **EXPECTED, patience=HASTY)
        assert_there(target)
        assert [asked[1] for asked in publisher.asked] == [None, *(f"bytes={n}000-" for n in range(1, 11))]

    def test_all_had_arrived(self, publisher, target):
        leave_part(target, CONTENT, publisher.url)
        fetch(publisher.url, target, **EXPECTED)
        assert_there(target)
        assert len(publisher.asked) == 1

    def test_server_that_ignores_ranges(self, publisher, target):
        publisher.behaviour = without_ranges
        leave_part(target, CONTENT[:4000], publisher.url)
        fetch(publisher.url, target, **EXPECTED)
        assert_there(target)

    def test_server_that_sends_another_range(self, publisher, target):
        publisher.behaviour = wrong_range
        leave_part(target, CONTENT[:4000], publisher.url)
        fetch(publisher.url, target, **EXPECTED, patience=HASTY)
        assert_there(target)
        assert [asked[1] for asked in publisher.asked] == ["bytes=4000-", None]

    def test_file_that_changed_meanwhile(self, publisher, target):
        """The server's version is another one, which it says: no checksum is needed to begin anew."""
        leave_part(target, b"x" * 4000, publisher.url, validator='"zero"')
        fetch(publisher.url, target)
        assert_there(target)
        assert publisher.asked == [("/file", "bytes=4000-", '"zero"')]

    @pytest.mark.parametrize("etag", [None, 'W/"weak"'])
    def test_without_a_version_the_checksum_decides(self, target, etag):
        with published(CONTENT, etag=etag) as publisher:
            leave_part(target, CONTENT[:4000], publisher.url, validator=etag)
            fetch(publisher.url, target, **EXPECTED)
            assert publisher.asked == [("/file", "bytes=4000-", None)]
            assert_there(target)

    @pytest.mark.parametrize("etag", [None, 'W/"weak"'])
    def test_without_version_and_checksum_it_begins_anew(self, target, etag):
        with published(CONTENT, etag=etag) as publisher:
            leave_part(target, b"x" * 4000, publisher.url, validator=etag)
            fetch(publisher.url, target)
            assert publisher.asked == [("/file", None, None)]
            assert_there(target)

    def test_damaged_part_is_noticed_and_brought_again(self, publisher, target):
        leave_part(target, b"x" * 4000, publisher.url)
        fetch(publisher.url, target, **EXPECTED)
        assert_there(target)
        assert [asked[1] for asked in publisher.asked] == ["bytes=4000-", None]

    @pytest.mark.parametrize("length", [len(CONTENT) + 1, 2 * len(CONTENT)])
    @pytest.mark.parametrize("expected", [EXPECTED, {}])
    def test_part_that_is_too_long(self, publisher, target, length, expected):
        leave_part(target, b"x" * length, publisher.url)
        fetch(publisher.url, target, **expected, patience=HASTY)
        assert_there(target)

    @pytest.mark.parametrize("note", ["", "[]", "{}", '{"url": 1}', '{"url": "http://127.0.0.1/", "validator": "a"}'])
    def test_part_of_unknown_origin(self, publisher, target, note):
        leave_part(target, b"x" * 4000, publisher.url)
        part_of(target).with_suffix(".part.json").write_text(note)
        fetch(publisher.url, target)
        assert_there(target)
        assert publisher.asked == [("/file", None, None)]


class TestFaults:
    @pytest.mark.parametrize("status", [301, 304, 400, 401, 403, 404, 410, 501])
    def test_refused_at_once(self, publisher, target, status):
        publisher.behaviour = answering(status)
        with pytest.raises(DataError, match="cannot download http://127.0.0.1"):
            fetch(publisher.url, target, **EXPECTED)
        assert len(publisher.asked) == 1
        assert_nothing_kept(target)

    @pytest.mark.parametrize("status", [429, 500, 503])
    def test_passing_fault(self, publisher, target, status):
        publisher.behaviour = in_turn(answering(status), answering(status))
        fetch(publisher.url, target, **EXPECTED, patience=HASTY)
        assert_there(target)

    def test_lasting_fault(self, publisher, target):
        publisher.behaviour = answering(500)
        with pytest.raises(DataError, match="answered 500 Internal Server Error; 0 bytes are kept"):
            fetch(publisher.url, target, **EXPECTED, patience=HASTY)
        assert len(publisher.asked) == HASTY.attempts
        assert_nothing_kept(target)

    def test_pauses_grow(self, publisher, target, monkeypatch):
        pauses = []
        monkeypatch.setattr(module.time, "sleep", pauses.append)
        publisher.behaviour = answering(503)
        with pytest.raises(DataError):
            fetch(publisher.url, target)
        assert pauses == [1, 2, 4]

    @pytest.mark.parametrize("arrived", [0, 4000])
    def test_server_that_falls_silent(self, publisher, target, arrived):
        publisher.behaviour = in_turn(held(arrived), silent, silent)
        with pytest.raises(DataError, match=f"timed out\\); {arrived:,} bytes are kept"):
            fetch(publisher.url, target, **EXPECTED, patience=IMPATIENT)
        publisher.behaviour = well
        fetch(publisher.url, target, **EXPECTED)
        assert publisher.asked[-1][1] == (f"bytes={arrived}-" if arrived else None)
        assert_there(target)

    def test_never_silent_but_too_slow(self, publisher, target):
        publisher.behaviour = dripping(1, 0.01)
        with pytest.raises(DataError, match="not done after 0 seconds; [0-9,]+ bytes are kept"):
            fetch(publisher.url, target, **EXPECTED, patience=Patience(total=0.3))
        assert 0 < part_of(target).stat().st_size < len(CONTENT)
        publisher.behaviour = well
        fetch(publisher.url, target, **EXPECTED)
        assert_there(target)

    def test_nobody_there(self, publisher, target):
        with published(CONTENT) as gone:
            pass
        with pytest.raises(DataError, match="Connection refused"):
            fetch(gone.url, target, patience=HASTY)
        assert_nothing_kept(target)

    @pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://127.0.0.1/a", "data:,a", "/etc/hostname", ""])
    def test_other_kinds_of_address(self, target, url):
        with pytest.raises(DataError, match="no address to follow"):
            fetch(url, target)
        assert_nothing_kept(target)

    @pytest.mark.parametrize("fault", [socket.gaierror(-2, "no such name"), ssl.SSLCertVerificationError("expired")])
    def test_not_tried_again_when_it_is_in_vain(self, target, monkeypatch, fault):
        attempts = []

        def fail(*_, **__):
            attempts.append(1)
            raise URLError(fault)

        monkeypatch.setattr(module._OPENER, "open", fail)
        with pytest.raises(DataError, match="cannot download https://name.invalid/file: .*(no such name|expired)"):
            fetch("https://name.invalid/file", target)
        assert attempts == [1]
        assert_nothing_kept(target)

    @pytest.mark.parametrize("url", ["http://[::1", "http://exa mple/", "http://é/ü"])
    def test_addresses_that_lead_nowhere(self, target, url):
        with pytest.raises(DataError, match="cannot download"):
            fetch(url, target, patience=HASTY)
        assert_nothing_kept(target)


class TestLies:
    @pytest.mark.parametrize("length", [0, 100, len(CONTENT) - 1, len(CONTENT) + 1, 10**15])
    def test_about_a_known_length(self, publisher, target, length):
        publisher.behaviour = claiming(length)
        with pytest.raises(IntegrityError, match=f"offers {length:,} bytes, expected 10,240; nothing was kept"):
            fetch(publisher.url, target, **EXPECTED)
        assert_nothing_kept(target)

    def test_short_length_is_found_out_by_the_checksum(self, publisher, target):
        publisher.behaviour = claiming(100)
        with pytest.raises(IntegrityError, match="gave another file"):
            fetch(publisher.url, target, sha256=[SHA])
        assert_nothing_kept(target)

    def test_long_length_is_an_unfinished_file(self, publisher, target):
        publisher.etag = None
        publisher.behaviour = claiming(len(CONTENT) + 1)
        with pytest.raises(DataError, match="ended after 10,240 of 10,241 bytes"):
            fetch(publisher.url, target, patience=HASTY)
        assert not target.exists()

    @pytest.mark.parametrize("size", [len(CONTENT), None])
    def test_wrong_contents(self, target, size):
        with published(CONTENT[::-1]) as publisher, pytest.raises(IntegrityError, match=f"expected {SHA}; it was not"):
            fetch(publisher.url, target, size=size, sha256=[SHA])
        assert len(publisher.asked) == 1
        assert_nothing_kept(target)

    @pytest.mark.parametrize("expected", [EXPECTED, {}])
    def test_more_than_the_cap(self, publisher, target, expected, monkeypatch):
        monkeypatch.setattr(module, "MAX_DOWNLOAD_BYTES", 50_000)
        publisher.behaviour = endless
        with pytest.raises(IntegrityError, match="does not end, expected (at most 50,000|10,240) bytes"):
            fetch(publisher.url, target, **expected)
        assert_nothing_kept(target)

    def test_more_than_the_cap_announced(self, publisher, target):
        publisher.behaviour = claiming(limits.MAX_DOWNLOAD_BYTES + 1)
        with pytest.raises(IntegrityError, match="offers 2,147,483,649 bytes, expected at most 2,147,483,648"):
            fetch(publisher.url, target)
        assert_nothing_kept(target)

    def test_nothing_left_of_another_file(self, publisher, target):
        """All of a shorter file had arrived."""
        leave_part(target, CONTENT, publisher.url)
        with pytest.raises(IntegrityError, match="offers 10,240 bytes, expected 10,241"):
            fetch(publisher.url, target, size=len(CONTENT) + 1)
        assert_nothing_kept(target)


class TestRedirects:
    @pytest.mark.parametrize("to", ["/elsewhere", "{host}/elsewhere", "//{bare}/elsewhere"])
    def test_to_another_web_address(self, publisher, target, to):
        host = publisher.url.removesuffix("/file")
        publisher.behaviour = moved(to.format(host=host, bare=host.removeprefix("http://")))
        fetch(publisher.url, target, **EXPECTED)
        assert_there(target)
        assert [asked[0] for asked in publisher.asked] == ["/file", "/elsewhere"]

    def test_the_rest_is_asked_for_there_too(self, publisher, target):
        publisher.behaviour = moved("/elsewhere")
        leave_part(target, CONTENT[:4000], publisher.url)
        fetch(publisher.url, target, **EXPECTED)
        assert publisher.asked[1] == ("/elsewhere", "bytes=4000-", '"one"')
        assert_there(target)

    @pytest.mark.parametrize(
        "to",
        [
            "file:///etc/hostname",
            "FILE:///etc/hostname",
            "ftp://127.0.0.1/a",
            "data:,a",
            "gopher://a",
            "",
            "http://[::1",
        ],
    )
    def test_to_anything_else(self, publisher, target, to):
        publisher.behaviour = moved(to)
        with pytest.raises(DataError, match="cannot download http://127.0.0.1.*(no address to follow|Invalid IPv6)"):
            fetch(publisher.url, target, **EXPECTED)
        assert len(publisher.asked) == 1
        assert_nothing_kept(target)

    def test_secrecy_is_not_given_up(self):
        assert module._next_address("", "https://a/b", "https://c/d") == "https://c/d"
        assert module._next_address("", "http://a/b", "https://c/d") == "https://c/d"
        with pytest.raises(DataError, match="'http://c/d' is no address to follow"):
            module._next_address("", "https://a/b", "http://c/d")

    def test_round_and_round(self, publisher, target):
        publisher.behaviour = moved("/file")
        with pytest.raises(DataError, match="more than 5 redirects"):
            fetch(publisher.url, target, **EXPECTED)
        assert len(publisher.asked) == limits.MAX_REDIRECTS + 1
        assert_nothing_kept(target)


class TestTogether:
    def test_one_downloads_and_the_others_wait(self, publisher, target):
        publisher.behaviour = in_turn(dripping(500, 0.005))
        threads = [threading.Thread(target=fetch, args=(publisher.url, target), kwargs=EXPECTED) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(publisher.asked) == 1
        assert_there(target)

    def test_the_next_goes_on_where_one_gave_up(self, publisher, target):
        publisher.behaviour = in_turn(held(4000))
        results = []

        def give_up():
            with pytest.raises(DataError):
                fetch(publisher.url, target, **EXPECTED, patience=Patience(stall=0.2, attempts=0))
            results.append("gave up")

        first = threading.Thread(target=give_up)
        first.start()
        wait_until(lambda: part_of(target).exists() and part_of(target).stat().st_size == 4000)
        fetch(publisher.url, target, **EXPECTED)
        first.join()
        assert results == ["gave up"]
        assert publisher.asked[1][1] == "bytes=4000-"
        assert_there(target)


MISHAPS = st.one_of(
    st.integers(0, 3000).map(cut),
    st.sampled_from([without_ranges, wrong_range, nameless, answering(503), answering(416)]),
)


class TestAnySequenceOfMishaps:
    @settings(max_examples=40)
    @given(
        content=st.binary(max_size=4000),
        mishaps=st.lists(MISHAPS, max_size=3),
        etag=st.sampled_from([None, '"one"', 'W/"one"']),
        left=st.one_of(st.none(), st.integers(0, 5000)),
        checked=st.booleans(),
    )
    def test_ends_with_the_file(self, tmp_path_factory, content, mishaps, etag, left, checked):
        target = tmp_path_factory.mktemp("any") / "file"
        expected = {"size": len(content), "sha256": [hashlib.sha256(content).hexdigest()]} if checked else {}
        with published(content, etag=etag, behaviour=in_turn(*mishaps)) as publisher:
            if left is not None:
                leave_part(target, content[:left], publisher.url, etag)
            fetch(publisher.url, target, **expected, patience=HASTY)
        assert_there(target, content)
