"""The publishers' files: what they are called, how to recognise them, and where they are on this machine.

Nothing of a publisher is part of this package, except two lists of row numbers. A file is looked for in the user's
data folder (`MPHIL_DATA`), then downloaded from the first of its addresses that has it, and believed only when its
SHA-256 is right. Names, checksums and addresses are data: `sources.toml`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from mphil.benchmarks.fetch import fetch
from mphil.errors import DataError, IntegrityError
from mphil.files import sha256_of
from mphil.registry import Registry

ACCEPT_ANY = "MPHIL_ACCEPT_ANY_DATA"
"""Set to 1, this variable lets files pass whose checksum is not the expected one; what was read is recorded."""


@dataclass(frozen=True)
class Source:
    """A file that another publishes.

    Attributes:
        name: what the rest of the package calls it.
        file: its exact name, as published; may begin with a sub folder where two publications share a name.
        size: bytes of the published file, None when no copy was at hand.
        sha256: of the published file; None says that any file of that name is taken, and its checksum recorded.
        urls: where it can be downloaded by a program, in the order in which they are tried; empty when a person has to.
        where: where it is published, for people.
        licence: terms of the data.
        folder: sub folder of the data folder it belongs in; directly in the data folder it is found as well.
        also: SHA-256 of further copies in circulation with the same contents.
        other_names: further names it is found under.
    """

    name: str
    file: str
    size: int | None
    sha256: str | None
    urls: tuple[str, ...]
    where: str
    licence: str
    folder: str = ""
    also: tuple[str, ...] = ()
    other_names: tuple[str, ...] = ()

    @property
    def home(self) -> Path:
        """Path the file has, or would have, in the data folder of this moment."""
        return data_folder() / self.folder / self.file

    def knows(self, sha256: str) -> bool:
        """Whether this is the checksum of the published file or of a copy with the same contents."""
        return self.sha256 is not None and sha256 in (self.sha256, *self.also)

    def instructions(self) -> str:
        """All it takes to get the file by hand: name, size, checksum, publisher, terms and folder."""
        size = "not known" if self.size is None else f"{self.size:,} bytes"
        rows = {
            "file": self.home.name,
            "size": size,
            "sha256": self.sha256 or "not known: any file of this name is taken, and its checksum recorded",
            "published": "; ".join([self.where, *self.urls]),
            "licence": self.licence,
            "put it in": str(self.home.parent),
        }
        table = "\n".join(f"  {key:<10} {value}" for key, value in rows.items())
        return f"{table}\nor set MPHIL_DATA to the folder that holds it"


@dataclass(frozen=True)
class Located:
    """A source that was found on this machine.

    Attributes:
        path: the file.
        sha256: of what the file holds now.
        verified: whether that is an expected checksum; False when none is known or a wrong file was accepted.
        expected: the published checksum, None when it is not known.
    """

    path: Path
    sha256: str
    verified: bool
    expected: str | None = None

    def provenance(self) -> dict[str, Any]:
        """What a benchmark records of the file it was made from; no path, which says nothing on other machines."""
        record: dict[str, Any] = {"file": self.path.name, "sha256": self.sha256, "verified": self.verified}
        return record if self.verified else {**record, "expected": self.expected}


SOURCES: Registry[Source] = Registry("data file")


def data_folder() -> Path:
    """The user's data folder: `MPHIL_DATA`, else `mphil` in `XDG_DATA_HOME`, else `~/.local/share/mphil`."""
    if chosen := os.environ.get("MPHIL_DATA"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "mphil"


def find(source: Source | str) -> Path | None:
    """Where a file of that name is, without reading or downloading anything; None when there is none."""
    return next(iter(_present(_resolve(source))), None)


def locate(
    source: Source | str, *, accept_any: bool = False, tell: Callable[[str], None] = lambda text: None
) -> Located:
    """The file, from the data folder or else from its publisher, with its checksum checked.

    Args:
        source: the source or its name in `SOURCES`.
        accept_any: take a file with the wrong checksum too, as `MPHIL_ACCEPT_ANY_DATA=1` does; the result says so.
        tell: told about addresses that failed before another one is tried.

    Raises:
        DataError: it is missing and could not be downloaded; the message says how to get it.
        IntegrityError: there is a file of that name, but it is another one.
    """
    source = _resolve(source)
    accept_any = accept_any or os.environ.get(ACCEPT_ANY) == "1"
    found = [_examined(source, path) for path in _present(source) or [_download(source, accept_any, tell)]]
    best = max(found, key=lambda located: located.verified)
    if best.verified or source.sha256 is None or accept_any:
        return best
    raise IntegrityError(_wrong(source, best))


def _resolve(source: Source | str) -> Source:
    return SOURCES[source] if isinstance(source, str) else source


def _present(source: Source) -> list[Path]:
    """Files of that name: in their own sub folder first, then directly in the data folder."""
    root = data_folder()
    names = (source.file, *source.other_names)
    candidates = [root / folder / name for folder in (source.folder, "") for name in names]
    return [path for path in dict.fromkeys(candidates) if path.is_file()]


def _examined(source: Source, path: Path) -> Located:
    sha256 = sha256_of(path)
    return Located(path, sha256, source.knows(sha256), source.sha256)


def _download(source: Source, accept_any: bool, tell: Callable[[str], None]) -> Path:
    """Try one address after the other; what has arrived from one is completed from the next."""
    if not source.urls:
        raise DataError(f"{source.file} is missing and cannot be downloaded by a program\n{source.instructions()}")
    expected = () if source.sha256 is None or accept_any else (source.sha256, *source.also)
    faults: list[DataError | IntegrityError] = []
    for number, url in enumerate(source.urls, start=1):
        try:
            source.home.parent.mkdir(parents=True, exist_ok=True)
            fetch(url, source.home, size=None if accept_any else source.size, sha256=expected)
            return source.home
        except (DataError, IntegrityError) as error:
            faults.append(error)
            if number < len(source.urls):
                tell(f"{error}; trying the next address")
        except OSError as error:
            raise DataError(
                f"{source.file} is missing and cannot be saved: {error}\n{source.instructions()}"
            ) from error
    kind = next((type(fault) for fault in faults if isinstance(fault, DataError)), IntegrityError)
    told = "\n".join(map(str, faults))
    raise kind(f"{source.file} is missing: {told}\nTo get it by hand:\n{source.instructions()}") from faults[-1]


def _wrong(source: Source, found: Located) -> str:
    return (
        f"{found.path} is not the published file: {found.path.stat().st_size:,} bytes, sha256 {found.sha256}\n"
        f"Replace it by the right one:\n{source.instructions()}\n"
        f"To use it all the same, set {ACCEPT_ANY}=1; its checksum is then recorded with every result."
    )


def _register(text: str) -> None:
    for name, facts in tomllib.loads(text).items():
        SOURCES.add(
            name,
            Source(
                name,
                facts["file"],
                facts.get("size"),
                facts.get("sha256"),
                tuple(facts.get("urls", ())),
                facts["where"],
                facts["licence"],
                facts["folder"],
                tuple(facts.get("also", ())),
                tuple(facts.get("names", ())),
            ),
        )


_register(files("mphil.benchmarks").joinpath("sources.toml").read_text(encoding="utf-8"))
