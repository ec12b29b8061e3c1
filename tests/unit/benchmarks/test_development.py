"""Development tables: what is in them, drawn the same way every time, and no row that a benchmark is tested on."""

from collections import Counter

import numpy as np
import pytest

from mphil.benchmarks.catalogue import BENCHMARKS, benchmark
from mphil.benchmarks.development import TABLES, Candidates, TableSpec, candidates, draw
from mphil.benchmarks.moleculenet import TEST, pinned_index
from mphil.benchmarks.sources import locate
from mphil.errors import DataError
from mphil.graphs.split import PARTS

QUICK = {"dev-toxcast-er-scaffold": [678, 112, 112, 113, 113], "dev-toxcast-hepg2-random": [297, 49, 50, 49, 50]}


@pytest.fixture
def rows():
    labels = (np.arange(400) % 5 == 0).astype(float)[:, None]
    return Candidates(np.arange(400) + 7, ["C" * n for n in range(1, 401)], labels, [""] * 400)


def test_the_tables_are_different_enough():
    assert len(TABLES) >= 10
    assert all(name.startswith("dev-") for name in TABLES)
    assert all(500 <= spec.rows <= 5_000 for spec in TABLES.values())
    assert Counter(spec.split for spec in TABLES.values()).keys() == {"scaffold", "size", "assay", "random"}
    assert len({spec.source for spec in TABLES.values()}) >= 5


def test_all_are_listed_with_source_and_licence(tmp_path, monkeypatch):
    monkeypatch.setenv("MPHIL_DATA", str(tmp_path))
    for name, spec in TABLES.items():
        entry = BENCHMARKS[name]
        assert entry.needs == (spec.source,)
        assert entry.options == {}
        assert "drawn from" in entry.source
        assert "not in the paper" in entry.differs
    with pytest.raises(DataError, match=r"muv.csv.gz is missing"):
        benchmark("dev-muv-scaffold")


def test_draws_have_the_wanted_share_and_the_order_of_the_file(rows):
    drawn = draw(rows, TableSpec("hiv", 100, "scaffold", positives=0.4))
    assert drawn.y.sum() == 40
    assert len(drawn.y) == 100
    assert (np.diff(drawn.row) > 0).all()
    assert [len(text) for text in drawn.smiles] == (drawn.row - 6).tolist()
    plain = draw(rows, TableSpec("hiv", 100, "scaffold"))
    assert 10 <= plain.y.sum() <= 30
    assert len(draw(rows, TableSpec("hiv", 500, "scaffold")).y) == 400


def test_draws_do_not_depend_on_the_order_of_the_file(rows):
    spec = TableSpec("hiv", 60, "scaffold", positives=0.5)
    order = np.random.default_rng(0).permutation(400)
    assert sorted(draw(rows.take(order), spec).smiles) == sorted(draw(rows, spec).smiles)


def test_no_row_of_a_published_test_part_is_drawn(shared_data):
    spec = TABLES["dev-hiv-scaffold"]
    free = candidates(spec, locate(spec.source)).row
    for domain in ("scaffold", "size"):
        assert not (pinned_index(domain).blocks.block[free] == TEST).any()
    spec = TABLES["dev-ec50-assay"]
    assert len(candidates(spec, locate(spec.source)).row) == 12_661 - 2_490
    spec = TABLES["dev-ic50-size"]
    assert len(candidates(spec, locate(spec.source)).row) == 27_285 - 5_747


def test_labels_are_the_named_columns_or_any(shared_data):
    spec = TABLES["dev-toxcast-8-scaffold"]
    found = candidates(spec, locate(spec.source))
    assert found.y.shape[1] == 8
    assert (~np.isnan(found.y)).any(1).all()
    assert np.isnan(found.y).any()
    muv = candidates(TABLES["dev-muv-scaffold"], locate("muv"))
    assert muv.y.shape == (93_127, 1)
    assert 400 < muv.y.sum() <= 489


@pytest.mark.parametrize(("name", "sizes"), QUICK.items())
def test_a_table_as_it_is_built(shared_data, name, sizes):
    one, again = benchmark(name), benchmark(name)
    assert one.split.digest() == again.split.digest()
    assert one.store.smiles == again.store.smiles
    assert [one.split.sizes[part] for part in PARTS] == sizes
    for part, graphs in one.split:
        labels = one.store.y[graphs, 0]
        assert min((labels == 0).sum(), (labels == 1).sum()) >= 8, f"{part} cannot be scored"
