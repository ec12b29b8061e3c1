"""Who made a bundle: a signature of its manifest, made and checked by OpenSSH with the keys that people have already.

The manifest names every file with its checksum, so its signature stands for the whole bundle. It is one more file of
the folder, `manifest.json.sig`, which nothing else reads.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from mphil.errors import IntegrityError, UsageError
from mphil.files import write_bytes
from mphil.limits import MAX_MANIFEST_BYTES
from mphil.model.bundle.manifest import MANIFEST, read_files, read_plain

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
        IntegrityError: the bundle is damaged, not signed, or signed by somebody else.
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
