"""Hostile bundles: refused within two seconds, and nothing that they name is run."""

import os
import pickle
import time
import zipfile

import pytest

from mphil.errors import MphilError
from mphil.model.bundle import read_bundle
from tests.bundles import written
from tests.security.test_bundles import edit, seal

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


@pytest.mark.parametrize(
    "spoil",
    [pickled, pickled_as_torch_writes_it, naming_a_function, naming_a_function_as_method, with_a_script_as_class],
)
def test_refused(tmp_path, promise, spoil):
    folder, canary = written(tmp_path / "bundle"), tmp_path / "canary"
    spoil(folder, canary)
    begun = time.process_time()
    with pytest.raises(MphilError, match=str(folder)):
        read_bundle(folder)
    took = time.process_time() - begun
    assert took < SECONDS
    assert not canary.exists()
    promise("hostile bundles", f"{spoil.__name__.replace('_', ' ')}: refused in {took:.2f} s, nothing was run")
