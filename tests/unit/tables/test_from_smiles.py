import csv
import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mphil.tables.from_smiles as molecules
import mphil.tables.pool as pool
from mphil.chem.parse import parse_smiles
from mphil.chem.schema import DRUGOOD, GOOD, featurize
from mphil.errors import DataError, UnknownName, UsageError
from mphil.tables.from_smiles import molecule_scaffolds, molecule_store

GOOD_ROWS = ["CCO", "c1ccccc1C", "C[C@H](N)C(=O)O", "F/C=C/Br", "[Na+].[Cl-]", "O"]
BAD_ROWS = {"C C": "whitespace", "": "empty", "CC\u0421": "not-ascii", "C(": "syntax", "[CH9]": "valence"}
ALUMINIUM = "O=C1O[Al]23(OC1=O)(OC(=O)C(=O)O2)OC(=O)C(=O)O3"
HIV_PARTIAL = [137, 987, 12882, 18293, 30784, 30785, 35728]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MPHIL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def nothing_is_small(monkeypatch):
    monkeypatch.setattr(molecules, "SMALL", 0)
    monkeypatch.setattr(pool, "SMALL", 0)


def forbidden(*args, **options):
    raise AssertionError("this should have come from the cache")


def test_the_store_holds_the_features_of_the_molecules():
    for schema in (GOOD, DRUGOOD):
        store, _ = molecule_store(GOOD_ROWS, [0.0] * 6, schema="good" if schema is GOOD else "drugood")
        expected = featurize([parse_smiles(text) for text in GOOD_ROWS], schema)
        np.testing.assert_array_equal(store.x.numpy(), expected.x)
        np.testing.assert_array_equal(store.edge_index.numpy(), expected.edge_index)
        np.testing.assert_array_equal(store.edge_attr.numpy(), expected.edge_attr)
        assert store.n_nodes.tolist() == expected.n_nodes.tolist()
        assert store.n_edges.tolist() == expected.n_edges.tolist()
        assert (store.node_features.schema, store.edge_features.schema) == (schema.name, schema.name)
        assert store.node_features.sizes == schema.atom_sizes
        assert list(store.smiles) == GOOD_ROWS


@given(st.lists(st.sampled_from([*GOOD_ROWS, *BAD_ROWS]), max_size=12))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_in_are_rows_out(rows):
    y, env = np.arange(len(rows), dtype=float), np.arange(len(rows)) * 10
    store, issues = molecule_store(rows, y, env=env, extras={"weight": y * 2})
    expected = [(row, BAD_ROWS[text]) for row, text in enumerate(rows) if text in BAD_ROWS]
    assert [(issue.row, issue.status) for issue in issues] == expected
    assert all(issue.message and not issue.kept for issue in issues)
    kept = [row for row, text in enumerate(rows) if text not in BAD_ROWS]
    assert store.index.tolist() == kept
    assert store.y[:, 0].tolist() == kept
    assert store.env.tolist() == [10 * row for row in kept]
    assert store.extras["weight"].tolist() == [2 * row for row in kept]
    assert list(store.smiles) == [rows[row] for row in kept]


def test_what_is_no_text_is_an_empty_row():
    store, issues = molecule_store(["CC", None, float("nan"), 7], [1, 2, 3, 4])
    assert [(issue.row, issue.status) for issue in issues] == [(1, "empty"), (2, "empty"), (3, "empty")]
    assert store.y.tolist() == [[1.0]]


def test_lenient_rows_are_kept_and_recorded():
    store, (issue,) = molecule_store(["C", ALUMINIUM], [0, 1])
    assert (issue.row, issue.status, issue.kept) == (1, "valence", False)
    assert len(store) == 1
    store, (issue,) = molecule_store(["C", ALUMINIUM], [0, 1], lenient=True)
    assert (issue.row, issue.status, issue.kept) == (1, "partial", True)
    assert "valence" in issue.message
    assert store.n_nodes.tolist() == [1, 19]


def test_labels_of_several_tasks_and_none_at_all():
    y = torch.tensor([[0.0, float("nan")], [1.0, 1.0]])
    store, _ = molecule_store(["C", "CC"], y)
    assert torch.equal(store.y.nan_to_num(-1), y.nan_to_num(-1))
    store, _ = molecule_store(["C", "CC"], None)
    assert store.y.shape == (2, 1)
    assert store.y.isnan().all()
    assert store.env.tolist() == [-1, -1]


@pytest.mark.usefixtures("nothing_is_small")
@pytest.mark.parametrize("schema", ["good", "drugood"])
def test_several_processes_and_the_cache_change_nothing(monkeypatch, schema):
    rows = [*GOOD_ROWS, *BAD_ROWS, ALUMINIUM] * 60
    y = np.arange(len(rows))
    with monkeypatch.context() as patch:
        patch.setattr(molecules, "remember", lambda job, key, build: build())
        alone, status = molecule_store(rows, y, schema=schema, lenient=True, workers=0)
    together, others = molecule_store(rows, y, schema=schema, lenient=True, workers=2)
    monkeypatch.setattr(molecules, "run", forbidden)
    kept, again = molecule_store(rows, y, schema=schema, lenient=True)
    assert status == others == again
    assert alone.digest() == together.digest() == kept.digest()


@pytest.mark.usefixtures("nothing_is_small")
def test_the_cache_knows_what_an_answer_depends_on(monkeypatch):
    true, runs = molecules.run, []

    def counted(*args, **options):
        runs.append(args)
        return true(*args, **options)

    monkeypatch.setattr(molecules, "run", counted)

    def ask(rows, **options):
        before = len(runs)
        molecule_store(rows, np.zeros(len(rows)), workers=0, **options)
        return len(runs) > before

    rows = ["CC", "C", "[CH9]"]
    assert ask(rows)
    assert not ask(rows, env=[1, 2, 3])
    assert ask(["C", "CC", "[CH9]"])
    assert ask(["CCC", "", "[CH9]"])
    assert ask(rows, lenient=True)
    assert ask(rows, schema="drugood")
    monkeypatch.setattr(molecules.rdBase, "rdkitVersion", "1999.01.1")
    assert ask(rows)
    monkeypatch.setattr(molecules.limits, "MAX_ATOMS", 2)
    assert ask(rows)
    monkeypatch.setattr(molecules, "FORMAT", 99)
    assert ask(rows)
    assert not ask(rows)


@pytest.mark.usefixtures("nothing_is_small")
def test_a_damaged_cache_is_mended(cache, caplog):
    first, _ = molecule_store(GOOD_ROWS, None, workers=0)
    (file,) = cache.rglob("x.npy")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with caplog.at_level(logging.WARNING):
        second, _ = molecule_store(GOOD_ROWS, None, workers=0)
    assert "built again" in caplog.text
    assert first.digest() == second.digest()


def test_few_rows_are_not_kept(cache):
    molecule_store(GOOD_ROWS, None)
    assert not cache.exists()


@pytest.mark.usefixtures("nothing_is_small")
def test_a_timeout_is_not_kept(monkeypatch, cache):
    lost = molecules.run(["C", ""], {"wanted": ["graph"]}, workers=0)
    lost.issues[0] = replace(lost.issues[0], status="timeout")
    monkeypatch.setattr(molecules, "run", lambda *args, **options: lost)
    _, status = molecule_store(["C", "CC"], None)
    assert [(issue.row, issue.status) for issue in status] == [(1, "timeout")]
    assert not [path for path in cache.rglob("*") if path.is_file() and path.name != ".lock"]


def test_scaffolds_of_rows():
    rows = ["Cc1ccccc1", "C C", "CC", "C1CC1CCc1ccccc1", ALUMINIUM]
    assert molecule_scaffolds(rows) == ["c1ccccc1", None, "", "c1ccc(CCC2CC2)cc1", None]
    assert molecule_scaffolds(rows, lenient=True)[-1] is not None
    assert molecule_scaffolds([]) == []


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"y": [1]}, DataError, "y has 1 rows, the SMILES are 2"),
        ({"y": [1, 2], "env": [1]}, DataError, "env has 1 rows"),
        ({"y": [1, 2], "extras": {"assay": [1, 2, 3]}}, DataError, "assay has 3 rows"),
        ({"y": [1, 2], "extras": {"node_charge": [1, 2]}}, UsageError, "node_charge"),
        ({"y": [1, 2], "extras": {"env": [1, 2]}}, UsageError, "env"),
        ({"y": [1, 2], "workers": -1}, UsageError, "workers"),
        ({"y": [1, 2], "schema": "godo"}, UnknownName, "good"),
    ],
)
def test_impossible_requests(arguments, error, message):
    with pytest.raises(error, match=message):
        molecule_store(["C", "CC"], **arguments)


def test_one_string_is_not_many():
    with pytest.raises(UsageError, match="list"):
        molecule_store("CCO", [1, 2, 3])


def test_no_bar_without_a_terminal(monkeypatch, capfd):
    monkeypatch.setattr(molecules, "SMALL", 0)
    monkeypatch.setattr(pool, "SMALL", 0)
    molecule_store(GOOD_ROWS, None, workers=0)
    assert capfd.readouterr() == ("", "")


def test_the_seven_molecules_of_hiv_that_rdkit_refuses_today(shared_data):
    """Their neighbours come along, so that the row numbers are tried too."""
    with (shared_data / "moleculenet" / "HIV.csv").open() as file:
        smiles = [row["smiles"] for row in csv.DictReader(file)]
    assert len(smiles) == 41_127
    rows = sorted({near for row in HIV_PARTIAL for near in range(row - 3, row + 4)})
    chosen = [smiles[row] for row in rows]
    strict, status = molecule_store(chosen, None)
    assert [rows[row.row] for row in status if row.status == "valence"] == HIV_PARTIAL
    assert len(strict) == len(rows) - 7
    store, status = molecule_store(chosen, None, lenient=True)
    assert [rows[row.row] for row in status if row.status == "partial"] == HIV_PARTIAL
    assert len(store) == len(rows)
    assert not [row for row in status if row.status not in ("ok", "partial")]
    atoms = {row: int(store.n_nodes[rows.index(row)]) for row in HIV_PARTIAL}
    assert atoms == {137: 19, 987: 19, 12882: 67, 18293: 31, 30784: 22, 30785: 23, 35728: 27}


@pytest.mark.slow
def test_all_of_hiv(shared_data, monkeypatch):
    with (shared_data / "moleculenet" / "HIV.csv").open() as file:
        smiles = [row["smiles"] for row in csv.DictReader(file)]
    store, status = molecule_store(smiles, None, lenient=True)
    assert [row.row for row in status if row.status != "ok"] == HIV_PARTIAL
    assert store.index.tolist() == list(range(41_127))
    assert (int(store.n_nodes.sum()), int(store.n_nodes.max())) == (1_049_163, 222)
    monkeypatch.setattr(molecules, "run", forbidden)
    again, _ = molecule_store(smiles, None, lenient=True)
    assert again.digest() == store.digest()
