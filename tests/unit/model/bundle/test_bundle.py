"""A bundle on disk and back."""

import gzip
import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from mphil.errors import UsageError
from mphil.model.bundle import read_bundle, write_bundle
from mphil.model.bundle.manifest import KNOWN, MANIFEST, MEMBERS, is_bundle
from tests.bundles import bundle_of, trained


def test_everything_comes_back(product, tmp_path):
    written = product.bundle
    write_bundle(tmp_path / "b", written)
    found = read_bundle(tmp_path / "b")
    assert found.config == written.config
    assert found.trust == written.trust
    assert found.card == written.card
    assert found.metrics == json.loads(json.dumps(written.metrics))
    assert found.state.keys() == written.state.keys()
    assert all(torch.equal(found.state[name], written.state[name]) for name in found.state)
    for name in ("embeddings", "labels", "rows", "fingerprints"):
        np.testing.assert_array_equal(getattr(found.references, name), getattr(written.references, name))
    assert list(found.references.smiles) == list(written.references.smiles)
    assert len(found.references) == written.config.data["parts"]["train"]


def test_the_manifest_names_every_file_with_its_checksum(product):
    folder = product.path
    manifest = json.loads((folder / MANIFEST).read_text())
    assert manifest["format"] == 1
    assert {path.name for path in folder.iterdir()} == {*manifest["files"], MANIFEST} == {*KNOWN - {MEMBERS}, MANIFEST}
    for name, entry in manifest["files"].items():
        data = (folder / name).read_bytes()
        assert entry == {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    assert read_bundle(folder).digest == manifest["sha256"]


def test_the_same_bundle_gives_the_same_bytes(product, tmp_path):
    write_bundle(tmp_path / "b", read_bundle(product.path))
    for path in product.path.iterdir():
        assert (tmp_path / "b" / path.name).read_bytes() == path.read_bytes(), path.name


def test_training_molecules_are_a_table(product):
    text = gzip.decompress((product.path / "references.csv.gz").read_bytes()).decode()
    references = product.bundle.references
    rows = [f"{smiles},{name}" for smiles, name in zip(references.smiles, references.names, strict=True)]
    assert text.splitlines() == ["smiles,id", *rows]


def test_an_old_bundle_stays_whole_until_the_new_one_is(product, tmp_path):
    write_bundle(tmp_path / "b", product.bundle)
    before = {path.name: path.read_bytes() for path in (tmp_path / "b").iterdir()}
    with pytest.raises(ValueError, match="Out of range float"):
        write_bundle(tmp_path / "b", replace(product.bundle, metrics={"score": float("nan")}))
    assert {path.name: path.read_bytes() for path in (tmp_path / "b").iterdir()} == before
    write_bundle(tmp_path / "b", replace(product.bundle, metrics={"score": 1}))
    assert read_bundle(tmp_path / "b").metrics == {"score": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_no_bundle(tmp_path):
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", tmp_path / "absent"):
        assert not is_bundle(place)
        with pytest.raises(UsageError, match="no bundle here .manifest.json is missing.; make one with `mphil train"):
            read_bundle(place)


@pytest.mark.parametrize("method", ["groupdro", "lirs"])
def test_what_a_method_remembers_of_the_training_graphs_has_any_length(tmp_path, method):
    """Those tables are empty in a new network, and have a row for every graph in a trained one."""
    run = trained(method, graphs=100, epochs=1)
    write_bundle(tmp_path / "bundle", bundle_of(run))
    found = read_bundle(tmp_path / "bundle").state
    assert any(name.endswith(".values") and len(value) > 0 for name, value in found.items())
    assert all(torch.equal(found[name], value) for name, value in run.method.state_dict().items())
