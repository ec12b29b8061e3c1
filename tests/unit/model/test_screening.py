"""Files in, files out: the same rows, the same cells, ours behind them."""

import csv
import gzip
import io
import json

import numpy as np
import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import mphil
from mphil.errors import DataError, UnknownName, UsageError
from mphil.model.screening import screen_file, screen_graphs
from mphil.tables import pass_through as screening_rows
from mphil.tables.pass_through import free_names, open_source
from mphil.tables.write import harmless, output_kind
from mphil.testing import random_graphs
from tests.graphs import TASKS
from tests.products import make, molecules, rows_of, write_table

OURS = [
    *("prediction", "probability", "conformal_set", "prototype", "ood_score", "domain", "domain_reason"),
    *("nearest_training_id", "nearest_training_molecule", "similarity", "standardised_smiles", "status", "message"),
]


@pytest.fixture(scope="module")
def predictor(product):
    return mphil.load(product.path)


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(screening_rows, "ROWS", 7)


def write(path, text):
    path.write_bytes(text.encode())
    return path


class TestCells:
    def test_rows_and_columns_stay_as_they_are(self, predictor, tmp_path):
        text = (
            'id,SMILES,note,note,"odd ""name"""\n'
            '1,CCO,"a,b","line\nbreak",é\n'
            "2,C C,,  spaced  ,x\n"
            '3,,"""quoted""",-1.5,+3\n'
        )
        summary = screen_file(predictor, write(tmp_path / "in.csv", text), tmp_path / "out.csv")
        given_rows = list(csv.reader(io.StringIO(text, newline="")))
        found = rows_of(tmp_path / "out.csv")
        assert [row[:5] for row in found] == given_rows
        assert found[0][5:] == OURS
        assert [row[-2] for row in found[1:]] == ["ok", "whitespace", "empty"]
        assert (summary.rows, summary.answered, summary.column, summary.escaped) == (3, 1, "SMILES", 0)
        assert dict(summary.statuses) == {"ok": 1, "whitespace": 1, "empty": 1}

    def test_answers_are_those_of_the_predictor(self, predictor, tmp_path):
        smiles = [*molecules(), "C C"]
        table = write_table(tmp_path / "in.csv", {"n": list(range(len(smiles))), "smiles": smiles})
        screen_file(predictor, table, tmp_path / "out.csv", workers=0)
        expected = predictor.predict(smiles).columns()
        header, *rows = rows_of(tmp_path / "out.csv")
        for name, cells in expected.items():
            place = header.index(name)
            for row, cell in zip(rows, cells, strict=True):
                if isinstance(cell, float):
                    assert float(row[place]) == pytest.approx(cell, abs=1e-5, rel=1e-5)
                else:
                    assert row[place] == (cell or "")

    @pytest.mark.usefixtures("small_pieces")
    @pytest.mark.parametrize("workers", [0, 2])
    def test_pieces_and_processes_change_nothing(self, predictor, tmp_path, workers):
        smiles = [*molecules()[:50], "C C", ""]
        table = write_table(tmp_path / "in.csv", {"smiles": smiles})
        screen_file(predictor, table, tmp_path / "pieces.csv", workers=workers)
        answers = predictor.predict(smiles).columns()["probability"]
        found = [row[2] for row in rows_of(tmp_path / "pieces.csv")[1:]]
        for cell, value in zip(found, answers, strict=True):
            # Another piece, another rounding: what lies between two written numbers may become either.
            near = [] if value is None else [value - 1e-7, value, value + 1e-7]
            assert cell in ([f"{number:.6g}" for number in near] or [""])

    def test_rows_that_cannot_be_cut_into_cells_are_kept(self, predictor, tmp_path):
        text = "smiles,a,b\nCCO,1,2\nCCN\nCCC,1,2,3,4\nCCO,1,2,,\nCCCC,1,2\n"
        screen_file(predictor, write(tmp_path / "in.csv", text), tmp_path / "out.csv")
        found = rows_of(tmp_path / "out.csv")[1:]
        assert [row[:3] for row in found] == [
            ["CCO", "1", "2"],
            ["CCN", "", ""],
            ["CCC", "1", "2"],
            ["CCO", "1", "2"],
            ["CCCC", "1", "2"],
        ]
        assert [row[-2] for row in found] == ["ok", "ragged", "ragged", "ok", "ok"]
        assert found[2][-1] == "5 cells where the table has 3 columns"
        assert found[1][3] == "", "no answer about a molecule that may not be one"

    @settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        cells=st.lists(
            st.tuples(
                st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=6),
                st.sampled_from(["-1.5", "=x", "", "'", '"', "a\nb", "a\rb", "\r\n"]),
            ),
            min_size=1,
            max_size=4,
        )
    )
    def test_any_cells_come_back(self, predictor, tmp_path, cells):
        table = write_table(
            tmp_path / "in.csv",
            {"smiles": ["CCO"] * len(cells), "any": [a for a, _ in cells], "odd": [b for _, b in cells]},
        )
        screen_file(predictor, table, tmp_path / "out.csv", workers=0)
        before, after = rows_of(table), rows_of(tmp_path / "out.csv")
        assert [row[:3] for row in after] == [[harmless(cell) for cell in row] for row in before]

    def test_formulas_are_made_harmless_and_counted(self, predictor, tmp_path):
        text = "smiles,=head\nCCO,=1+1\nCCN,@x\nCCC,-2\n"
        summary = screen_file(predictor, write(tmp_path / "in.csv", text), tmp_path / "out.csv")
        assert [row[1] for row in rows_of(tmp_path / "out.csv")] == ["'=head", "'=1+1", "'@x", "-2"]
        assert summary.escaped == 3
        screen_file(predictor, tmp_path / "in.csv", tmp_path / "out.parquet")
        assert parquet.read_table(tmp_path / "out.parquet").column("=head").to_pylist() == ["=1+1", "@x", "-2"]

    def test_our_names_give_way(self, predictor, tmp_path):
        text = "smiles,status,mphil_status,prediction\nCCO,a,b,c\n"
        summary = screen_file(predictor, write(tmp_path / "in.csv", text), tmp_path / "out.csv")
        header, row = rows_of(tmp_path / "out.csv")
        assert header[:4] == ["smiles", "status", "mphil_status", "prediction"]
        assert {"mphil_prediction", "mphil_status_2"} <= set(header)
        assert len(set(header)) == len(header)
        assert row[:4] == ["CCO", "a", "b", "c"]
        assert any("'mphil_prediction', 'mphil_status_2'" in note for note in summary.notes)


@given(taken=st.lists(st.sampled_from(["a", "mphil_a", "mphil_a_2", "b", "mphil_b"]), max_size=5))
def test_names_are_free_and_few_are_changed(taken):
    names, note = free_names(["a", "b"], taken)
    assert not set(names) & set(taken)
    assert len(set(names)) == 2
    assert ("a" in names) == ("a" not in taken)
    assert bool(note) == (names != ["a", "b"])


class TestFormats:
    def test_gzip_in_and_out(self, predictor, tmp_path):
        (tmp_path / "in.csv.gz").write_bytes(gzip.compress(b"smiles,a\nCCO,1\nCCN,2\n"))
        screen_file(predictor, tmp_path / "in.csv.gz", tmp_path / "out.csv.gz")
        screen_file(predictor, tmp_path / "in.csv.gz", tmp_path / "out.csv")
        assert gzip.decompress((tmp_path / "out.csv.gz").read_bytes()) == (tmp_path / "out.csv").read_bytes()

    def test_tabs(self, predictor, tmp_path):
        write(tmp_path / "in.tsv", "smiles\ta\nCCO\tx,y\n")
        screen_file(predictor, tmp_path / "in.tsv", tmp_path / "out.tsv")
        assert rows_of(tmp_path / "out.tsv", "\t")[1][:2] == ["CCO", "x,y"]

    def test_parquet_keeps_its_types(self, predictor, tmp_path):
        table = pyarrow.table(
            {
                "smiles": ["CCO", "C C", None],
                "count": pyarrow.array([1, None, 3], pyarrow.int32()),
                "when": pyarrow.array([0, 1, 2], pyarrow.timestamp("ms")),
                "many": [[1, 2], [], None],
                "status": pyarrow.array(["a", "b", "a"]).dictionary_encode(),
            }
        )
        parquet.write_table(table, tmp_path / "in.parquet")
        screen_file(predictor, tmp_path / "in.parquet", tmp_path / "out.parquet")
        found = parquet.read_table(tmp_path / "out.parquet")
        assert found.select(table.column_names).equals(table)
        assert found.column("mphil_status").to_pylist() == ["ok", "whitespace", "empty"]
        assert found.schema.field("probability").type == pyarrow.float64()
        expected = predictor.predict(["CCO"]).probability[0, 0]
        assert found.column("probability").to_pylist() == [pytest.approx(expected, abs=1e-6), None, None]

    def test_parquet_with_two_columns_of_one_name(self, predictor, tmp_path):
        columns = [pyarrow.array(["CCO"]), pyarrow.array([1]), pyarrow.array(["x"])]
        table = pyarrow.Table.from_arrays(columns, names=["smiles", "a", "a"])
        parquet.write_table(table, tmp_path / "in.parquet")
        screen_file(predictor, tmp_path / "in.parquet", tmp_path / "out.parquet")
        found = parquet.ParquetFile(tmp_path / "out.parquet").read()
        assert found.column_names[:3] == ["smiles", "a", "a"]
        assert [found.column(i).to_pylist() for i in range(3)] == [["CCO"], [1], ["x"]]

    def test_from_one_format_to_another(self, predictor, tmp_path):
        table = write_table(tmp_path / "in.csv", {"smiles": ["CCO", "CCN"], "a": ["1", ""]})
        screen_file(predictor, table, tmp_path / "out.parquet")
        screen_file(predictor, tmp_path / "out.parquet", tmp_path / "again.csv")
        rows = rows_of(tmp_path / "again.csv")
        assert [row[:2] for row in rows] == [["smiles", "a"], ["CCO", "1"], ["CCN", ""]]
        first, second = rows[0].index("probability"), rows[0].index("mphil_probability")
        assert float(rows[1][first]) == pytest.approx(float(rows[1][second]), abs=1e-5)

    def test_structures(self, predictor, tmp_path):
        write(tmp_path / "in.smi", "CCO ethanol\nC1CC broken\n")
        screen_file(predictor, tmp_path / "in.smi", tmp_path / "out.csv")
        rows = rows_of(tmp_path / "out.csv")
        assert rows[0][:2] == ["smiles", "name"]
        assert [row[1] for row in rows[1:]] == ["ethanol", "broken"]
        assert [row[-2] for row in rows[1:]] == ["ok", "syntax"]

    @pytest.mark.parametrize("name", ["out", "out.xls", "out.parquet.gz", "out.csv.zip", "out.gz"])
    def test_names_that_say_nothing(self, predictor, tmp_path, name):
        write(tmp_path / "in.csv", "smiles\nCCO\n")
        with pytest.raises(UsageError, match="its name must end in .csv, .tsv"):
            screen_file(predictor, tmp_path / "in.csv", tmp_path / name)
        assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]

    def test_kinds(self, tmp_path):
        assert output_kind(tmp_path / "a.CSV.GZ") == (".csv", True)
        assert output_kind(tmp_path / "a.b.parquet") == (".parquet", False)

    def test_no_rows(self, predictor, tmp_path):
        for name in ("out.csv", "out.parquet"):
            summary = screen_file(predictor, write(tmp_path / "in.csv", "smiles,a\n"), tmp_path / name)
            assert summary.rows == 0
        assert rows_of(tmp_path / "out.csv") == [["smiles", "a", *OURS]]
        assert parquet.read_table(tmp_path / "out.parquet").num_rows == 0

    def test_words_of_windows(self, predictor, tmp_path):
        (tmp_path / "in.csv").write_bytes("smiles,a\nCCO,caf\xe9\n".encode("cp1252"))
        summary = screen_file(predictor, tmp_path / "in.csv", tmp_path / "out.csv")
        assert rows_of(tmp_path / "out.csv")[1][1] == "café"
        assert any("Windows-1252" in note for note in summary.notes)


class TestMolecules:
    def test_the_column_of_training_wins_then_what_is_found(self, tmp_path):
        write(tmp_path / "a.csv", "other,smiles\nCCO,CCN\n")
        assert open_source(tmp_path / "a.csv", usual="smiles").column == "smiles"
        assert open_source(tmp_path / "a.csv", usual="other").column == "other"
        assert open_source(tmp_path / "a.csv", column="other", usual="smiles").column == "other"
        write(tmp_path / "b.csv", "id,structure\n1,CCO\n2,CCN\n")
        assert open_source(tmp_path / "b.csv", usual="smiles").column == "structure"
        with pytest.raises(UnknownName, match="structur"):
            open_source(tmp_path / "b.csv", column="structur")

    @pytest.mark.parametrize(
        ("name", "text", "count"),
        [("a.csv", "smiles\nCCO\nCCN\n", 2), ("a.smi", "CCO\nCCN\n", 2), ("a.csv", "smiles\n", 0)],
    )
    def test_how_many_there_will_be(self, tmp_path, name, text, count):
        assert open_source(write(tmp_path / name, text), usual="smiles").count() == count

    def test_nothing_that_could_be_one(self, predictor, tmp_path):
        write(tmp_path / "in.csv", "a,b\n1,2\n3,4\n")
        with pytest.raises(DataError, match="no column holds molecules"):
            screen_file(predictor, tmp_path / "in.csv", tmp_path / "out.csv")
        assert not (tmp_path / "out.csv").exists()


class TestOutput:
    def test_never_onto_its_own_input(self, predictor, tmp_path):
        table = write(tmp_path / "in.csv", "smiles\nCCO\n")
        (tmp_path / "link.csv").symlink_to(table)
        for out in (table, tmp_path / "link.csv"):
            with pytest.raises(UsageError, match="is the file that is read"):
                screen_file(predictor, table, out)
        assert table.read_text() == "smiles\nCCO\n"

    @pytest.mark.usefixtures("small_pieces")
    @pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.parquet"])
    def test_a_fault_half_way_leaves_the_old_file(self, predictor, tmp_path, name, monkeypatch):
        table = write_table(tmp_path / "in.csv", {"smiles": ["CCO"] * 40})
        (tmp_path / name).write_bytes(b"old")
        answered = []
        true = predictor.answer

        def answer(molecules_read):
            answered.append(1)
            if len(answered) == 4:
                raise KeyboardInterrupt
            return true(molecules_read)

        monkeypatch.setattr(predictor, "answer", answer)
        with pytest.raises(KeyboardInterrupt):
            screen_file(predictor, table, tmp_path / name, workers=0)
        assert (tmp_path / name).read_bytes() == b"old"
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["in.csv", name])

    def test_the_summary_is_json(self, predictor, tmp_path):
        table = write_table(tmp_path / "in.csv", {"smiles": [*molecules()[:20], "C C"]})
        found = json.loads(json.dumps(screen_file(predictor, table, tmp_path / "out.csv").as_dict()))
        assert found["rows"] == 21
        assert sum(found["domains"].values()) == found["answered"] == 20


def test_graphs(tmp_path):
    store = random_graphs(TASKS["multiclass"], n_nodes=[3 + n % 9 for n in range(80)])
    store.save(tmp_path / "graphs")
    made = make(tmp_path / "graphs", tmp_path / "out", method="erm")
    predictor = mphil.load(made.path)
    summary = screen_graphs(predictor, tmp_path / "graphs", tmp_path / "answers.csv")
    header, *rows = rows_of(tmp_path / "answers.csv")
    assert [row[0] for row in rows] == [str(n) for n in range(80)]
    place = header.index("prediction")
    expected = predictor.predict_graphs(store).prediction[:, 0]
    assert [int(row[place]) for row in rows] == np.asarray(expected).tolist()
    assert summary.answered == 80
    write(tmp_path / "in.csv", "smiles\nCCO\n")
    with pytest.raises(UsageError, match="this bundle takes graphs"):
        screen_file(predictor, tmp_path / "in.csv", tmp_path / "o.csv")


def test_molecules_are_no_graphs(predictor, tmp_path):
    with pytest.raises(UsageError, match="this bundle takes molecules"):
        screen_graphs(predictor, tmp_path, tmp_path / "o.csv")
