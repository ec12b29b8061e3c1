"""Splits of one's own table: clusters, dates, columns, external test sets, and parts read back."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.products import molecules, rows_of, write_table

import mphil
from mphil.benchmarks.own_data import read_own_data
from mphil.errors import DataError, UnknownName, UsageError
from mphil.model.product.build import parts_table
from mphil.tables.intake import TableOptions

SMILES = [smiles.partition(".")[0] for smiles in molecules()]
N = len(SMILES)
ACTIVE = [int("N" in smiles) for smiles in SMILES]
DAYS = [f"{1 + i % 28:02}.{1 + i % 12:02}.{2000 + i % 10}" for i in range(N)]
INSIDE = ("train", "id_val", "id_test")


def table(tmp_path, name="a.csv", **columns):
    return str(write_table(tmp_path / name, {"smiles": SMILES, "active": ACTIVE, **columns}))


def own(path, **given):
    return mphil.benchmark("own-data", path=path, targets=["active"], **given)


@pytest.mark.parametrize("split", ["scaffold", "cluster"])
def test_groups_are_balanced_and_whole(tmp_path, split):
    data = own(table(tmp_path), split=split)
    domain = data.store.extras["domain_id"]
    sides = [torch.cat([data.split[part] for part in INSIDE]), data.split.ood_val, data.split.ood_test]
    sets = [set(domain[side].tolist()) for side in sides]
    assert sum(map(len, sets)) == len(set.union(*sets))
    for rows in filter(len, sides[1:]):
        assert len(rows) >= N // 10
        assert set(data.store.y[rows].flatten().tolist()) == {0.0, 1.0}
    again = own(table(tmp_path, "b.csv"), split=split)
    assert all(torch.equal(data.split[part], again.split[part]) for part in (*INSIDE, "ood_val", "ood_test"))


def test_the_order_of_the_rows_does_not_matter(tmp_path):
    order = np.random.default_rng(0).permutation(N)
    path = write_table(tmp_path / "b.csv", {"smiles": [SMILES[i] for i in order], "active": [ACTIVE[i] for i in order]})
    parts = []
    for one in (table(tmp_path), str(path)):
        data = own(one, split="cluster")
        parts.append({data.store.smiles[row]: part for part, rows in data.split for row in rows.tolist()})
    assert parts[0] == parts[1]


class TestTime:
    def test_the_last_dates_are_held_out(self, tmp_path):
        path = table(tmp_path, measured=DAYS)
        for split in ("time", "measured"):
            data = own(path, split=split)
            when = ["-".join(DAYS[row].split(".")[::-1]) for row in data.store.index.tolist()]
            pool = torch.cat([data.split[part] for part in INSIDE])
            before, between, after = (
                [when[row] for row in rows.tolist()] for rows in (pool, data.split.ood_val, data.split.ood_test)
            )
            assert max(before) < min(between) <= max(between) < min(after)

    def test_ambiguous_dates(self, tmp_path):
        path = table(tmp_path, measured=[f"{1 + i % 12:02}/{1 + i // 12:02}/2015" for i in range(N)])
        with pytest.raises(DataError, match="say which with --date-format %d/%m/%Y or --date-format %m/%d/%Y"):
            own(path, split="measured")
        month, day = (own(path, split="time", date_format=form) for form in ("%m/%d/%Y", "%d/%m/%Y"))
        assert not torch.equal(month.split.ood_test, day.split.ood_test)

    def test_which_column(self, tmp_path):
        with pytest.raises(UsageError, match="has no column of dates; name the column"):
            own(table(tmp_path), split="time")
        with pytest.raises(UsageError, match=r"2 columns of dates \(made, measured\)"):
            own(table(tmp_path, made=DAYS, measured=DAYS), split="time")


def test_columns_of_names_are_drawn_and_numbers_ordered(tmp_path):
    names, years = [f"assay {i % 12}" for i in range(N)], [2000 + i % 11 for i in range(N)]
    path = table(tmp_path, assay=names, year=years)
    assert own(path, split="assay").split.provenance["rule"] == "groups"
    data = own(path, split="year")
    assert set(np.array(years)[data.store.index[data.split.ood_test]]) == {2010}


def test_small_parts_are_merged_and_said(tmp_path):
    years = [2000 + i % 4 for i in range(N - 3)] + [2019] * 3
    data = own(table(tmp_path, year=years), split="year")
    assert not len(data.split.ood_val)
    assert "because ood_test has 3 rows where 5 are needed" in data.split.provenance["merged"][0]


class TestExternalTest:
    def files(self, tmp_path):
        path = write_table(tmp_path / "a.csv", {"smiles": SMILES[:90], "active": ACTIVE[:90], "n": range(90)})
        test = write_table(
            tmp_path / "t.csv", {"active": [*ACTIVE[85:], 1], "smiles": [*SMILES[85:], "C C"], "note": ["x"] * 24}
        )
        return str(path), str(test)

    @pytest.mark.parametrize("split", ["scaffold", "random"])
    def test_its_rows_are_the_test_part(self, tmp_path, split):
        path, test = self.files(tmp_path)
        read = read_own_data(path, split, TableOptions(targets=("active",), test=test))
        data = read.benchmark
        assert sorted(data.store.index[data.split.ood_test].tolist()) == list(range(90, 90 + N - 85))
        assert data.split.provenance["rows_shared_with_test"] == 5
        inside = {data.store.smiles[row] for part in (*INSIDE, "ood_val") for row in data.split[part].tolist()}
        outside = {data.store.smiles[row] for row in data.split.ood_test.tolist()}
        assert not inside & outside
        assert len(inside) == 85
        assert len(data.split.ood_val) >= 10
        assert [(bad.row, bad.line) for bad in read.survey.bad] == [(113, 25)]
        assert read.survey.bad[0].message.startswith("t.csv: ")

    def test_refusals(self, tmp_path):
        path, test = self.files(tmp_path)
        with pytest.raises(UsageError, match="is the table itself"):
            own(path, test=path)
        with pytest.raises(UsageError, match="no such file"):
            own(path, test=str(tmp_path / "absent.csv"))
        other = write_table(tmp_path / "o.csv", {"smiles": SMILES, "activ": ACTIVE})
        with pytest.raises(UnknownName, match=r"column of o.csv, which must have those of a.csv: 'active'"):
            own(path, test=str(other))
        broken = write_table(tmp_path / "b.csv", {"smiles": ["C C"], "active": [1]})
        with pytest.raises(DataError, match="no row of the external test set can be used"):
            own(path, test=str(broken))
        with pytest.raises(DataError, match="nothing is left to train on"):
            own(test, test=path.replace("a.csv", "c.csv") if table(tmp_path, "c.csv") else "")


class TestMolecules:
    SALTS = ("[Na+].[O-]C(=O)c1ccccc1", "OC(=O)c1ccccc1", "OC(=O)c1ccccc1.Cl")

    def salted(self, tmp_path, labels):
        columns = {"smiles": [*SMILES, *self.SALTS], "active": [*ACTIVE, *labels]}
        return str(write_table(tmp_path / "a.csv", columns))

    def test_salts_of_one_acid_are_one_molecule(self, tmp_path):
        read = read_own_data(self.salted(tmp_path, [1, 1, 1]), "", TableOptions(targets=("active",)))
        assert read.benchmark.store.index.tolist() == list(range(N + 1))
        assert read.survey.assumed == (
            "molecules were standardised: 2 rows reduced to the largest organic fragment, 1 neutralised "
            "(--no-standardise leaves them as they are)",
            "2 rows merged into another row of the same molecule",
        )
        (tmp_path / "parts.csv").write_text(parts_table(read))
        rows = rows_of(tmp_path / "parts.csv")[-3:]
        assert [row[:3] for row in rows] == [[str(N + i), str(N + i + 1), "O=C(O)c1ccccc1"] for i in (1, 2, 3)]
        assert len({row[3] for row in rows}) == 1
        plain = own(self.salted(tmp_path, [1, 1, 1]), standardise=False)
        assert len(plain.store) == N + 3

    def test_contradictions(self, tmp_path):
        path = self.salted(tmp_path, [1, 0, 1])
        assert own(path).store.y[-1] == 1
        assert [len(own(path, duplicates=rule).store) for rule in ("keep", "drop", "majority")] == [N + 3, N, N + 1]
        kept = own(path, duplicates="keep", split="random")
        parts = {part for part, rows in kept.split if set(rows.tolist()) & {N, N + 1, N + 2}}
        assert len(parts) == 1
        with pytest.raises(UnknownName, match="majorty"):
            own(path, duplicates="majorty")

    def test_a_given_split_does_not_divide_a_molecule(self, tmp_path):
        part = ["train"] * 80 + ["valid"] * 14 + ["test"] * 14 + ["train", "test", "train"]
        columns = {"smiles": [*SMILES, *self.SALTS], "active": [*ACTIVE, 1, 0, 1], "set": part}
        path = str(write_table(tmp_path / "a.csv", columns))
        data = own(path, split="predefined", duplicates="keep")
        assert list(data.split.sizes.values()) == [80, 0, 0, 14, 15]
        assert data.split.provenance["merged"] == ["2 rows hold a molecule of a later part too and are in none"]


class TestParts:
    def test_every_row_and_back(self, tmp_path):
        names = [f"m{i}" for i in range(N)]
        path = table(tmp_path, compound_id=names)
        with Path(path).open("a") as file:
            file.write("C C,1,m999\n")
        read = read_own_data(path, "cluster", TableOptions(targets=("active",)))
        (tmp_path / "parts.csv").write_text(parts_table(read))
        header, *rows = rows_of(tmp_path / "parts.csv")
        assert header == ["row", "line", "id", "smiles", "part"]
        assert [row[0] for row in rows] == [str(i + 1) for i in range(N + 1)]
        assert [row[2] for row in rows] == [*names, "m999"]
        assert rows[-1][3:] == ["", ""]
        again = own(path, split=str(tmp_path / "parts.csv"))
        for part, graphs in read.benchmark.split:
            assert torch.equal(graphs, again.split[part])
        assert again.split.provenance["split"] == "parts.csv"

    def test_refusals(self, tmp_path):
        path = table(tmp_path)
        other = write_table(tmp_path / "o.csv", {"smiles": ["CCCCCCC", "CCCCCCCC"], "part": ["train", "test"]})
        with pytest.raises(DataError, match="names none of the 108 molecules"):
            own(path, split=str(other))
        twice = write_table(tmp_path / "t.csv", {"smiles": [SMILES[0], SMILES[0]], "part": ["train", "test"]})
        with pytest.raises(DataError, match="into train and into test"):
            own(path, split=str(twice))
        none = write_table(tmp_path / "n.csv", {"smiles": SMILES, "fold": range(N)})
        with pytest.raises(UsageError, match="n.csv has no column that names parts"):
            own(path, split=str(none))
