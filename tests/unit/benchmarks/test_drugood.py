"""DrugOOD: the published files, the rules on their records, and the partial labels."""

import json

import numpy as np
import pytest
import torch

from mphil.benchmarks.catalogue import BENCHMARKS, benchmark
from mphil.benchmarks.drugood import DOMAINS, find_domains, read_partial, read_published
from mphil.benchmarks.drugood_curation import activity_classes, activity_threshold, split_by_domain
from mphil.benchmarks.sources import locate
from mphil.errors import DataError
from mphil.graphs.split import PARTS
from mphil.tables.from_smiles import molecule_store

NAMES = [f"{family}-{domain}" for family in ("drugood-ic50", "drugood-ec50", "ic50-partial") for domain in DOMAINS]
EC50 = {
    "assay": [4540, 1502, 1557, 2572, 2490],
    "scaffold": [2570, 580, 4446, 2532, 2533],
    "size": [4684, 1513, 1753, 2313, 2398],
}
EC50_DOMAINS = {"assay": 194, "scaffold": 5_814, "size": 225}
SOME_SLOW = ["assay", *(pytest.param(one, marks=pytest.mark.slow) for one in ("scaffold", "size"))]
"""The domains; finding the scaffolds of all molecules takes its time."""
PARTIAL_OOD = {"assay": [7119, 5747], "scaffold": [5988, 6846], "size": [5643, 5473]}


@pytest.fixture
def cache(tmp_path_factory, monkeypatch):
    """One cache for all tests: the same molecules are featurised once."""
    folder = tmp_path_factory.getbasetemp() / "drugood-cache"
    monkeypatch.setenv("MPHIL_CACHE", str(folder))
    return folder


def counts(sizes):
    return [sizes[part] for part in PARTS]


def test_all_are_listed_with_source_licence_and_differences(tmp_path, monkeypatch):
    monkeypatch.setenv("MPHIL_DATA", str(tmp_path))
    assert set(NAMES) <= set(BENCHMARKS)
    for name in NAMES:
        entry = BENCHMARKS[name]
        assert "CC BY-SA 3.0" in entry.source
        assert entry.differs
        if name.startswith("ic50-partial"):
            assert "partial labels" in entry.summary
            assert "NOT the paper's set" in entry.differs
    with pytest.raises(DataError, match=r"lbap_core_ic50_size.json is missing"):
        benchmark("drugood-ic50-size")
    with pytest.raises(DataError, match=r"chembl30/lbap_core_ec50_size.json is missing"):
        benchmark("drugood-ec50-size", release=30)


@pytest.mark.parametrize("domain", DOMAINS)
def test_ec50_has_the_published_counts(shared_data, domain):
    molecules, number, assignment = read_published(locate(f"drugood-ec50-{domain}").path)
    assert counts(assignment.to_split().sizes) == EC50[domain]
    assert len(set(molecules.smiles)) == 12_661
    assert len(set(number.tolist())) == EC50_DOMAINS[domain]
    assert molecules.active.sum() == 10_199
    assert np.sort(molecules.value)[12_661 // 2] == pytest.approx(6.185)
    assert activity_threshold(molecules.value) == 5
    assert (activity_classes(molecules.value) == molecules.active).all()
    inside = np.isin(assignment.part, (0, 1, 2))
    assert not set(number[inside]) & set(number[~inside])
    assert ((assignment.env >= 0) == inside).all()


@pytest.mark.parametrize("domain", SOME_SLOW)
def test_the_rules_on_the_union_of_records_give_the_published_parts(shared_data, cache, domain):
    """Published domains are numbered as they appeared, so sorting by number restores an order with the same ties."""
    parts = json.loads(locate(f"drugood-ec50-{domain}").path.read_bytes())["split"]
    records = sorted((r for part in parts.values() for r in part), key=lambda record: record["domain_id"])
    smiles = [record["smiles"] for record in records]
    atoms = molecule_store(smiles, None, schema="drugood")[0].n_nodes.tolist() if domain == "size" else []
    number, weight = find_domains(domain, smiles=smiles, atoms=atoms, assay=[r["assay_id"] for r in records])
    assert number.tolist() == [record["domain_id"] for record in records]
    rebuilt = split_by_domain(number, weight, seed=0).to_split()
    assert counts(rebuilt.sizes) == EC50[domain]
    for ours, theirs in (("ood_val", "ood_val"), ("ood_test", "ood_test")):
        assert set(number[rebuilt[ours].numpy()].tolist()) == {record["domain_id"] for record in parts[theirs]}
        assert {smiles[row] for row in rebuilt[ours].tolist()} == {record["smiles"] for record in parts[theirs]}


@pytest.mark.parametrize("domain", SOME_SLOW)
def test_partial_labels_keep_the_parts_of_the_full_set(shared_data, cache, domain):
    molecules, number, assignment = read_partial(locate("ic50-partial").path, domain, seed=0)
    sizes = counts(assignment.to_split().sizes)
    assert sum(sizes) == len(set(molecules.smiles)) == 27_285
    assert sizes[3:] == PARTIAL_OOD[domain]
    assert molecules.active.sum() == 24_234
    assert (activity_classes(molecules.value) == molecules.active).all()
    sides = [set(number[np.isin(assignment.part, side)].tolist()) for side in ((0, 1, 2), (3,), (4,))]
    shared = (sides[0] & sides[1]) | (sides[0] & sides[2]) | (sides[1] & sides[2])
    assert len(shared) == (51 if domain == "assay" else 0)


def published(path, records):
    """A file in DrugOOD's format with a few records in each part."""
    parts = {part: [] for part in ("train", "ood_val", "ood_test", "iid_val", "iid_test")}
    for part, smiles, label, domain in records:
        value = 6.5 if label else 4.5
        parts[part].append(
            {"smiles": smiles, "reg_label": value, "assay_id": 1, "cls_label": label, "domain_id": domain}
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cfg": {}, "split": parts, "statistics": {}}))


def test_a_published_file_becomes_a_benchmark(tmp_path, monkeypatch):
    monkeypatch.setenv("MPHIL_DATA", str(tmp_path))
    records = [
        ("train", "CCO", 1, 7),
        ("ood_test", "CCN", 0, 2),
        ("train", "CCC", 0, 4),
        ("iid_val", "CCCC", 1, 7),
        ("ood_val", "CCCO", 1, 9),
        ("iid_test", "CCCN", 0, 4),
        ("iid_test", "C C", 0, 4),
    ]
    published(tmp_path / "drugood" / "chembl30" / "lbap_core_ic50_size.json", records)
    data = benchmark("drugood-ic50-size", release=30)
    assert data.store.smiles == ["CCO", "CCC", "CCCC", "CCCN", "CCCO", "CCN"]
    assert counts(data.split.sizes) == [2, 1, 1, 1, 1]
    assert data.store.y[:, 0].tolist() == [1, 0, 1, 0, 1, 0]
    assert data.store.env.tolist() == [1, 0, 1, 0, -1, -1]
    assert data.store.extras["domain_id"].tolist() == [7, 4, 7, 4, 9, 2]
    assert data.store.extras["reg_label"].tolist() == [6.5, 4.5, 6.5, 4.5, 6.5, 4.5]
    assert data.split.provenance["refused_rows"] == [4]
    assert data.store.node_features.schema == "drugood-39+10/1"
    assert data.encoder == {"layers": 4, "width": 128}
    assert (data.task.kind, data.task.metric) == ("binary", "roc_auc")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"split": {}}', '{"split": {"train": [{}]}}', '{"split": null}', "\x00"]
)
def test_another_file_is_refused(tmp_path, text):
    path = tmp_path / "lbap_core_ec50_size.json"
    path.write_text(text)
    with pytest.raises(DataError, match="is not a DrugOOD file"):
        read_published(path)
    with pytest.raises(DataError, match="is not the table of partial IC50 labels"):
        read_partial(path, "size", seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*(f"drugood-ec50-{d}" for d in DOMAINS), *(f"ic50-partial-{d}" for d in DOMAINS)])
def test_benchmarks_of_the_real_files(shared_data, cache, name):
    data = benchmark(name)
    family, domain = name.rsplit("-", 1)
    assert data.split.provenance["refused_rows"] == []
    assert data.split.provenance["source"]["verified"]
    if family == "drugood-ec50":
        assert counts(data.split.sizes) == EC50[domain]
    else:
        assert counts(data.split.sizes)[3:] == PARTIAL_OOD[domain]
    inside = torch.cat([data.split.train, data.split.id_val, data.split.id_test])
    assert (data.store.env[inside] >= 0).all()
