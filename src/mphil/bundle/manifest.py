"""The files of a bundle: a manifest names each with its size and SHA-256, and nothing else is read.

The checksums find what broke by accident. They prove nothing about who made a bundle: whoever can change a file can
write a manifest that fits it. What a file holds is checked again by whoever reads it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mphil.errors import IntegrityError, UsageError
from mphil.files import replace_folder
from mphil.limits import MAX_BUNDLE_TENSOR_BYTES, MAX_BUNDLE_TEXT_BYTES

FORMAT = 1
"""Version of the whole; a change that older readers would misunderstand is a new one."""

MANIFEST = "manifest.json"
MODEL = "model.safetensors"
CONFIG = "config.json"
TRUST = "trust.json"
REFERENCES = "references.safetensors"
MOLECULES = "references.csv.gz"
METRICS = "metrics.json"
CARD = "card.html"
MEMBERS = "committee.safetensors"

REQUIRED = frozenset((MODEL, CONFIG, TRUST, REFERENCES, METRICS, CARD))
KNOWN = REQUIRED | {MOLECULES, MEMBERS}
REMEDY = "copy the bundle again, or make it again with `mphil train`"


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
    entries = {name: {"sha256": _sha256(data), "bytes": len(data)} for name, data in sorted(files.items())}
    body = {"format": FORMAT, "files": entries}
    with replace_folder(folder) as draft:
        for name, data in files.items():
            (draft / name).write_bytes(data)
        (draft / MANIFEST).write_bytes(_rendered({**body, "sha256": _sha256(_rendered(body))}))


def read_files(folder: Path) -> tuple[dict[str, bytes], str]:
    """Every file of a bundle, checked against the manifest, and the checksum of the manifest, which names the bundle.

    Raises:
        UsageError: there is no bundle in the folder.
        IntegrityError: it is of another format, incomplete, damaged, or reaches out of its folder.
    """
    manifest = _read_manifest(folder)
    if missing := sorted(REQUIRED - manifest.files.keys()):
        raise IntegrityError(f"{folder / MANIFEST} does not name {missing[0]}; {REMEDY}")
    if foreign := sorted(manifest.files.keys() - KNOWN):
        # A name such as ../../notes must not be read, whatever it is for.
        raise IntegrityError(f"{folder / MANIFEST} names {foreign[0][:60]!r}, which is no file of a bundle; {REMEDY}")
    contents = {}
    for name, entry in manifest.files.items():
        path = folder / name
        data = read_plain(path, _limit(name))
        if len(data) != entry.bytes:
            raise IntegrityError(f"{path} has {len(data):,} bytes, {entry.bytes:,} were written; {REMEDY}")
        if _sha256(data) != entry.sha256:
            raise IntegrityError(f"{path} does not match its checksum; {REMEDY}")
        contents[name] = data
    return contents, manifest.sha256


def is_bundle(folder: Path) -> bool:
    """Whether a folder claims to be a bundle."""
    return (folder / MANIFEST).exists()


def read_plain(path: Path, limit: int) -> bytes:
    """The bytes of a regular file; links, pipes and devices are refused, and so is what is larger than the limit."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
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


def _read_manifest(folder: Path) -> _Manifest:
    path = folder / MANIFEST
    if not path.parent.is_dir() or not os.path.lexists(path):
        raise UsageError(f"{folder}: no bundle here ({MANIFEST} is missing); make one with `mphil train FILE`")
    text = read_plain(path, MAX_BUNDLE_TEXT_BYTES)
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
    return MAX_BUNDLE_TENSOR_BYTES if name.endswith(".safetensors") else MAX_BUNDLE_TEXT_BYTES


def _rendered(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, indent=1, allow_nan=False).encode() + b"\n"


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
