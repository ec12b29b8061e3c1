"""Downloads over a bad network: resumed, capped, limited in time, verified, and put in place in a single step.

What has arrived is kept beside the target, as `.NAME.part`, with a note of which version of the file it belongs to.
Whatever ends a download (a cut connection, `kill -9`), the next one goes on from there. Only what is complete and has
the right checksum gets the target's name. Only http and https are opened, with few redirects, and faults are sorted by
whether they pass.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import ssl
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse, responses
from io import BufferedRandom
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urljoin, urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from mphil.errors import DataError, IntegrityError
from mphil.files import lock, sha256_of, sync_folder, write_json
from mphil.limits import MAX_DOWNLOAD_BYTES, MAX_REDIRECTS

_MOVED = (301, 302, 303, 307, 308)


class Setback(Exception):
    """This attempt failed; the next may not."""


def open_address(url: str, headers: Mapping[str, str], timeout: float) -> HTTPResponse:
    """Open an address for reading.

    Redirects are followed here because urllib reads their bodies without limit, and follows them to ftp.

    Args:
        url: http or https; redirects stay within these two, and never leave https.
        headers: what to send along.
        timeout: seconds the server may be silent.

    Raises:
        Setback: the network failed in a way that may pass.
        HTTPError: the server answered with an error.
        DataError: the address cannot be opened, now or later.
    """
    address = _next_address(url, url, url)
    for _ in range(MAX_REDIRECTS + 1):
        try:
            with network(url):
                response: HTTPResponse = _OPENER.open(Request(address, headers=dict(headers)), timeout=timeout)
                return response
        except HTTPError as error:
            if error.code not in _MOVED:
                raise
            with error:
                address = _next_address(url, address, error.headers.get("Location", ""))
    raise DataError(f"cannot download {url}: more than {MAX_REDIRECTS} redirects")


@contextmanager
def network(url: str) -> Iterator[None]:
    """Tell faults of the network that may pass (`Setback`) from those that will not (`DataError`)."""
    try:
        yield
    except HTTPError:
        raise
    except (OSError, HTTPException) as error:
        cause = error.reason if isinstance(error, URLError) else error
        if isinstance(cause, (socket.gaierror, ssl.SSLCertVerificationError)):
            raise DataError(f"cannot download {url}: {cause}") from error
        raise Setback(f"the connection failed ({str(cause) or type(cause).__name__})") from error
    except ValueError as error:  # what urllib makes of an address that is none
        raise DataError(f"cannot download {url}: {error}") from error


def _next_address(url: str, address: str, location: str) -> str:
    """Where `location` leads from `address`, if one may go there."""
    with network(url):
        target = urljoin(address, location)
        old, new = urlsplit(address).scheme, urlsplit(target).scheme
    if not location or new not in ("http", "https") or (old, new) == ("https", "http"):
        raise DataError(f"cannot download {url}: {location[:100]!r} is no address to follow from there")
    return target


def _opener() -> OpenerDirector:
    """Knows http and https, directly or through the user's proxy, and nothing else: no files, no ftp, no redirects."""
    opener = OpenerDirector()
    for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler(), HTTPDefaultErrorHandler(), HTTPErrorProcessor()):
        opener.add_handler(handler)
    return opener


_OPENER = _opener()


_CHUNK = 256 * 1024
_PASSING = (408, 416, 425, 429, 500, 502, 503, 504)
"""Answers that another attempt may change; after 416 (no such range) it begins from the beginning."""


@dataclass(frozen=True)
class Patience:
    """How long a download may take.

    Attributes:
        stall: seconds without a single byte before an attempt is given up.
        total: seconds for the whole download.
        attempts: attempts in a row that bring nothing before the download is given up.
        pause: seconds before the second attempt; doubles with each further one.
    """

    stall: float = 30.0
    total: float = 3_600.0
    attempts: int = 4
    pause: float = 1.0


def fetch(
    url: str,
    target: Path,
    *,
    size: int | None = None,
    sha256: Collection[str] = (),
    patience: Patience | None = None,
) -> str:
    """Download a file into an existing folder; a bar is shown when stderr is a terminal.

    Of several processes that want the same file one downloads it and the others wait.

    Args:
        url: http or https; redirects stay within these two, and never leave https.
        target: where the file shall be; replaced when it holds something else.
        size: bytes it must have; without it at most `MAX_DOWNLOAD_BYTES` are taken.
        sha256: checksums it may have; empty accepts whatever comes complete.
        patience: how long it may take.

    Returns:
        The SHA-256 of the file.

    Raises:
        DataError: the file could not be had.
        IntegrityError: it was had and is not the one asked for.
    """
    part = target.with_name(f".{target.name}.part")
    with _held(part) as file:
        # Another process may have brought the file while this one waited for its turn.
        if target.is_file() and (digest := sha256_of(target)) in (sha256 or [digest]):
            file.truncate(0)
            return digest
        with _bar(target.name) as show:
            download = _Download(url, file, part.with_name(part.name + ".json"), size, show, patience or Patience())
            digest = download.run(sha256)
        os.fsync(file.fileno())
        part.replace(target)
        download.note.unlink(missing_ok=True)
        sync_folder(target.parent)
    return digest


@dataclass
class _Download:
    """One file on its way.

    Attributes:
        url: where it comes from.
        part: what has arrived, opened for appending.
        note: file that says which version of the file `part` belongs to.
        size: bytes the whole must have, when that is known beforehand.
        show: told (bytes that have arrived, bytes of the whole).
        patience: how long it may take.
        deadline: when, on the monotonic clock, that time is over.
        patched: whether `part` came in more than one piece.
    """

    url: str
    part: BufferedRandom
    note: Path
    size: int | None
    show: Callable[[int, int | None], None]
    patience: Patience
    deadline: float = field(init=False)
    patched: bool = field(init=False)

    def __post_init__(self) -> None:
        self.deadline = time.monotonic() + self.patience.total
        self.patched = self._arrived() > 0

    def run(self, sha256: Collection[str]) -> str:
        """Bring all of it; returns the checksum, which is one of `sha256` if there are any."""
        self._bring(resume_blindly=bool(sha256))
        if sha256 and self.patched and self._digest() not in sha256:
            # Old and new pieces may not fit together: that is worth another try from the beginning.
            self._discard()
            self._bring(resume_blindly=True)
        digest = self._digest()
        if sha256 and digest not in sha256:
            self._discard()
            raise IntegrityError(
                f"{self.url} gave another file: sha256 {digest}, expected {' or '.join(sha256)}; it was not kept"
            )
        return digest

    def _bring(self, resume_blindly: bool) -> None:
        """Try until everything is there, patience is at an end, or the server says that it is in vain."""
        idle = 0
        while True:
            before = self._arrived()
            try:
                self._attempt(resume_blindly)
                return
            except Setback as setback:
                idle = 0 if self._arrived() > before else idle + 1
                pause = self.patience.pause * 2 ** max(0, idle - 1)
                if idle >= self.patience.attempts or time.monotonic() + pause > self.deadline:
                    raise DataError(
                        f"cannot download {self.url}: {setback}; {self._arrived():,} bytes are kept, "
                        "and the same command goes on from there"
                    ) from setback
                time.sleep(pause)

    def _attempt(self, resume_blindly: bool) -> None:
        start = self._arrived()
        headers = self._resume_headers(resume_blindly) if start else {}
        try:
            headers |= {"User-Agent": "mphil", "Accept-Encoding": "identity"}
            response = open_address(self.url, headers, self.patience.stall)
        except HTTPError as error:
            with error:
                return self._answered(error, start)
        with response:
            self._copy(response, self._begin(response, start))

    def _answered(self, error: HTTPError, start: int) -> None:
        """Return if the answer means that nothing is left to send; else raise what it means."""
        if error.code == 416:
            if error.headers.get("Content-Range") == f"bytes */{start}":
                return self._check_total(start)
            self._discard()
        answer = f"the server answered {error.code} {responses.get(error.code, '')}".rstrip()
        if error.code in _PASSING:
            raise Setback(answer) from error
        raise DataError(f"cannot download {self.url}: {answer}") from error

    def _begin(self, response: HTTPResponse, start: int) -> int | None:
        """Bytes of the whole file as the server says, None if it does not; `part` is made ready for what comes."""
        if response.status == 206:
            match = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", response.headers.get("Content-Range", ""))
            if match is None or int(match[1]) != start:
                self._discard()
                raise Setback("the server sent another range than the one asked for")
            total: int | None = int(match[2])
            self.patched = True
        else:
            length = response.headers.get("Content-Length", "")
            total = int(length) if length.isdigit() else None
            self._discard()
            validator = response.headers.get("ETag") or response.headers.get("Last-Modified")
            write_json(self.note, {"url": self.url, "validator": validator})
        if total is not None:
            self._check_total(total)
        return total

    def _copy(self, response: HTTPResponse, total: int | None) -> None:
        whole = self.size if self.size is not None else total
        arrived = self._arrived()
        while True:
            self.show(arrived, whole)
            if time.monotonic() > self.deadline:
                raise DataError(
                    f"cannot download {self.url}: not done after {self.patience.total:,.0f} seconds; {arrived:,} bytes "
                    "are kept, and the same command goes on from there"
                )
            with network(self.url):
                # read() would wait for the whole chunk, however slowly it comes
                chunk = response.read1(_CHUNK)
            if not chunk:
                break
            arrived += len(chunk)
            if arrived > self._limit:
                self._discard()
                raise IntegrityError(f"{self.url} does not end, expected {self._expected} bytes; nothing was kept")
            self.part.write(chunk)
            self.part.flush()
        if whole is not None and arrived < whole:
            raise Setback(f"the connection ended after {arrived:,} of {whole:,} bytes")

    def _check_total(self, total: int) -> None:
        if total > self._limit or self.size not in (None, total):
            self._discard()
            raise IntegrityError(f"{self.url} offers {total:,} bytes, expected {self._expected}; nothing was kept")

    @property
    def _limit(self) -> int:
        return MAX_DOWNLOAD_BYTES if self.size is None else self.size

    @property
    def _expected(self) -> str:
        return f"at most {self._limit:,}" if self.size is None else f"{self.size:,}"

    def _resume_headers(self, resume_blindly: bool) -> dict[str, str]:
        """What asks for the rest of the same version; empty when nothing ensures that old and new will fit."""
        try:
            note = json.loads(self.note.read_text())
            same, validator = note["url"] == self.url, note["validator"]
        except (OSError, ValueError, TypeError, KeyError):
            return {}
        # A weak tag promises the same meaning, not the same bytes; another address knows nothing of the tag.
        usable = same and isinstance(validator, str) and not validator.startswith("W/")
        if not (usable or resume_blindly):
            return {}
        return {"Range": f"bytes={self._arrived()}-"} | ({"If-Range": validator} if usable else {})

    def _arrived(self) -> int:
        return os.fstat(self.part.fileno()).st_size

    def _digest(self) -> str:
        self.part.seek(0)
        return hashlib.file_digest(self.part, "sha256").hexdigest()

    def _discard(self) -> None:
        self.part.truncate(0)
        self.patched = False
        self.note.unlink(missing_ok=True)


@contextmanager
def _held(part: Path) -> Iterator[BufferedRandom]:
    """The partial file, for one process at a time; the system lets go of it when the holder ends, however it ends."""
    while True:
        with part.open("a+b") as file:
            lock(file.fileno())
            if not _is_open_as(part, file):
                continue
            try:
                yield file
            finally:
                if not os.fstat(file.fileno()).st_size and _is_open_as(part, file):
                    part.unlink()
            return


def _is_open_as(part: Path, file: BufferedRandom) -> bool:
    """False when whoever held the file before has renamed or removed it: then it is no longer the partial file."""
    try:
        return os.path.samestat(part.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


@contextmanager
def _bar(label: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar on stderr while the block runs; nothing at all when stderr is not a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=None), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"downloading {label}", total=None)
        yield lambda arrived, whole: bar.update(task, completed=arrived, total=whole)
