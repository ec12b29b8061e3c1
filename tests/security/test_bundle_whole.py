"""A bundle is read as one thing: never half of two, never one that keeps the reader busy."""

import hashlib
import json
import shutil
import subprocess
import sys
import time

import pytest
from safetensors.torch import load as parse_tensors

from mphil.errors import IntegrityError
from mphil.model.bundle import manifest, read_bundle
from tests.bundles import written
from tests.security.test_bundles import assert_refused, edit, seal_manifest

pytestmark = pytest.mark.promise("whole bundles")

SECONDS = 2.0
REPLACE = """
import pathlib, sys
from mphil.model.bundle.manifest import read_files, write_files
place, *bundles = map(pathlib.Path, sys.argv[1:])
contents = [read_files(bundle)[0] for bundle in bundles]
print("begin", flush=True)
while True:
    for files in contents:
        write_files(place, files)
"""


@pytest.fixture
def bundle(tmp_path):
    return written(tmp_path / "bundle")


class TestMixed:
    @pytest.mark.parametrize("name", sorted(manifest.REQUIRED))
    def test_a_file_of_another_bundle(self, bundle, tmp_path, name):
        """Both models are of the same kind and of the same task: nothing but the checksums tells them apart."""
        other = written(tmp_path / "other", seed=1)
        shutil.copy(other / name, bundle / name)
        seal_manifest(bundle)
        assert_refused(bundle, "is not the file that config.json was written with")

    def test_a_file_that_was_left_out(self, bundle):
        (bundle / "references.csv.gz").unlink()
        seal_manifest(bundle)
        assert_refused(bundle, "references.csv.gz")

    @pytest.mark.parametrize("parts", [[], 3, "x", {}, {"model.safetensors": None}])
    def test_parts_that_are_none(self, bundle, parts):
        config = json.loads((bundle / "config.json").read_text())
        (bundle / "config.json").write_text(json.dumps({**config, "parts": parts}))
        seal_manifest(bundle)
        assert_refused(bundle, "is not the file")

    def test_a_bundle_of_an_earlier_version_has_no_parts(self, bundle):
        config = json.loads((bundle / "config.json").read_text())
        del config["parts"]
        (bundle / "config.json").write_text(json.dumps(config))
        seal_manifest(bundle)
        assert read_bundle(bundle).config.method.name == "erm"


def test_a_bundle_that_is_replaced_is_read_as_the_old_or_the_new_one(bundle, tmp_path, figure):
    other, place = written(tmp_path / "other", seed=1), shutil.copytree(bundle, tmp_path / "place")
    known = {read_bundle(bundle).digest, read_bundle(other).digest}
    writer = subprocess.Popen(
        [sys.executable, "-c", REPLACE, str(place), str(bundle), str(other)], stdout=subprocess.PIPE
    )
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"begin\n"
        end, seen = time.monotonic() + 3, []
        while time.monotonic() < end or len(set(seen)) < 2:
            seen.append(manifest.read_files(place)[1])
            assert len(seen) < 100_000
    finally:
        writer.kill()
        writer.communicate()
    assert set(seen) == known
    figure(f"{len(seen):,} reads of a bundle that was being replaced, the old or the new one every time")


class TestQuickly:
    """What would keep the loader busy is refused before it is built."""

    @pytest.mark.parametrize(
        "change",
        [
            lambda c: c["encoder"]["node"].update(sizes=[2] * 1_000_000),
            lambda c: c["encoder"]["edge"].update(sizes=[2] * 100_000),
            lambda c: c["encoder"].update(layers=64, edge=c["encoder"]["edge"] | {"sizes": [2] * 5_000}),
            lambda c: c["task"].update(kind="multitask", n_outputs=10**9),
            lambda c: c.update(
                task=c["task"] | {"kind": "multitask", "n_outputs": 200_000},
                targets=["t"] * 200_000,
                classes=["a", "b"],
            ),
            lambda c: c.update(method={"name": "equad", "args": {"layers": 1_000_000}}),
            lambda c: c.update(method={"name": "gala", "args": {"environments": 1_000_000}}),
            lambda c: c.update(method={"name": "hse", "args": {"levels": 1_000_000}}),
            lambda c: c.update(method={"name": "lirs", "args": {"layers": 1_000_000}}),
            lambda c: c.update(method={"name": "mphil+", "args": {"gate_layers": 1_000_000}}),
            lambda c: c.update(data={"x": "y" * 5_000_000}),
        ],
    )
    def test_settings(self, bundle, change):
        edit(bundle, "config.json", change)
        assert_quickly_refused(bundle, str(bundle))

    def test_a_manifest_of_many_names(self, bundle):
        entry = {"sha256": "0" * 64, "bytes": 1}
        seal_manifest(bundle, files={f"{i}.json": entry for i in range(2_000)})
        assert_quickly_refused(bundle, "manifest.json")


def assert_quickly_refused(folder, text):
    begun = time.process_time()
    with pytest.raises(IntegrityError, match="bundle") as refusal:
        read_bundle(folder)
    assert time.process_time() - begun < SECONDS
    assert text in str(refusal.value)
    assert len(str(refusal.value)) < 1_000


def test_the_weights_of_a_bundle_are_those_that_were_written(bundle):
    told = json.loads((bundle / "config.json").read_text())["parts"]["model.safetensors"]
    data = (bundle / "model.safetensors").read_bytes()
    assert hashlib.sha256(data).hexdigest() == told
    assert parse_tensors(data).keys() == read_bundle(bundle).state.keys()
