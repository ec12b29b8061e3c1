"""Columns are taken for what they hold, and whoever knows better is believed."""

import pytest

from mphil.errors import DataError, UnknownName, UsageError
from mphil.tables.cell_values import Coded, as_number, normal_label, read_target
from mphil.tables.read import open_table
from mphil.tables.roles import find_roles

MOLECULES = ["CCO", "CCN", "c1ccccc1", "CC(=O)O", "CCCC", "CC(C)C", "Cc1ccccc1", "OCCO", "NCCN", "CCS", "CCCl", "CCF"]


def table(folder, **columns):
    columns = {name: list(map(str, cells)) for name, cells in columns.items()}
    path = folder / "assay.csv"
    rows = zip(*columns.values(), strict=True)
    path.write_text(",".join(columns) + "\n" + "".join(",".join(row) + "\n" for row in rows))
    return open_table(path)


def test_a_table_as_chemists_have_them(tmp_path):
    found = find_roles(
        table(
            tmp_path,
            mol_id=[f"CID{i}" for i in range(12)],
            structure=MOLECULES,
            active=[0, 1] * 6,
            toxic=["yes", "no", ""] * 4,
            pIC50=[5.1 + i / 7 for i in range(12)],
            batch=[1, 2, 3] * 4,
            measured=[f"2024-0{i % 6 + 1}-11" for i in range(12)],
            operator=["ann", "bob", "eve"] * 4,
            grade=["C", "F", "N"] * 4,
            fold=["train"] * 8 + ["valid"] * 2 + ["test"] * 2,
            empty=[""] * 12,
        )
    )
    assert found.smiles == "structure"
    assert found.targets == ("active", "toxic")
    assert found.id == "mol_id"
    assert found.part == "fold"
    assert found.domains == ("batch", "measured", "operator", "grade")
    assert found.why["pIC50"][0] == found.why["empty"][0] == "unused"
    assert found.used == ("structure", "active", "toxic", "fold", *found.domains, "mol_id")


def test_a_name_that_says_smiles_wins(tmp_path):
    found = find_roles(table(tmp_path, product=MOLECULES[::-1], canonical_smiles=MOLECULES, y=[0, 1] * 6))
    assert found.smiles == "canonical_smiles"


def test_one_column_of_classes(tmp_path):
    assert find_roles(table(tmp_path, smiles=MOLECULES, level=[0, 1, 2] * 4)).targets == ("level",)
    assert find_roles(table(tmp_path, smiles=MOLECULES, a=[0, 1, 2] * 4, b=[0, 1, 2] * 4)).targets == ()


def test_the_only_column_of_measurements(tmp_path):
    measured, numbered = [5.1 + i / 7 for i in range(12)], range(12)
    found = find_roles(table(tmp_path, smiles=MOLECULES, pIC50=measured, number=numbered, mol_id=measured))
    assert found.targets == ("pIC50",)
    assert found.why["pIC50"] == ("target", "the only column of measurements")
    assert find_roles(table(tmp_path, smiles=MOLECULES, a=measured, b=measured)).targets == ()
    assert find_roles(table(tmp_path, smiles=MOLECULES, a=measured, level=[0, 1, 2] * 4)).targets == ("level",)


def test_what_is_told_is_not_guessed(tmp_path):
    data = table(tmp_path, a=MOLECULES, b=MOLECULES[::-1], y=[0, 1] * 6, z=[0, 1] * 6, batch=[1, 2, 3] * 4)
    found = find_roles(data, smiles="b", targets=["z"], domains=["y"])
    assert (found.smiles, found.targets, found.domains) == ("b", ("z",), ("y", "batch"))
    assert found.why["z"] == ("target", "as you said")
    assert find_roles(data, targets=["z"]).why["y"][0] == "unused"


def test_mistakes(tmp_path):
    data = table(tmp_path, smiles=MOLECULES, y=[0, 1] * 6)
    with pytest.raises(UnknownName, match="column of assay.csv 'smile'; did you mean smiles"):
        find_roles(data, smiles="smile")
    with pytest.raises(UsageError, match="'y' is given as target and as domain"):
        find_roles(data, targets=["y"], domains=["y"])
    with pytest.raises(DataError, match="no column holds molecules.*columns: name, y"):
        find_roles(table(tmp_path, name=["ethanol", "water"] * 6, y=[0, 1] * 6))
    with pytest.raises(DataError, match="nothing below it"):
        find_roles(table(tmp_path, smiles=[], y=[]))


@pytest.mark.parametrize(
    ("cell", "label"),
    [
        *[(cell, "1") for cell in ("1", "1.0", " 1 ", "TRUE", "Active", "yes", "+1", "1e0")],
        *[(cell, "0") for cell in ("0", "0.0", "-0", "false", "inactive", "N")],
        *[(cell, "") for cell in ("", " ", "NaN", "NA", "null", "?")],
        ("2.50", "2.5"),
        ("CM", "CM"),
        ("inf", "inf"),
        ("1e999", "1e999"),
        ("١", "١"),
        ("1_0", "1_0"),
    ],
)
def test_labels_in_one_way_of_writing(cell, label):
    assert normal_label(cell) == label


def test_numbers():
    assert [as_number(t) for t in ("1.5", ".5", "1e3", "x", "", "nan", "1e999")] == [1.5, 0.5, 1000, *[None] * 4]


def coded(cells):
    column = Coded()
    column.extend(normal_label(str(cell)) for cell in cells)
    assert column.values() == [normal_label(str(cell)) for cell in cells]
    return column


@pytest.mark.parametrize(
    ("cells", "kind", "classes", "y"),
    [
        (["1", "0", "NA", "true"], "binary", ("0", "1"), [1, 0, None, 1]),
        (["1", "1"], "binary", ("0", "1"), [1, 1]),
        (["10", "9", "10"], "multiclass", ("9", "10"), [1, 0, 1]),
        (["CM", "CA", ""], "multiclass", ("CA", "CM"), [1, 0, None]),
        (["", ""], "empty", (), [None, None]),
        (range(60), "continuous", (), list(range(60))),
        ([f"word {n}" for n in range(60)], "text", (), [None] * 60),
    ],
)
def test_targets(cells, kind, classes, y):
    target = read_target("t", coded(cells))
    assert (target.kind, target.classes) == (kind, classes)
    assert [None if v != v else v for v in target.y.tolist()] == y
    assert target.strange == ()


def test_text_among_numbers_is_strange():
    target = read_target("t", coded(["0", "1"] * 10 + ["oops"]))
    assert (target.kind, target.strange) == ("binary", (20,))
    assert target.counts() == {"0": 10, "1": 10}
