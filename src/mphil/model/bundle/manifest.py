"""The files of a bundle: a manifest names each with its size and SHA-256, and nothing else is read.

The checksums find what broke by accident. They prove nothing about who made a bundle: whoever can change a file can
write a manifest that fits it (`signature` is for that). What a file holds is checked again by whoever reads it. The
config names the checksums of the other files once more, so that the files of two bundles do not mix, even under a
manifest that fits them.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mphil.errors import IntegrityError, UsageError
from mphil.files import replace_folder
from mphil.limits import (
    MAX_BUNDLE_SETTINGS_BYTES,
    MAX_BUNDLE_TENSOR_BYTES,
    MAX_BUNDLE_TEXT_BYTES,
    MAX_MANIFEST_BYTES,
    MAX_TENSOR_HEADER_BYTES,
)

FORMAT = 1
"""Version of the whole; a change that older readers would misunderstand is a new one."""

MANIFEST = "manifest.json"
MODEL = "model.safetensors"
CONFIG = "config.json"
TRUST = "trust.json"
REFERENCES = "references.safetensors"
MOLECULES = "references.csv.gz"
HELD_OUT = "held_out.safetensors"
METRICS = "metrics.json"
CARD = "card.html"
MEMBERS = "committee.safetensors"
PARTS = "parts"
"""Key of the config: name to SHA-256 of every other file. Bundles of earlier versions have none."""

REQUIRED = frozenset((MODEL, CONFIG, TRUST, REFERENCES, METRICS, CARD))
KNOWN = REQUIRED | {MOLECULES, HELD_OUT, MEMBERS}
SETTINGS = (CONFIG, TRUST)
"""Files of settings, which are short: parsing long JSON text keeps a reader busy."""

REMEDY = "copy the bundle again, or make it again with `mphil train`"
ATTEMPTS = 20
"""How often a bundle is read anew because it was replaced meanwhile."""


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    bytes: int = Field(ge=0)


class _Manifest(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    format: int
    files: dict[str, _Entry]
    sha256: str


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Put a bundle in the place of `folder`: all of it or nothing, the manifest last."""
    if not files.keys() >= REQUIRED or not files.keys() <= KNOWN:
        raise ValueError(f"a bundle holds {sorted(KNOWN)}, not {sorted(files)}")
    files = {**files, CONFIG: _tied(files)}
    entries = {name: {"sha256": _sha256(data), "bytes": len(data)} for name, data in sorted(files.items())}
    body = {"format": FORMAT, "files": entries}
    with replace_folder(folder) as draft:
        for name, data in files.items():
            (draft / name).write_bytes(data)
        (draft / MANIFEST).write_bytes(_rendered({**body, "sha256": _sha256(_rendered(body))}))


def read_files(folder: Path) -> tuple[dict[str, bytes], str]:
    """Every file of a bundle, checked against the manifest, and the checksum of the manifest, which names the bundle.

    All of it is read through one handle of the folder: a bundle that is replaced meanwhile is read as the old one or
    the new one.

    Raises:
        UsageError: there is no bundle in the folder.
        IntegrityError: it is of another format, incomplete, damaged, mixed, or reaches out of its folder.
    """
    for attempt in range(ATTEMPTS):
        with _opened(folder) as handle:
            try:
                return _read_all(folder, handle)
            except (IntegrityError, UsageError):
                # The files of a bundle that was replaced vanish one by one under our hands.
                if attempt == ATTEMPTS - 1 or _is_there(folder, handle):
                    raise
    raise AssertionError


def _read_all(folder: Path, handle: int) -> tuple[dict[str, bytes], str]:
    manifest = _read_manifest(folder, handle)
    if missing := sorted(REQUIRED - manifest.files.keys()):
        raise IntegrityError(f"{folder / MANIFEST} does not name {missing[0]}; {REMEDY}")
    if foreign := sorted(manifest.files.keys() - KNOWN):
        # A name such as ../../notes must not be read, whatever it is for.
        raise IntegrityError(f"{folder / MANIFEST} names {foreign[0][:60]!r}, which is no file of a bundle; {REMEDY}")
    contents = {}
    for name, entry in manifest.files.items():
        path = folder / name
        data = read_plain(path, _limit(name), handle)
        if len(data) != entry.bytes:
            raise IntegrityError(f"{path} has {len(data):,} bytes, {entry.bytes:,} were written; {REMEDY}")
        if _sha256(data) != entry.sha256:
            raise IntegrityError(f"{path} does not match its checksum; {REMEDY}")
        if name.endswith(".safetensors") and int.from_bytes(data[:8], "little") > MAX_TENSOR_HEADER_BYTES:
            raise IntegrityError(f"{path} has a header of more than {MAX_TENSOR_HEADER_BYTES:,} bytes; {REMEDY}")
        contents[name] = data
    _check_tied(folder, contents[CONFIG], manifest)
    return contents, manifest.sha256


def _tied(files: Mapping[str, bytes]) -> bytes:
    """The config with the checksums of all other files."""
    parts = {name: _sha256(data) for name, data in sorted(files.items()) if name != CONFIG}
    return _rendered({**json.loads(files[CONFIG]), PARTS: parts})


def _check_tied(folder: Path, config: bytes, manifest: _Manifest) -> None:
    try:
        told = json.loads(config).get(PARTS)
    except (ValueError, RecursionError, AttributeError):
        return  # whoever reads the config says what is wrong with it
    found = {name: entry.sha256 for name, entry in manifest.files.items() if name != CONFIG}
    if told is None or told == found:
        return
    names = (name for name in sorted(found) if not isinstance(told, dict) or told.get(name) != found[name])
    other = next(names, None) or next(iter(sorted(set(told) - set(found))))
    raise IntegrityError(f"{folder / other[:60]} is not the file that {CONFIG} was written with; {REMEDY}")


def is_bundle(folder: Path) -> bool:
    """Whether a folder claims to be a bundle."""
    return (folder / MANIFEST).exists()


def read_plain(path: Path, limit: int, folder: int | None = None) -> bytes:
    """The bytes of a regular file; links, pipes and devices are refused, and so is what is larger than the limit.

    Args:
        path: of the file.
        limit: most bytes that are read.
        folder: handle of the folder that it is in; without one the path is followed.
    """
    name = path if folder is None else path.name
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise IntegrityError(f"{path} is a link; a bundle holds plain files only; {REMEDY}") from None
        raise IntegrityError(f"{path} cannot be read ({error.strerror}); {REMEDY}") from None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise IntegrityError(f"{path} is no plain file; {REMEDY}")
        if found.st_size > limit:
            raise IntegrityError(f"{path} has {found.st_size:,} bytes, at most {limit:,} are read")
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(limit)
    finally:
        os.close(handle)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """A handle of a folder."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise _no_bundle(folder) from None
    except OSError as error:
        raise IntegrityError(f"{folder} cannot be read ({error.strerror}); {REMEDY}") from None
    try:
        yield handle
    finally:
        os.close(handle)


def _is_there(folder: Path, handle: int) -> bool:
    """Whether the folder of that name is still the one of the handle."""
    try:
        return os.path.samestat(folder.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _no_bundle(folder: Path) -> UsageError:
    return UsageError(f"{folder}: no bundle here ({MANIFEST} is missing); make one with `mphil train FILE`")


def _read_manifest(folder: Path, handle: int) -> _Manifest:
    path = folder / MANIFEST
    try:
        os.stat(MANIFEST, dir_fd=handle, follow_symlinks=False)
    except FileNotFoundError:
        raise _no_bundle(folder) from None
    text = read_plain(path, MAX_MANIFEST_BYTES, handle)
    try:
        values: dict[str, Any] = json.loads(text)
        version = values["format"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise IntegrityError(f"{path} is not the manifest of a bundle; {REMEDY}") from None
    if version != FORMAT:
        raise IntegrityError(
            f"{path}: bundle format {str(version)[:20]}, this mphil reads {FORMAT}; use the mphil that wrote it"
        )
    try:
        manifest = _Manifest(**values)
    except (ValidationError, TypeError):
        raise IntegrityError(f"{path} is not the manifest of a bundle; {REMEDY}") from None
    body = {name: value for name, value in values.items() if name != "sha256"}
    if _sha256(_rendered(body)) != manifest.sha256 or _rendered(values) != text:
        raise IntegrityError(f"{path} does not match its checksum; {REMEDY}")
    return manifest


def _limit(name: str) -> int:
    if name.endswith(".safetensors"):
        return MAX_BUNDLE_TENSOR_BYTES
    return MAX_BUNDLE_SETTINGS_BYTES if name in SETTINGS else MAX_BUNDLE_TEXT_BYTES


def _rendered(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, indent=1, allow_nan=False).encode() + b"\n"


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
