"""Bundles that are broken, or made to do harm: refused with a sentence, whatever is wrong with them."""

import gzip
import hashlib
import json
import os
import shutil
from contextlib import suppress

import numpy as np
import pytest
import torch
from safetensors.numpy import load as parse_arrays
from safetensors.numpy import save as render_arrays
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as render_tensors

import mphil
from mphil.errors import IntegrityError, UsageError
from mphil.model.bundle import folder as bundle_folder
from mphil.model.bundle import manifest as bundle_manifest
from mphil.model.bundle import read_bundle
from tests.command import call

pytestmark = pytest.mark.promise("hostile bundles")

FILES = sorted({*bundle_manifest.KNOWN - {bundle_manifest.MEMBERS}, "manifest.json"})
"""Of a bundle of one network; what may happen to the file of a committee is tried where committees are."""


@pytest.fixture
def copied(product, tmp_path):
    """A bundle that may be changed."""
    return shutil.copytree(product.path, tmp_path / "bundle")


def seal(folder, **changes):
    """Make config and manifest fit the files, as somebody with bad intentions would."""
    with suppress(ValueError, TypeError, RecursionError):
        config = json.loads((folder / "config.json").read_text())
        others = {path for path in folder.iterdir() if path.name not in ("config.json", "manifest.json")}
        config["parts"] = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in others}
        (folder / "config.json").write_text(json.dumps(config))
    seal_manifest(folder, **changes)


def seal_manifest(folder, **changes):
    """Write a manifest that fits the files; `changes` replace entries of it."""
    entries = {}
    for path in sorted(folder.iterdir()):
        if path.name != "manifest.json":
            data = path.read_bytes()
            entries[path.name] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    body = {"format": 1, "files": entries} | changes
    text = bundle_manifest.render_json(body)
    whole = {**body, "sha256": hashlib.sha256(text).hexdigest()}
    (folder / "manifest.json").write_bytes(bundle_manifest.render_json(whole))


def edit(folder, name, change):
    """Change a JSON file, and seal the bundle again."""
    values = json.loads((folder / name).read_text())
    change(values)
    (folder / name).write_text(json.dumps(values))
    seal(folder)


def assert_refused(folder, *texts):
    with pytest.raises(IntegrityError) as refusal:
        read_bundle(folder)
    message = str(refusal.value)
    assert "\n" not in message
    assert str(folder) in message
    for text in texts:
        assert text in message


def test_the_seal_itself_is_right(copied):
    seal(copied)
    assert read_bundle(copied).config


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "remove"])
def test_accidents(copied, name, damage):
    path = copied / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    if damage == "remove":
        path.unlink()
    else:
        path.write_bytes({"flip": bytes(data), "truncate": path.read_bytes()[:-7], "empty": b""}[damage])
    if (name, damage) == ("manifest.json", "remove"):
        with pytest.raises(mphil.errors.UsageError, match="no bundle here"):
            read_bundle(copied)
        return
    assert_refused(copied, name)


def test_the_command_says_it_in_a_line(copied, tmp_path):
    (copied / "trust.json").unlink()
    (tmp_path / "new.csv").write_text("smiles\nCCO\n")
    ended = call("predict", copied, tmp_path / "new.csv", "--out", tmp_path / "out.csv")
    assert ended.code == 4
    assert ended.err.startswith("error: ")
    assert "trust.json" in ended.err
    assert not (tmp_path / "out.csv").exists()


class TestReachingOut:
    @pytest.mark.parametrize("name", FILES)
    def test_links(self, copied, tmp_path, name):
        secret = tmp_path / "secret"
        shutil.move(copied / name, secret)
        (copied / name).symlink_to(secret)
        assert_refused(copied, name, "is a link")

    @pytest.mark.parametrize("name", ["../secret.json", "/etc/passwd", "notes.txt", "..", "model.safetensors/../x"])
    def test_names(self, copied, name):
        seal(copied)
        files = json.loads((copied / "manifest.json").read_text())["files"]
        seal(copied, files={**files, name: {"sha256": "0" * 64, "bytes": 1}})
        assert_refused(copied, "is no file of a bundle")

    def test_pipes_do_not_hang(self, copied):
        (copied / "config.json").unlink()
        os.mkfifo(copied / "config.json")
        assert_refused(copied, "config.json is no plain file")

    def test_a_folder_in_place_of_a_file(self, copied):
        (copied / "card.html").unlink()
        (copied / "card.html").mkdir()
        assert_refused(copied, "card.html")


class TestVersions:
    @pytest.mark.parametrize("version", [2, 0, "1", None, 1.5])
    def test_other_formats(self, copied, version):
        seal(copied, format=version)
        assert_refused(copied, f"bundle format {version}, this mphil reads 1")

    def test_another_featuriser(self, copied):
        edit(copied, "config.json", lambda config: config["molecules"].update(featuriser="good-9+3/2"))
        assert_refused(copied, "made with featuriser 'good-9+3/2', this mphil has 'good-9+3/1'")

    def test_another_fingerprint(self, copied):
        edit(copied, "config.json", lambda config: config["molecules"].update(fingerprint="morgan-3-4096/1"))
        assert_refused(copied, "made with fingerprint 'morgan-3-4096/1'")


class TestContents:
    """The checksums are right, the contents are not."""

    @pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b'{"format": 1}', b"\xff", b"[" * 100_000])
    def test_manifests(self, copied, body):
        (copied / "manifest.json").write_bytes(body)
        assert_refused(copied, "manifest.json")

    @pytest.mark.parametrize("name", ["config.json", "trust.json", "metrics.json"])
    @pytest.mark.parametrize("body", [b"", b"[]", b"{", b"[" * 100_000], ids=["empty", "list", "open", "deep"])
    def test_json(self, copied, name, body):
        (copied / name).write_bytes(body)
        seal(copied)
        assert_refused(copied, name)

    @pytest.mark.parametrize(
        "change",
        [
            lambda c: c.pop("task"),
            lambda c: c.update(extra=1),
            lambda c: c["task"].update(kind="regression"),
            lambda c: c["task"].update(n_outputs=7),
            lambda c: c["method"].update(name="mphli"),
            lambda c: c["method"]["args"].update(nothing=1),
            lambda c: c["method"]["args"].update(prototypes=10**12),
            lambda c: c["method"]["args"].update(prototypes=-1),
            lambda c: c["encoder"].update(width=8192, layers=64),
            lambda c: c["encoder"].update(width=10**9),
            lambda c: c["encoder"]["node"].update(sizes=[10**14] * 9),
            lambda c: c.update(classes=["only"]),
            lambda c: c.update(targets=[]),
            lambda c: c["molecules"].update(features="other"),
            lambda c: c["molecules"].update(fragments="dropped"),
        ],
    )
    def test_settings_that_do_not_fit_take_no_memory(self, copied, change):
        edit(copied, "config.json", change)
        assert_refused(copied)

    @pytest.mark.parametrize(
        "change",
        [
            lambda t: t.pop("bands"),
            lambda t: t.update(score="eval"),
            lambda t: t["calibration"].update(temperatures=[-1.0]),
            lambda t: t["calibration"].update(kind="multiclass"),
            lambda t: t["conformal"].update(thresholds=[[0.5, 0.5, 0.5]]),
            lambda t: t["bands"].update(out=-1e9),
            lambda t: t.update(left_out=[1]),
        ],
    )
    def test_trust(self, copied, change):
        edit(copied, "trust.json", change)
        assert_refused(copied, "trust.json")

    @pytest.mark.parametrize("how", ["nan", "missing", "shape", "type", "pickle"])
    def test_weights(self, copied, how):
        path = copied / "model.safetensors"
        state = parse_tensors(path.read_bytes())
        name = next(name for name, tensor in state.items() if tensor.is_floating_point() and tensor.dim() == 2)
        if how == "nan":
            state[name][0, 0] = torch.nan
        elif how == "missing":
            del state[name]
        elif how == "shape":
            state[name] = state[name][:1].clone()
        elif how == "type":
            state[name] = state[name].double()
        if how == "pickle":
            torch.save(state, path)
        else:
            path.write_bytes(render_tensors(state))
        seal(copied)
        assert_refused(copied, "model.safetensors")

    @pytest.mark.parametrize("how", ["rows", "labels", "fingerprints", "embeddings", "extra", "infinite"])
    def test_references(self, copied, how):
        path = copied / "references.safetensors"
        arrays = parse_arrays(path.read_bytes())
        if how == "extra":
            arrays["more"] = np.zeros(3)
        elif how == "infinite":
            arrays["embeddings"][0, 0] = np.inf
        else:
            arrays[how] = arrays[how][1:].copy()
        path.write_bytes(render_arrays(arrays))
        seal(copied)
        assert_refused(copied)

    @pytest.mark.parametrize("text", [b"", b"name\nCCO\n", b"smiles\nCCO\n", b"smiles\n\xff\n"])
    def test_molecules(self, copied, text):
        (copied / "references.csv.gz").write_bytes(gzip.compress(text))
        seal(copied)
        assert_refused(copied, "references.csv.gz")

    def test_a_gzip_bomb(self, copied, monkeypatch):
        monkeypatch.setattr(bundle_folder, "MAX_REFERENCE_BYTES", 100_000)
        (copied / "references.csv.gz").write_bytes(gzip.compress(b"smiles\n" + b"C" * 10_000_000))
        seal(copied)
        assert_refused(copied, "references.csv.gz", "unpacks to more than 100,000 bytes")

    def test_no_molecules(self, copied):
        (copied / "references.csv.gz").unlink()
        seal(copied)
        assert_refused(copied, "references.csv.gz", "missing")

    def test_a_file_beyond_the_limit_is_not_read(self, copied, monkeypatch):
        monkeypatch.setattr(bundle_manifest, "MAX_BUNDLE_TENSOR_BYTES", 100)
        assert_refused(copied, "at most 100 are read")


def test_a_card_from_elsewhere_is_never_run(copied):
    """The card is a file for a browser; reading a bundle does not open it."""
    (copied / "card.html").write_text("<script>alert(1)</script>")
    seal(copied)
    assert read_bundle(copied).card == "<script>alert(1)</script>"


class TestWithoutHandlesOfFolders:
    """As on Windows, where files are opened by their paths."""

    @pytest.fixture(autouse=True)
    def _none(self, monkeypatch):
        monkeypatch.setattr(bundle_manifest, "HANDLES", False)
        monkeypatch.delattr(os, "O_NOFOLLOW")

    def test_it_is_read_as_with_them(self, copied):
        read_bundle(copied)

    def test_links(self, copied, tmp_path):
        (tmp_path / "secret").write_text("secret")
        (copied / "card.html").unlink()
        (copied / "card.html").symlink_to(tmp_path / "secret")
        assert_refused(copied, "card.html", "is a link")

    def test_no_bundle(self, tmp_path):
        for folder in (tmp_path, tmp_path / "missing"):
            with pytest.raises(UsageError, match="no bundle here"):
                read_bundle(folder)
