"""Hostile bundles: refused within two seconds, and nothing that they name is run."""

import json
import os
import pickle
import shutil
import time
import zipfile

import pytest
import torch
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as render_tensors

from mphil.errors import MphilError
from mphil.model.bundle import read_bundle
from tests.bundles import written
from tests.security.test_bundles import edit, seal, seal_manifest

pytestmark = pytest.mark.promise("hostile bundles")

SECONDS = 2.0


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, canary) -> None:
        self.command = f"touch {canary}"

    def __reduce__(self):
        return os.system, (self.command,)


def pickled(folder, canary):
    (folder / "model.safetensors").write_bytes(pickle.dumps(Payload(canary)))
    seal(folder)


def pickled_as_torch_writes_it(folder, canary):
    with zipfile.ZipFile(folder / "model.safetensors", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Payload(canary)))
    seal(folder)


def naming_a_function(folder, canary):
    edit(folder, "config.json", lambda config: config["encoder"].update(kind="os:system"))


def naming_a_function_as_method(folder, canary):
    edit(folder, "config.json", lambda config: config["method"].update(name="os.system"))


def with_a_script_as_class(folder, canary):
    edit(folder, "config.json", lambda config: config.update(classes=[f"__import__('os').mknod('{canary}')", 3]))


def with_a_name_outside(folder, canary):
    (folder.parent / "secret.json").write_text("{}")
    seal(folder)
    files = json.loads((folder / "manifest.json").read_text())["files"]
    seal_manifest(folder, files={**files, "../secret.json": {"sha256": "0" * 64, "bytes": 2}})


def with_a_link(folder, canary):
    (folder / "card.html").rename(folder.parent / "card.html")
    (folder / "card.html").symlink_to(folder.parent / "card.html")


def with_weights_that_are_no_numbers(folder, canary):
    state = parse_tensors((folder / "model.safetensors").read_bytes())
    next(value for value in state.values() if value.is_floating_point()).view(-1)[0] = torch.nan
    (folder / "model.safetensors").write_bytes(render_tensors(state))
    seal(folder)


def mixed_with_another(folder, canary):
    shutil.copy(written(folder.parent / "other", seed=1) / "model.safetensors", folder / "model.safetensors")
    seal_manifest(folder)


SPOILT = (
    pickled,
    pickled_as_torch_writes_it,
    naming_a_function,
    naming_a_function_as_method,
    with_a_script_as_class,
    with_a_name_outside,
    with_a_link,
    with_weights_that_are_no_numbers,
    mixed_with_another,
)


def assert_refused(folder):
    """Returns the processor time it took."""
    begun = time.process_time()
    with pytest.raises(MphilError, match=str(folder)):
        read_bundle(folder)
    took = time.process_time() - begun
    assert took < SECONDS
    return took


def test_payloads(tmp_path, figure):
    slowest, canary = 0.0, tmp_path / "canary"
    for spoil in SPOILT:
        (tmp_path / spoil.__name__).mkdir()
        folder = written(tmp_path / spoil.__name__ / "bundle")
        spoil(folder, canary)
        slowest = max(slowest, assert_refused(folder))
        assert not canary.exists()
    figure(f"{len(SPOILT)} payloads refused, the slowest in {slowest:.2f} s, nothing was run")


def test_many_tensors(tmp_path, amount, figure):
    folder, tensors = written(tmp_path / "bundle"), amount("tensors")
    entries = (f'"t{i}": {{"dtype": "U8", "shape": [1], "data_offsets": [{i}, {i + 1}]}}' for i in range(tensors))
    header = f"{{{', '.join(entries)}}}".encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(tensors))
    seal(folder)
    figure(f"{tensors:,} tensors: refused in {assert_refused(folder):.2f} s")


def test_a_long_header(tmp_path, amount, figure):
    folder, size = written(tmp_path / "bundle"), amount("bytes of a header")
    header = b'{"t":"' + b" " * (size - 8) + b'"}'
    (folder / "references.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    seal(folder)
    figure(f"a header of {size / 1e6:,.0f} MB: refused in {assert_refused(folder):.2f} s")
