"""Signatures: by the right key for the right bundle, or refused."""

import shutil
import subprocess

import pytest

from mphil.errors import IntegrityError, UsageError
from mphil.model.bundle import manifest as signature
from mphil.model.bundle.manifest import SIGNATURE, sign_bundle, verify_bundle
from tests.bundles import written
from tests.command import call

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="OpenSSH is not installed")


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Two keys without a passphrase."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("alice", "bob"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)]
        subprocess.run(command, check=True)
    return folder


@pytest.fixture
def bundle(tmp_path):
    return written(tmp_path / "bundle")


def test_signed_and_verified(bundle, keys):
    signed = call("sign", bundle, "--key", keys / "alice")
    assert (signed.code, signed.out) == (0, f"signature: {bundle / SIGNATURE}\n")
    ended = call("verify", bundle, "--key", keys / "alice.pub")
    assert ended.code == 0, ended
    assert f"signature: valid, by the key in {keys / 'alice.pub'}" in ended.out
    assert "present, not checked" in call("verify", bundle).out


def test_somebody_else(bundle, keys):
    sign_bundle(bundle, keys / "bob")
    with pytest.raises(IntegrityError, match="is not a signature of this bundle by the key in"):
        verify_bundle(bundle, keys / "alice.pub")


def test_a_signature_of_another_bundle(bundle, keys, tmp_path):
    other = written(tmp_path / "other", seed=1)
    sign_bundle(other, keys / "alice")
    shutil.copy(other / SIGNATURE, bundle)
    assert call("verify", bundle, "--key", keys / "alice.pub").code == 4


def test_a_signature_made_for_something_else(bundle, keys):
    manifest = (bundle / "manifest.json").read_bytes()
    made = ["ssh-keygen", "-q", "-Y", "sign", "-n", "file", "-f", str(keys / "alice")]
    text = subprocess.run(made, input=manifest, capture_output=True, check=True).stdout
    (bundle / SIGNATURE).write_bytes(text)
    with pytest.raises(IntegrityError, match="is not a signature"):
        verify_bundle(bundle, keys / "alice.pub")


def test_no_signature(bundle, keys):
    assert "signature: none" in call("verify", bundle).out
    with pytest.raises(IntegrityError, match="is not signed"):
        verify_bundle(bundle, keys / "alice.pub")


def test_a_damaged_bundle_is_neither_signed_nor_verified(bundle, keys):
    sign_bundle(bundle, keys / "alice")
    (bundle / "card.html").write_text("another card")
    for refused in (lambda: sign_bundle(bundle, keys / "alice"), lambda: verify_bundle(bundle, keys / "alice.pub")):
        with pytest.raises(IntegrityError, match=r"card\.html"):
            refused()


def test_keys_that_are_none(bundle, keys):
    with pytest.raises(UsageError, match="no such file"):
        sign_bundle(bundle, keys / "carol")
    with pytest.raises(UsageError, match="did not sign"):
        sign_bundle(bundle, bundle / "config.json")
    sign_bundle(bundle, keys / "alice")
    with pytest.raises(UsageError, match="not a public key"):
        verify_bundle(bundle, keys / "alice")


def test_without_openssh(bundle, keys, monkeypatch):
    monkeypatch.setattr(signature.shutil, "which", lambda name: None)
    with pytest.raises(UsageError, match="ssh-keygen is not installed"):
        sign_bundle(bundle, keys / "alice")
