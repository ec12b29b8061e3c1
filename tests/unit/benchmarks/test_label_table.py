"""Tables of MoleculeNet: what is read, and what is refused."""

import gzip

import numpy as np
import pytest

from mphil.benchmarks.label_table import read_labels
from mphil.errors import DataError


def write(path, text):
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["table.csv", "table.csv.gz"])
def test_labels_are_zero_one_or_missing_in_the_order_of_the_file(tmp_path, name):
    path = write(tmp_path / name, "b,a,mol_id,smiles\n0,,x,CC\n1.0,0.0,y,CO\n,1,z,\n")
    table = read_labels(path, 2, ignored=("mol_id",))
    assert table.tasks == ("b", "a")
    assert table.smiles == ["CC", "CO", ""]
    assert table.labels.dtype == np.float32
    np.testing.assert_array_equal(table.labels, [[0, np.nan], [1, 0], [np.nan, 1]])


def test_compression_is_told_by_the_contents_not_by_the_name(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(gzip.compress(b"a,smiles\n1,CC\n"))
    assert read_labels(path, 1).smiles == ["CC"]


def test_the_line_ends_of_the_published_hiv_file(tmp_path):
    path = tmp_path / "HIV.csv"
    path.write_bytes(b"smiles,activity,HIV_active\r\n\nCC,CI,0\r\n\nCO,CM,1\r\n\n")
    table = read_labels(path, 1, ignored=("activity",))
    assert (table.smiles, table.labels.tolist()) == (["CC", "CO"], [[0.0], [1.0]])


def test_many_blocks_make_one_table(tmp_path):
    rows = 200_000  # 4.5 MB of text, and a block holds 4.2
    path = write(tmp_path / "table.csv", "smiles,a\n" + "".join(f"{'C' * (i % 40)},{i % 2}\n" for i in range(rows)))
    table = read_labels(path, 1)
    assert [len(text) for text in table.smiles] == [i % 40 for i in range(rows)]
    assert (table.labels[:, 0] == np.arange(rows) % 2).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must name one 'smiles' column"),
        ("a,b\n0,1\n", "must name one 'smiles' column"),
        ("a,a,smiles\n0,1,C\n", "no column twice"),
        ("a,smiles\n0,C\n", "1 label columns where 2 are expected"),
        ("a,b,smiles\n", "no rows"),
        ("a,b,smiles\n0,1,C\n0,2,C\n", "row 2, column b: a label is 0, 1 or empty, not 2"),
        ("a,b,smiles\n0,inf,C\n", "row 1, column b"),
        ("a,b,smiles\n0,yes,C\n", "download it again"),
        ("a,b,smiles\n0,1\n", "download it again"),
    ],
)
def test_another_table_is_refused(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_labels(write(tmp_path / "table.csv", text), 2)


def test_a_file_cut_short_is_refused(tmp_path):
    noise = np.random.default_rng(0).integers(2, size=40_000)
    whole = gzip.compress(("a,smiles\n" + "".join(f"{label},C\n" for label in noise)).encode())
    path = tmp_path / "table.csv.gz"
    for size in (1, 2, 30, len(whole) // 2, len(whole) - 4):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError, match="table.csv.gz"):
            read_labels(path, 1)
