"""The files of a bundle: a manifest names each with its size and SHA-256, nothing else is read; it can be signed.

The checksums find what broke by accident. They prove nothing about who made a bundle: whoever can change a file can
write a manifest that fits it (`signature` is for that). What a file holds is checked again by whoever reads it. The
config names the checksums of the other files once more, so that the files of two bundles do not mix, even under a
manifest that fits them.

The manifest names every file with its checksum, so its signature stands for the whole bundle. It is one more file of
the folder, `manifest.json.sig`, which nothing else reads.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mphil.errors import IntegrityError, UsageError
from mphil.files import UNKNOWN_FILE, replace_folder, write_bytes
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
SEEN = "seen.json"
HELD_OUT = "held_out.safetensors"
METRICS = "metrics.json"
CARD = "card.html"
MEMBERS = "committee.safetensors"
PARTS = "parts"
"""Key of the config: name to SHA-256 of every other file. Bundles of earlier versions have none."""

REQUIRED = frozenset((MODEL, CONFIG, TRUST, REFERENCES, METRICS, CARD))
KNOWN = REQUIRED | {MOLECULES, SEEN, HELD_OUT, MEMBERS}
SETTINGS = (CONFIG, TRUST)
"""Files of settings, which are short: parsing long JSON text keeps a reader busy."""

HANDLES = os.open in os.supports_dir_fd
"""Whether files can be opened by the handle of their folder."""

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
        (draft / MANIFEST).write_bytes(render_json({**body, "sha256": _sha256(render_json(body))}))


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


def _read_all(folder: Path, handle: int | None) -> tuple[dict[str, bytes], str]:
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
    return render_json({**json.loads(files[CONFIG]), PARTS: parts})


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
        if not hasattr(os, "O_NOFOLLOW") and path.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        handle = os.open(name, os.O_RDONLY | UNKNOWN_FILE, dir_fd=folder)
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
def _opened(folder: Path) -> Iterator[int | None]:
    """A handle of a folder; None where files cannot be opened by it, as on Windows, and are opened by their path."""
    if not HANDLES:
        if not folder.is_dir():
            raise _no_bundle(folder)
        yield None
        return
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


def _is_there(folder: Path, handle: int | None) -> bool:
    """Whether the folder of that name is still the one of the handle."""
    try:
        return handle is None or os.path.samestat(folder.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _no_bundle(folder: Path) -> UsageError:
    return UsageError(f"{folder}: no bundle here ({MANIFEST} is missing); make one with `mphil train FILE`")


def _read_manifest(folder: Path, handle: int | None) -> _Manifest:
    path = folder / MANIFEST
    try:
        os.stat(path if handle is None else MANIFEST, dir_fd=handle, follow_symlinks=False)
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
    if _sha256(render_json(body)) != manifest.sha256 or render_json(values) != text:
        raise IntegrityError(f"{path} does not match its checksum; {REMEDY}")
    return manifest


def _limit(name: str) -> int:
    if name.endswith(".safetensors"):
        return MAX_BUNDLE_TENSOR_BYTES
    return MAX_BUNDLE_SETTINGS_BYTES if name in SETTINGS else MAX_BUNDLE_TEXT_BYTES


def render_json(value: Mapping[str, Any]) -> bytes:
    """The bytes of a file of a bundle: always the same for the same values."""
    return json.dumps(value, indent=1, allow_nan=False).encode() + b"\n"


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


SIGNATURE = f"{MANIFEST}.sig"
NAMESPACE = "mphil-bundle"
"""What the signature is for: one that was made for anything else does not count."""

SECONDS = 120
"""How long a person has to type the passphrase of a key."""


def sign_bundle(folder: Path, key: Path) -> Path:
    """Sign a bundle that is whole.

    Args:
        folder: of the bundle.
        key: private key of OpenSSH, or the public one of a key that the agent holds.

    Returns:
        The file of the signature.

    Raises:
        UsageError: there is no bundle, no such key, or no OpenSSH.
        IntegrityError: the bundle is damaged.
    """
    manifest, _ = _manifest(folder)
    if not key.is_file():
        raise UsageError(f"--key {key}: no such file; make a key with `ssh-keygen -t ed25519`")
    ended = _ssh_keygen("-Y", "sign", "-n", NAMESPACE, "-f", str(key.absolute()), given=manifest)
    if ended.returncode or not ended.stdout.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        raise UsageError(f"--key {key}: ssh-keygen did not sign ({_last_line(ended.stderr)})")
    write_bytes(folder / SIGNATURE, ended.stdout)
    return folder / SIGNATURE


def verify_bundle(folder: Path, key: Path | None = None) -> str:
    """Check all files of a bundle and, given a public key, that its owner signed it.

    Args:
        folder: of the bundle.
        key: public key of OpenSSH (one line, as in `id_ed25519.pub`); None checks the files only.

    Returns:
        The checksum that names the bundle.

    Raises:
        UsageError: there is no bundle, no such key, or no OpenSSH.
        IntegrityError: the bundle is damaged, not signed, or signed by another key.
    """
    manifest, digest = _manifest(folder)
    if key is not None:
        _check_signature(folder, manifest, key)
    return digest


def is_signed(folder: Path) -> bool:
    """Whether there is a signature; whose is another question."""
    return (folder / SIGNATURE).is_file()


def _manifest(folder: Path) -> tuple[bytes, str]:
    """Bytes of the manifest of a bundle whose files were all checked, and its checksum."""
    _, digest = read_files(folder)
    text = read_plain(folder / MANIFEST, MAX_MANIFEST_BYTES)
    if digest.encode() not in text:
        raise IntegrityError(f"{folder} was replaced while it was read; give the command again")
    return text, digest


def _check_signature(folder: Path, manifest: bytes, key: Path) -> None:
    if not is_signed(folder):
        raise IntegrityError(f"{folder} is not signed ({SIGNATURE} is missing); ask its maker for a signature")
    with tempfile.TemporaryDirectory() as drafts:
        signers, signature = Path(drafts, "signers"), Path(drafts, "signature")
        signers.write_text(f"signer {_public_key(key)}\n")
        signature.write_bytes(read_plain(folder / SIGNATURE, MAX_MANIFEST_BYTES))
        options = ("-f", str(signers), "-I", "signer", "-n", NAMESPACE, "-s", str(signature))
        ended = _ssh_keygen("-Y", "verify", *options, given=manifest)
    if ended.returncode:
        raise IntegrityError(
            f"{folder / SIGNATURE} is not a signature of this bundle by the key in {key} ({_last_line(ended.stderr)})"
        )


def _public_key(path: Path) -> str:
    """Kind and key of a file such as `id_ed25519.pub`; options and comments of it are left out."""
    try:
        words = path.read_text("ascii", "replace").split()
    except OSError as error:
        raise UsageError(f"--key {path}: {error.strerror}") from None
    if len(words) < 2 or not words[0].startswith(("ssh-", "ecdsa-", "sk-")):
        raise UsageError(f"--key {path}: not a public key of OpenSSH, which is a line such as `ssh-ed25519 AAAA...`")
    return f"{words[0]} {words[1]}"


def _ssh_keygen(*options: str, given: bytes) -> subprocess.CompletedProcess[bytes]:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise UsageError("ssh-keygen is not installed; signatures need OpenSSH 8.2 or newer")
    try:
        return subprocess.run([program, *options], input=given, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise UsageError(f"ssh-keygen did not answer within {SECONDS} seconds") from None


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else "it does not say why"
