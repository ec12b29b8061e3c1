"""Every format gives the same rows; what is wrong with a row is said and the next ones are read all the same."""

import csv
import gzip
import io
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from rdkit import Chem

from mphil.errors import DataError, UnknownName, UsageError
from mphil.tables import delimited
from mphil.tables.read import open_table, unique_names

ROWS = [("CCO", "1", "a"), ("CCN", "0", "b"), ("c1ccccc1", "", "c")]
TEXT = "smiles,active,note\n" + "".join(",".join(row) + "\n" for row in ROWS)


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def all_rows(path, **options):
    """Rows as tuples, lines, problems."""
    rows, lines, problems = [], [], {}
    for chunk in open_table(path).chunks(**options):
        assert chunk.start == len(rows)
        rows += zip(*chunk.columns.values(), strict=True)
        lines += chunk.lines
        problems |= {row: issue.status for row, issue in chunk.issues.items()}
    return rows, lines, problems


class TestFormats:
    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("a.csv", TEXT),
            ("a.tsv", TEXT.replace(",", "\t")),
            ("a.csv", TEXT.replace(",", ";")),
            ("a.txt", TEXT.replace(",", "|")),
            ("a", TEXT),
            ("a.csv.gz", gzip.compress(TEXT.encode(), mtime=0)),
            ("misnamed.csv", gzip.compress(TEXT.encode(), mtime=0)),
            ("a.csv", b"\xef\xbb\xbf" + TEXT.encode()),
            ("a.csv", TEXT.encode("utf-16")),
            ("a.csv", b"\xfe\xff" + TEXT.encode("utf-16-be")),
            ("a.csv", TEXT.replace("\n", "\r\n")),
            ("a.csv", TEXT.replace("\n", "\r")),
            ("a.csv", TEXT.removesuffix("\n")),
            ("a.csv", TEXT.replace("\n", ",,\n").replace("note,,", "note")),
        ],
    )
    def test_text(self, tmp_path, name, content):
        path = written(tmp_path, name, content)
        assert open_table(path).columns == ("smiles", "active", "note")
        assert all_rows(path) == (ROWS, [2, 3, 4], {})

    @pytest.mark.parametrize("name", ["a.parquet", "a.parquet.gz", "a.csv"])
    def test_parquet(self, tmp_path, name):
        table = pyarrow.table(
            {
                "smiles": ["CCO", "CCN", None],
                "active": [True, False, None],
                "count": [1, 2, 3],
                "value": [0.5, float("nan"), None],
                "kind": pyarrow.array(["x", "y", "x"]).dictionary_encode(),
                "list": [[1], None, []],
            }
        )
        buffer = io.BytesIO()
        parquet.write_table(table, buffer, row_group_size=2)
        data = buffer.getvalue()
        path = written(tmp_path, name, gzip.compress(data) if name.endswith("gz") else data)
        rows, lines, problems = all_rows(path, rows=2)
        assert rows == [
            ("CCO", "true", "1", "0.5", "x", "[1]"),
            ("CCN", "false", "2", "", "y", ""),
            ("", "", "3", "", "x", "[]"),
        ]
        assert (lines, problems) == ([1, 2, 3], {})
        assert all_rows(path, columns=["count", "smiles"])[0] == [("1", "CCO"), ("2", "CCN"), ("3", "")]

    def test_parquet_with_two_columns_of_one_name(self, tmp_path):
        table = pyarrow.Table.from_arrays([pyarrow.array([1]), pyarrow.array([2])], names=["x", "x"])
        parquet.write_table(table, tmp_path / "a.parquet")
        assert open_table(tmp_path / "a.parquet").columns == ("x", "x (2)")
        assert all_rows(tmp_path / "a.parquet", columns=["x (2)"])[0] == [("2",)]

    def test_smi(self, tmp_path):
        path = written(tmp_path, "a.smi", "SMILES Name\nCCO ethanol\n\nCCN\tamine of two\nC\n")
        assert all_rows(path) == ([("CCO", "ethanol"), ("CCN", "amine of two"), ("C", "")], [2, 4, 5], {})

    def test_sdf(self, tmp_path):
        text = io.StringIO()
        writer = Chem.SDWriter(text)
        for smiles, active in (("CCO", "1"), ("CC(=O)Oc1ccccc1C(=O)O", "0")):
            mol = Chem.MolFromSmiles(smiles)
            mol.SetProp("_Name", smiles)
            mol.SetProp("active", active)
            writer.write(mol)
        writer.close()
        broken = "broken\n\n\n  1  0  0\nnonsense\nM  END\n> <extra>\ntwo\nlines\n\n$$$$\n"
        path = written(tmp_path, "a.sdf.gz", gzip.compress((broken + text.getvalue()).encode()))
        rows, lines, problems = all_rows(path)
        assert open_table(path).columns == ("smiles", "name", "extra", "active")
        assert rows[1:] == [("CCO", "CCO", "", "1"), ("CC(=O)Oc1ccccc1C(=O)O",) * 2 + ("", "0")]
        assert problems == {0: "structure"}
        assert lines[:2] == [1, 12]


class TestRows:
    def test_quoted_newlines_and_delimiters(self, tmp_path):
        path = written(tmp_path, "a.csv", 'smiles,note\nCCO,"two\nlines, and ""quotes"""\nCCN,x\n')
        assert all_rows(path) == ([("CCO", 'two\nlines, and "quotes"'), ("CCN", "x")], [2, 4], {})

    def test_ragged_rows_are_set_aside_and_kept(self, tmp_path):
        path = written(tmp_path, "a.csv", "smiles,y\nCCO,1\nCC\nCCN,0,9\nCCC,1\n")
        rows, lines, problems = all_rows(path)
        assert rows == [("CCO", "1"), ("", ""), ("", ""), ("CCC", "1")]
        assert (lines, problems) == ([2, 3, 4, 5], {1: "ragged", 2: "ragged"})

    def test_blank_lines_are_no_rows_but_count_as_lines(self, tmp_path):
        path = written(tmp_path, "a.csv", "\nsmiles,y\n\nCCO,1\n\n\nCCN,0\n\n")
        assert all_rows(path) == ([("CCO", "1"), ("CCN", "0")], [4, 7], {})

    def test_a_quote_that_never_closes(self, tmp_path):
        path = written(tmp_path, "a.csv", 'smiles,y\nCCO,1\nCCN,"0\nCCC,1\n')
        rows, lines, problems = all_rows(path)
        assert (rows, lines, problems) == ([("CCO", "1"), ("", "")], [2, 3], {1: "open-quote"})

    def test_a_field_of_many_lines_is_given_up_and_reading_goes_on(self, tmp_path):
        swallowed = '"' + "CCC,1\n" * 30_000
        path = written(tmp_path, "a.csv", "smiles,y\nCCO,1\n" + swallowed + "CCN,0\n")
        rows, _, problems = all_rows(path)
        assert problems == {1: "open-quote"}
        assert rows[0] == ("CCO", "1")
        assert rows[-1] == ("CCN", "0")

    def test_other_encodings_are_read_and_counted(self, tmp_path):
        text = "smiles,IC50 (µM)\nCCO,é\n".encode("cp1252") + "CCN,é\n".encode()
        chunk = next(open_table(written(tmp_path, "a.csv", text)).chunks())
        assert dict(chunk.columns) == {"smiles": ("CCO", "CCN"), "IC50 (µM)": ("é", "é")}
        assert chunk.recoded == 2

    def test_no_header(self, tmp_path):
        table = open_table(written(tmp_path, "a.csv", "CCO,1\nCCN,0\n"))
        assert table.columns == ("column 1", "column 2")
        assert "no header" in table.notes[0]
        assert all_rows(table.path)[0] == [("CCO", "1"), ("CCN", "0")]

    def test_a_header_that_could_be_a_small_molecule(self, tmp_path):
        assert open_table(written(tmp_path, "a.csv", "C,NO\nCCO,1\n")).columns == ("C", "NO")

    def test_unknown_column(self, tmp_path):
        with pytest.raises(UnknownName, match="unknown column of a.csv 'smile'; did you mean smiles"):
            list(open_table(written(tmp_path, "a.csv", TEXT)).chunks(columns=["smile"]))


CELL = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]) | st.just("\n"), max_size=8)
ROWS_OF_CELLS = st.integers(2, 4).flatmap(lambda n: st.lists(st.tuples(*[CELL] * n), min_size=1, max_size=20))


@settings(max_examples=60)
@given(ROWS_OF_CELLS, st.integers(1, 7))
def test_what_the_csv_module_writes_is_read_back(tmp_path_factory, rows, size):
    rows = [("-", *row) for row in rows]  # a blank row is not told from a blank line
    path = tmp_path_factory.mktemp("t") / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([[f"name {i}" for i in range(len(rows[0]))], *rows])
    found, _, problems = all_rows(path, rows=size)
    assert problems == {}
    assert found == rows


def test_names_are_unique():
    assert unique_names(["a", " a ", "a (2)", "", "a"])[0] == ("a", "a (3)", "a (2)", "column 4", "a (4)")
    assert unique_names(["x", "y"]) == (("x", "y"), ())


@pytest.mark.parametrize("row", ["C\0CO,1,x", "CCO,\0,x", "CCO,1,a\0b", "\0,\0,\0"])
@pytest.mark.parametrize("place", [0, 3000])
def test_a_nul_character_costs_its_row(tmp_path, row, place):
    rows = ["CCN,0,fine"] * 6000
    rows[place] = row
    file = tmp_path / "a.csv"
    file.write_text("\n".join(["smiles,y,name", *rows]) + "\n")
    chunks = list(open_table(file).chunks())
    assert sum(map(len, chunks)) == 6000
    found = {number: issue.status for chunk in chunks for number, issue in chunk.issues.items()}
    assert found == {place: "control"}


def test_a_nul_character_in_a_short_table_costs_its_row(tmp_path):
    file = tmp_path / "a.csv"
    file.write_bytes(b"smiles,y\nCCO,1\nC\0C,0\n")
    (chunk,) = open_table(file).chunks()
    assert chunk.columns["smiles"] == ("CCO", "")
    assert list(chunk.issues) == [1]


class TestRefused:
    def test_pipes_and_devices(self, tmp_path):
        pipe = tmp_path / "pipe.csv"
        os.mkfifo(pipe)
        for path in (pipe, Path("/dev/zero"), Path("/dev/null")):
            with pytest.raises(UsageError, match=f"{path}: a pipe or a device"):
                open_table(path)

    @pytest.mark.parametrize(
        ("name", "content", "text"),
        [
            ("a.csv", b"", "the file is empty"),
            ("a.csv", b"\xef\xbb\xbf\n\n", "the file is empty"),
            ("a.csv", b"a,b\0c,d\n", "the first row cannot be read: a cell holds a NUL"),
            ("a.csv", "smiles,y\nCCO,1\n".encode("utf-16-le"), "binary"),
            ("a.csv", bytes(range(256)) * 4, "binary"),
            ("a.xlsx", b"PK\x03\x04abc", "save the table as CSV"),
            ("a.parquet", b"PAR1" + b"junk" * 100, "parquet"),
            ("a.csv.gz", gzip.compress(TEXT.encode() * 100, mtime=0)[:60], "gzip data are damaged"),
            ("a.csv", "x," * 30_000, "60,001|30,001"),
            ("a.csv", "x" * 5_000_000, "a line of more than"),
        ],
    )
    def test_files(self, tmp_path, name, content, text):
        with pytest.raises(DataError, match=text):
            all_rows(written(tmp_path, name, content))

    def test_places(self, tmp_path):
        with pytest.raises(UsageError, match="no such file"):
            open_table(tmp_path / "a.csv")
        with pytest.raises(UsageError, match="a folder"):
            open_table(tmp_path)

    def test_endless_blank_lines(self, tmp_path, monkeypatch):
        monkeypatch.setattr(delimited, "MOST_BLANK_LINES", 100)
        with pytest.raises(DataError, match="101 blank lines"):
            all_rows(written(tmp_path, "a.csv", TEXT + "\n" * 500))


PROBE = textwrap.dedent("""
    import sys, tracemalloc
    from pathlib import Path
    from mphil.tables.read import open_table
    list(open_table(Path(sys.argv[1])).chunks())  # imports and caches
    tracemalloc.start()
    rows = sum(len(chunk) for chunk in open_table(Path(sys.argv[2])).chunks())
    print(rows, tracemalloc.get_traced_memory()[1])
""")


def peak(path):
    small = path.with_name("small.csv")
    small.write_text(TEXT)
    command = [sys.executable, "-c", PROBE, str(small), str(path)]
    return tuple(map(int, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "smi"])
def test_memory_does_not_grow_with_the_table(tmp_path, kind):
    peaks = []
    for count in (20_000, 200_000):
        path = tmp_path / f"{count}.{kind}"
        if kind == "parquet":
            columns = {"smiles": [f"C{i}" for i in range(count)], "y": list(range(count))}
            parquet.write_table(pyarrow.table(columns), path, row_group_size=10_000)
        elif kind == "smi":
            path.write_text("".join(f"CCO name {i}\n" for i in range(count)))
        else:
            text = "smiles,y\n" + "".join(f"CCCCCCCC,{i}\n" for i in range(count))
            path.write_bytes(gzip.compress(text.encode()) if kind == "csv.gz" else text.encode())
        rows, most = peak(path)
        assert rows == count
        peaks.append(most)
    assert peaks[1] < 1.2 * peaks[0] + 200_000, peaks


def test_cells_of_rows_that_do_not_fit_can_be_kept(tmp_path):
    path = written(tmp_path, "a.csv", "smiles,a,b\nCCO,1\nCCN,1,2,3\nCCC,1,2\n")
    assert all_rows(path)[0] == [("", "", ""), ("", "", ""), ("CCC", "1", "2")]
    rows, _, problems = all_rows(path, keep=True)
    assert rows == [("CCO", "1", ""), ("CCN", "1", "2"), ("CCC", "1", "2")]
    assert problems == {0: "ragged", 1: "ragged"}


def test_names_as_they_stand_in_the_file(tmp_path):
    table = open_table(written(tmp_path, "a.csv", "smiles, a ,a,\nCCO,1,2,3\n"))
    assert table.fields == ("smiles", " a ", "a", "")
    assert table.columns == ("smiles", "a", "a (2)", "column 4")
    assert open_table(written(tmp_path, "b.csv", "CCO,1\nCCN,2\n")).fields == ()


def test_chunks_of_long_rows_are_short(tmp_path, monkeypatch):
    """A few kilobytes of gzip can hold thousands of rows of a hundred thousand characters."""
    monkeypatch.setattr("mphil.tables.read.CHARACTERS", 1_000)
    path = tmp_path / "x.csv"
    path.write_text("smiles,y\n" + "".join(f"{'C' * 300},{i}\n" for i in range(20)))
    chunks = list(open_table(path).chunks())
    assert [len(chunk) for chunk in chunks] == [4] * 5
    assert [cell for chunk in chunks for cell in chunk.columns["y"]] == [str(i) for i in range(20)]
    assert [chunk.start for chunk in chunks] == [0, 4, 8, 12, 16]


def test_a_structure_of_too_many_characters(tmp_path, monkeypatch):
    monkeypatch.setattr("mphil.tables.structures.MOST_CHARACTERS", 1_000)
    path = tmp_path / "x.sdf"
    path.write_text("long\n" + "C" * 600 + "\n" + "C" * 600 + "\n$$$$\nshort\n\n\n$$$$\n")
    (chunk,) = open_table(path).chunks()
    assert [issue.message for issue in chunk.issues.values()] == [
        "the structure that begins on line 1 has more lines or characters than we read",
        "RDKit cannot read the structure that begins on line 5; check the mol block",
    ]


def test_what_is_too_much_is_said_with_the_name_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr("mphil.tables.structures.MOST_PROPERTIES", 2)
    path = tmp_path / "x.sdf"
    path.write_text("".join(f"> <p{i}>\n1\n\n" for i in range(3)) + "$$$$\n")
    with pytest.raises(DataError, match=r"x\.sdf:7: more than 2 different properties"):
        open_table(path)


def test_an_sdf_file_without_an_end_of_a_structure(tmp_path, monkeypatch):
    monkeypatch.setattr("mphil.tables.structures.MOST_LINES", 10)
    path = tmp_path / "x.sdf"
    path.write_text("C\n" * 9 + "$$$$\n" + "C\n" * 20)
    with pytest.raises(DataError, match=r"x\.sdf:21: 10 lines without"):
        open_table(path)
