"""GOOD-HIV, GOOD-PCBA, MUV and ToxCast: on the publishers' files where they are at hand, on made-up ones always."""

import gzip
import json
import subprocess
import sys
from importlib import resources
from itertools import combinations

import numpy as np
import pytest
import torch
from tests.pcba import TASKS, write_pcba

from mphil.benchmarks.catalogue import BENCHMARKS, benchmark
from mphil.benchmarks.label_table import read_labels
from mphil.benchmarks.moleculenet import HIV, HIV_ROWS, MUV, TOXCAST, pinned_index
from mphil.benchmarks.sources import locate
from mphil.errors import DataError
from mphil.graphs.split import PARTS

SETTINGS = [(domain, shift) for domain in ("scaffold", "size") for shift in ("", "-concept", "-no-shift")]
NAMES = [f"good-{table}-{d}{s}" for table in ("hiv", "pcba") for d, s in SETTINGS] + [
    "muv-scaffold",
    "toxcast-scaffold",
]
HIV_COUNTS = {"scaffold": [24_682, 4_112, 4_112, 4_113, 4_108], "size": [26_169, 4_112, 4_112, 2_773, 3_961]}
REFUSED_BY_RECENT_RDKIT = [137, 987, 12882, 18293, 30784, 30785, 35728]
ROWS = 437_929
GIGABYTE = 1 << 30


@pytest.fixture
def own_folders(tmp_path, monkeypatch):
    """A data folder and a cache of one test's own."""
    monkeypatch.setenv("MPHIL_DATA", str(tmp_path))
    monkeypatch.setenv("MPHIL_CACHE", str(tmp_path / "cache"))
    return tmp_path


def counts(data):
    return [data.split.sizes[part] for part in PARTS]


def test_all_are_listed_with_source_licence_and_differences(own_folders):
    """Listing needs no file; building says which one is missing."""
    assert set(NAMES) <= set(BENCHMARKS)
    for name in NAMES:
        entry = BENCHMARKS[name]
        assert "MIT" in entry.source
        assert entry.summary.endswith(".")
        assert entry.differs
        assert entry.options == {"seed": 0}
    with pytest.raises(DataError, match=r"muv.csv.gz is missing"):
        benchmark("muv-scaffold")


@pytest.mark.parametrize("domain", ["scaffold", "size"])
def test_the_index_files_name_every_row_of_hiv_once(domain):
    index = pinned_index(domain)
    assert len(index.domain) == HIV_ROWS
    pool, val, test = np.bincount(index.blocks.block)
    train, id_val, id_test, ood_val, ood_test = HIV_COUNTS[domain]
    assert (pool, val, test) == (train + id_val + id_test, ood_val, ood_test)
    assert set(index.blocks.env[index.blocks.block == 0]) == set(range(10))


@pytest.mark.parametrize("domain", ["scaffold", "size"])
def test_the_index_files_are_those_of_the_sources(domain, shared_data):
    shipped = locate(f"good-hiv-{domain}")
    packaged = resources.files("mphil.benchmarks").joinpath("splits", shipped.path.name)
    assert packaged.read_bytes() == shipped.path.read_bytes()


@pytest.mark.parametrize(
    ("table", "rows", "known", "positive"),
    [(HIV, 41_127, 41_127, 1_443), (MUV, 93_127, 249_967, 489), (TOXCAST, 8_615, 1_538_395, 127_070)],
    ids=["hiv", "muv", "toxcast"],
)
def test_the_published_tables_are_read_whole(shared_data, table, rows, known, positive):
    labels = read_labels(locate(table.source).path, table.n_tasks, table.ignored)
    assert len(labels.smiles) == len(labels.labels) == rows
    assert (~np.isnan(labels.labels)).sum() == known
    assert np.nansum(labels.labels) == positive


def test_a_pcba_file_becomes_both_benchmarks_under_all_shifts(own_folders):
    write_pcba(own_folders / "pcba.csv.gz", 400)
    table = read_labels(own_folders / "pcba.csv.gz", 128, ignored=("mol_id",))
    for domain, shift in SETTINGS:
        data = benchmark(f"good-pcba-{domain}{shift}", seed=1)
        assert (data.task.kind, data.task.n_outputs, data.task.metric) == ("multitask", 128, "average_precision")
        assert len(data.store) == sum(counts(data)) == 400
        np.testing.assert_array_equal(data.store.y.numpy(), table.labels)
        assert data.store.node_features.schema == "good-9+3/1"
        assert data.encoder == {"layers": 3, "width": 300}
        provenance = data.split.provenance
        assert (provenance["domain"], provenance["seed"], provenance["refused_rows"]) == (domain, 1, [])
        assert provenance["source"]["file"] == "pcba.csv.gz"
        assert not provenance["source"]["verified"]
        inside = torch.cat([data.split.train, data.split.id_val, data.split.id_test])
        assert (data.store.env[inside] >= 0).all()
        assert (data.store.env[torch.cat([data.split.ood_val, data.split.ood_test])] == -1).all()
        if not shift:
            assert counts(data)[1:3] == [40, 40]
            sides = [set(data.store.extras["domain_id"][rows].tolist()) for rows in (inside, *_ood(data))]
            assert not any(one & other for one, other in combinations(sides, 2))
    assert table.tasks == TASKS


def _ood(data):
    return data.split.ood_val, data.split.ood_test


def test_sizes_shrink_from_training_to_test(own_folders):
    write_pcba(own_folders / "pcba.csv.gz", 400)
    data = benchmark("good-pcba-size")
    train, val, test = (data.store.n_nodes[rows] for rows in (data.split.train, *_ood(data)))
    assert train.min() > val.max() >= val.min() > test.max()


def test_a_plain_pcba_file_is_found_too(own_folders):
    write_pcba(own_folders / "pcba.csv", 40, compressed=False)
    assert len(benchmark("good-pcba-size").store) == 40


def test_broken_rows_are_left_out_and_named(own_folders):
    path = own_folders / "pcba.csv.gz"
    write_pcba(path, 60)
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    broken = [*lines[:8], lines[8].rsplit(",", 1)[0] + ",FAIL", *lines[9:]]
    path.write_bytes(gzip.compress("\n".join(broken).encode()))
    data = benchmark("good-pcba-scaffold")
    assert data.split.provenance["refused_rows"] == [7]
    assert data.store.index.tolist() == [*range(7), *range(8, 60)]


def test_a_table_with_other_rows_has_no_pinned_parts(own_folders, monkeypatch):
    monkeypatch.setenv("MPHIL_ACCEPT_ANY_DATA", "1")
    (own_folders / "HIV.csv").write_text("smiles,activity,HIV_active\nCC,CI,0\nCO,CA,1\n")
    with pytest.raises(DataError, match="2 rows where GOOD's parts name 41,127"):
        benchmark("good-hiv-scaffold")


@pytest.mark.slow
def test_hiv_has_the_published_parts(shared_data, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("MPHIL_CACHE", str(tmp_path_factory.mktemp("cache")))
    for domain, expected in HIV_COUNTS.items():
        data = benchmark(f"good-hiv-{domain}")
        assert counts(data) == expected
        assert int(data.store.y.sum()) == 1_443
        assert data.split.provenance["partially_sanitised_rows"] == REFUSED_BY_RECENT_RDKIT
        assert data.split.provenance["source"]["verified"]
        assert (data.task.kind, data.task.metric, data.classes) == ("binary", "roc_auc", ("inactive", "active"))
    concept, no_shift = benchmark("good-hiv-scaffold-concept"), benchmark("good-hiv-size-no-shift")
    assert sum(counts(concept)) == sum(counts(no_shift)) == HIV_ROWS
    assert counts(no_shift) == [24_676, 0, 0, 8_225, 8_226]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "expected", "refused"),
    [("muv-scaffold", [55_877, 9_312, 9_312, 9_314, 9_312], 0), ("toxcast-scaffold", [5_160, 860, 860, 860, 860], 15)],
)
def test_real_tables_with_missing_labels(shared_data, tmp_path, monkeypatch, name, expected, refused):
    monkeypatch.setenv("MPHIL_CACHE", str(tmp_path))
    data = benchmark(name)
    assert counts(data) == expected
    assert len(data.split.provenance["refused_rows"]) == refused
    assert data.store.y.isnan().any()


@pytest.mark.slow
def test_pcba_fits_in_six_gigabytes_at_its_real_size(own_folders):
    """A file of the real format and size, read and built in a process of its own; its workers count as well."""
    command = [sys.executable, "-m", "tests.pcba", str(ROWS), str(own_folders)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seen = json.loads(done.stdout)
    for facts in seen["benchmarks"].values():
        assert facts["labels"] == [ROWS, 128]
        assert facts["sizes"]["id_val"] == 43_792
        assert sum(facts["sizes"].values()) == ROWS
        assert 24 < facts["mean_atoms"] < 32
    assert GIGABYTE // 4 < seen["peak"] < 6 * GIGABYTE
