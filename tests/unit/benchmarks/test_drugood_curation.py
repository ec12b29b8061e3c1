"""DrugOOD's curation on small databases with ChEMBL's schema."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from mphil.benchmarks.catalogue import benchmark
from mphil.benchmarks.drugood_curation import CORE, GENERAL, REFINED, NoiseLevel, curate, has_features
from mphil.errors import DataError

SCHEMA = """
CREATE TABLE version (name VARCHAR(50) NOT NULL PRIMARY KEY, creation_date DATE, comments VARCHAR(2000));
CREATE TABLE assays (
    assay_id BIGINT NOT NULL PRIMARY KEY, doc_id BIGINT, description VARCHAR(4000), assay_type VARCHAR(1),
    tid BIGINT, confidence_score SMALLINT, chembl_id VARCHAR(20));
CREATE TABLE compound_structures (
    molregno BIGINT NOT NULL PRIMARY KEY, molfile TEXT, standard_inchi VARCHAR(4000),
    standard_inchi_key VARCHAR(27), canonical_smiles VARCHAR(4000));
CREATE TABLE activities (
    activity_id BIGINT NOT NULL PRIMARY KEY, assay_id BIGINT, doc_id BIGINT, record_id BIGINT, molregno BIGINT,
    standard_relation VARCHAR(50), standard_value NUMERIC, standard_units VARCHAR(100), standard_flag SMALLINT,
    standard_type VARCHAR(250), activity_comment VARCHAR(4000), pchembl_value NUMERIC(4, 2));
"""
SMALL = NoiseLevel((2, 4), 9, ("=", "~"))
"""As the core level, with assays small enough to write down."""


@dataclass(frozen=True)
class Activity:
    smiles: str | None
    pchembl: float | None = 6.0
    relation: str | None = "="
    units: str | None = "nM"
    kind: str | None = "IC50"
    value: float | None = 1000.0


@dataclass(frozen=True)
class Assay:
    number: int
    activities: list[Activity]
    confidence: int | None = 9


@dataclass
class Database:
    """Writes assays to a file; activities are numbered as they come."""

    path: object
    assays: list[Assay] = field(default_factory=list)

    def write(self, *assays, order=None):
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.executescript(SCHEMA)
            connection.execute("INSERT INTO version VALUES ('ChEMBL_99', NULL, NULL)")
            rows = [(assay, activity) for assay in assays for activity in assay.activities]
            molecules = {activity.smiles: number for number, (_, activity) in enumerate(rows)}
            for smiles, number in molecules.items():
                connection.execute(
                    "INSERT INTO compound_structures (molregno, canonical_smiles) VALUES (?, ?)", (number, smiles)
                )
            for assay in assays:
                connection.execute(
                    "INSERT INTO assays (assay_id, confidence_score) VALUES (?, ?)", (assay.number, assay.confidence)
                )
            for number, (assay, a) in zip(order or range(len(rows)), rows, strict=True):
                connection.execute(
                    "INSERT INTO activities (activity_id, assay_id, molregno, standard_relation, standard_value,"
                    " standard_units, standard_type, pchembl_value) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (number, assay.number, molecules[a.smiles], a.relation, a.value, a.units, a.kind, a.pchembl),
                )
        return self.path


@pytest.fixture
def database(tmp_path):
    return Database(tmp_path / "chembl_99.db")


GOOD = Assay(1, [Activity("CCO", 5.0), Activity("CCN", 7.0)])


def test_a_clean_assay_passes_whole(database):
    molecules = curate(database.write(GOOD), "ic50", SMALL)
    assert molecules.smiles == ["CCO", "CCN"]
    assert molecules.value.tolist() == [5.0, 7.0]
    assert molecules.assay.tolist() == [1, 1]
    assert molecules.release == "ChEMBL_99"


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "Ki"},
        {"kind": "EC50"},
        {"kind": "ic50"},
        {"kind": None},
        {"units": "ug.mL-1"},
        {"units": None},
    ],
)
def test_one_foreign_record_excludes_its_whole_assay(database, change):
    spoiled = Assay(2, [Activity("CCC"), replace(Activity("CCCC"), **change)])
    assert curate(database.write(GOOD, spoiled), "ic50", SMALL).smiles == ["CCO", "CCN"]


@pytest.mark.parametrize(
    ("assay", "level", "kept"),
    [
        (Assay(2, [Activity("CCC")]), SMALL, False),
        (Assay(2, [Activity("C" * n) for n in range(3, 7)]), SMALL, True),
        (Assay(2, [Activity("C" * n) for n in range(3, 8)]), SMALL, False),
        (Assay(2, [Activity("CCC"), Activity("CCCC")], confidence=8), SMALL, False),
        (Assay(2, [Activity("CCC"), Activity("CCCC")], confidence=None), SMALL, False),
        (Assay(2, [Activity("CCC"), Activity("CCCC")], confidence=None), replace(SMALL, confidence=None), True),
        (Assay(2, [Activity("CCC"), Activity("CCCC", units="uM")]), SMALL, True),
    ],
)
def test_assays_are_judged_by_size_and_confidence(database, assay, level, kept):
    assert ("CCC" in curate(database.write(GOOD, assay), "ic50", level).smiles) == kept


@pytest.mark.parametrize(
    ("record", "kept"),
    [
        (Activity("CCC", pchembl=None), False),
        (Activity("CCC", value=None), False),
        (Activity("CCC", relation=None), False),
        (Activity("CCC", relation=">"), False),
        (Activity("CCC", relation="~"), True),
        (Activity(None), False),
        (Activity("C"), False),
        (Activity("not a molecule"), False),
        (Activity("FS(F)(F)(F)(F)F"), False),
    ],
)
def test_a_bad_record_is_left_out_but_counts_for_its_assay(database, record, kept):
    smiles = curate(database.write(Assay(1, [record, Activity("CCO")])), "ic50", SMALL).smiles
    assert smiles == (["CCC", "CCO"] if kept else ["CCO"])


def test_uncertain_values_move_by_one(database):
    records = [Activity("C" * n, 6.0, relation) for n, relation in enumerate(("<", "<=", "=", "~", ">=", ">"), 2)]
    wide = replace(GENERAL, records=(1, 10))
    assert curate(database.write(Assay(1, records)), "ic50", wide).value.tolist() == [5.0, 5.0, 6.0, 6.0, 7.0, 7.0]


def test_records_of_one_molecule_become_their_mean_in_the_first_assay(database):
    one = Assay(7, [Activity("CCO", 5.0), Activity("CCN", 4.0)])
    two = Assay(3, [Activity("CCO", 6.0), Activity("CCC", 8.0), Activity("CCO", 10.0)])
    molecules = curate(database.write(one, two), "ic50", SMALL)
    assert dict(zip(molecules.smiles, molecules.value, strict=True)) == {"CCO": 7.0, "CCN": 4.0, "CCC": 8.0}
    assert molecules.assay.tolist() == [7, 7, 3]


def test_assays_come_in_the_order_of_their_first_activity(database):
    one, two = Assay(7, [Activity("CCO"), Activity("CCN")]), Assay(3, [Activity("CCO"), Activity("CCC")])
    path = database.write(one, two, order=[11, 13, 10, 12])
    molecules = curate(path, "ic50", SMALL)
    assert (molecules.smiles, molecules.assay.tolist()) == (["CCO", "CCC", "CCN"], [3, 3, 7])


def test_levels_are_those_of_drugood():
    assert (CORE.records, REFINED.records, GENERAL.records) == ((50, 3000), (32, 5000), (10, 5000))
    assert (CORE.confidence, REFINED.confidence, GENERAL.confidence) == (9, 3, None)
    assert set(CORE.relations) < set(REFINED.relations) < set(GENERAL.relations)


@pytest.mark.parametrize(
    ("smiles", "legal"),
    [("CC", True), ("C", False), ("", False), ("[Na+].[Cl-]", False), ("CC C", False), ("F[P-](F)(F)(F)(F)F", False)],
)
def test_molecules_without_features_are_not_legal(smiles, legal):
    assert has_features(smiles) == legal


def test_what_is_no_chembl_is_refused(tmp_path, database):
    with pytest.raises(DataError, match="no ChEMBL database .*chembl_30.db"):
        curate(tmp_path / "chembl_30.db", "ic50")
    text = tmp_path / "text.db"
    text.write_text("assay,smiles\n" * 100)
    empty = tmp_path / "empty.db"
    empty.touch()
    for path in (text, empty):
        with pytest.raises(DataError, match="is not a ChEMBL SQLite file"):
            curate(path, "ic50")
    with pytest.raises(DataError, match=r"ChEMBL_99.*no EC50 records"):
        curate(database.write(GOOD), "ec50", SMALL)


SIZES = {5: 60, 6: 120, 7: 80, 8: 50, 9: 50, 10: 49}
TAILS = {5: "C", 6: "N", 7: "O", 8: "F", 9: "Cl", 10: "Br"}


def anilines(assay):
    """Distinct molecules of one ring; the assay is written on the ring, the size on the chain."""
    return [f"{'C' * (1 + i // 2)}{'NO'[i % 2]}c1ccc({TAILS[assay]})cc1" for i in range(SIZES[assay])]


@pytest.mark.parametrize("domain", ["assay", "scaffold", "size"])
def test_a_benchmark_is_built_from_a_database(database, domain, tmp_path, monkeypatch):
    """Of five core assays the three largest have 60 % of the molecules; the sixth is one record too small."""
    monkeypatch.setenv("MPHIL_CACHE", str(tmp_path / "cache"))
    values = np.random.default_rng(0).uniform(4, 8, size=sum(SIZES.values())).tolist()
    assays = [Assay(n, [Activity(s, values.pop(), kind="EC50") for s in anilines(n)]) for n in SIZES]
    path = database.write(*assays)
    if domain == "scaffold":  # all molecules have the same: nothing is left to test on, and no domain to hold out
        data = benchmark("drugood-ec50-scaffold", database=str(path))
        assert data.split.sizes == {"train": 216, "id_val": 72, "id_test": 72, "ood_val": 0, "ood_test": 0}
        return
    data = benchmark(f"drugood-ec50-{domain}", database=str(path))
    assert sum(data.split.sizes.values()) == 360
    assert data.split.provenance["source"] == {"database": "chembl_99.db", "release": "ChEMBL_99"}
    assert data.store.y.unique().tolist() == [0.0, 1.0]
    assert ((data.store.extras["reg_label"] >= 6.0) == (data.store.y[:, 0] == 1))[
        data.store.extras["reg_label"] >= 6
    ].all()
    if domain == "assay":
        assert [data.split.sizes[part] for part in ("ood_val", "ood_test")] == [50, 50]
        assert data.store.env.max() == 2
    else:
        size = data.store.n_nodes
        assert size[data.split.train].min() > size[data.split.ood_val].max()
        assert size[data.split.ood_val].min() > size[data.split.ood_test].max()
