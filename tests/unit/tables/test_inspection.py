"""The report on a table whose faults are known, in Python, as JSON, as a page and on the terminal."""

import csv
import json
import re

import pytest
import torch
from torch_geometric.data import Data

from mphil.errors import DataError, UnknownName, UsageError
from mphil.pages.check_page import check_page
from mphil.tables.graph_folders import open_graphs
from mphil.tables.inspection import check
from mphil.tables.splitting import OOD_TEST
from tests.command import call

RINGS = ["C1CC1", "C1CCC1", "C1CCCC1", "C1CCCCC1", "c1ccccc1", "c1ccncc1", "c1ccoc1", "c1ccsc1", "C1CCNCC1", "C1CCOCC1"]
GOOD = [f"{'C' * length}{ring}" for ring in RINGS for length in range(1, 7)]
BAD = {"C C": "whitespace", "": "empty", "C1CC": "syntax", "C(C)(C)(C)(C)C": "valence", "CСO": "not-ascii"}


@pytest.fixture
def assay(tmp_path):
    """60 good rows, the first two again (once with another label, written differently), five bad, one ragged."""
    rows = [[smiles, str(i % 2), f"a{i % 7}"] for i, smiles in enumerate(GOOD)]
    rows += [["C1CC1C", "1", "a1"], [GOOD[1], "1", "a6"]]
    rows += [[smiles, "1", "a0"] for smiles in BAD]
    text = "\n".join(",".join(row) for row in [["smiles", "active", "assay"], *rows, ["CCO", "1"]])
    path = tmp_path / "assay.csv"
    path.write_text(text + "\n")
    return path


def test_rows_in_are_rows_out(assay):
    survey = check(assay).survey
    statuses = list(survey.statuses())
    assert [status.row for status in statuses] == list(range(68))
    refused = [status.status for status in statuses if not status.kept]
    assert refused == ["contradiction", "contradiction", "merged", *BAD.values(), "ragged"]
    assert [bad.line for bad in survey.bad] == [2, 62, 64, 65, 66, 67, 68, 69]
    assert all(bad.message for bad in survey.bad)
    assert survey.row.tolist() == list(range(1, 60)), "one is merged, as in training"
    assert [one.row for one in survey.merged] == [61]


def test_duplicates_and_conflicts(assay):
    found = check(assay).duplicates
    assert [group.rows for group in found.groups] == [(0, 60), (1, 61)]
    assert [group.rows for group in found.conflicts] == [(0, 60)]


def test_splits(assay):
    report = check(assay)
    assert [split.name for split in report.splits] == ["scaffold", "cluster", "size", "assay", "random"]
    for split in report.splits:
        assert split.assignment.to_split().sizes["train"] > 0
        assert split.leaks.molecules == 0


def test_a_molecule_of_several_batches_is_in_one_part(tmp_path):
    rows = [f"{smiles},{i % 2},{i:03}" for i, smiles in enumerate(GOOD)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["smiles,y,batch", *rows, f"{GOOD[0]},0,999", f"{GOOD[0]},0,998"]) + "\n")
    (split,) = check(path, splits=["batch"]).splits
    assert split.leaks.molecules == 0
    assert len(split.assignment.part) == 60
    assert split.assignment.part[0] != OOD_TEST


def test_a_molecule_on_two_sides_is_found(tmp_path):
    rows = [f"{smiles},{i % 2},{'train' if i < 40 else 'test'}" for i, smiles in enumerate(GOOD)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["smiles,y,set", *rows, f"{GOOD[0]},0,test"]) + "\n")
    (split,) = check(path, splits=["predefined"]).splits
    assert split.leaks.molecules == 1
    assert ("train", "ood_test") in split.leaks.between or ("id_val", "ood_test") in split.leaks.between


def test_predefined_split_and_text_among_labels(tmp_path):
    parts = ["train"] * 40 + ["valid"] * 10 + ["test"] * 9 + [""]
    rows = [f"{s},{'oops' if i == 5 else i % 2},{p}" for i, (s, p) in enumerate(zip(GOOD, parts, strict=True))]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["smiles,y,set", *rows]) + "\n")
    facts = check(path).as_dict()
    assert facts["set_aside"]["reasons"] == {"label": 1}
    assert facts["set_aside"]["first"][0]["row"] == 6
    told = "'oops' in column 'y' is no number; correct it, or leave it empty if nothing was measured"
    assert facts["set_aside"]["first"][0]["message"] == told
    assert facts["splits"]["predefined"]["parts"]["train"]["rows"] == 39
    assert facts["splits"]["predefined"]["left_out"] == 1


def test_page(assay):
    page = check_page(check(assay))
    assert "60 of 68 rows can be used" in page
    assert "They hold 59 different molecules." in page
    for heading in ("Rows excluded", "Labels", "Duplicates", "Split by scaffold", "Split by size", "Columns"):
        assert f">{heading}</h2>" in page
    assert page.count("<svg") >= 4 * 3
    assert "data:image/svg+xml" in page
    assert not re.search(r'(src|href)="(?!data:|#)', page), "nothing is fetched"


def test_text_of_a_table_cannot_become_part_of_the_page(tmp_path):
    rows = [f"{s},{i % 2},<script>alert({i % 3})</script>`" for i, s in enumerate(GOOD)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["smiles,<b>y</b>,<img src=x>", *rows, "<script>,1,x"]) + "\n")
    page = check_page(check(path))
    for text in ("<script>alert", "<b>y", "<img src=x", "'<script>'"):
        assert text not in page


def test_graphs_in_a_folder(tmp_path):
    graphs = [
        Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2 + i % 9, y=torch.tensor([i % 3])) for i in range(60)
    ]
    open_graphs(graphs).save(tmp_path / "graphs")
    report = check(tmp_path / "graphs")
    assert [split.name for split in report.splits] == ["size", "random"]
    assert report.survey.targets[0].counts() == {"0": 20, "1": 20, "2": 20}
    assert len(report.duplicates.groups) == 9
    assert "60 of 60 rows" in check_page(report)
    with pytest.raises(UsageError, match="graphs have no columns"):
        check(tmp_path / "graphs", targets=["y"])


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"splits": ["scafold"]}, UnknownName, "column of assay.csv 'scafold'"),
        ({"splits": ["predefined"]}, UnknownName, "unknown split 'predefined'"),
        ({"targets": ["activ"]}, UnknownName, "did you mean active"),
        ({"smiles": "active"}, DataError, "none of the 68 rows can be used"),
    ],
)
def test_mistakes(assay, options, error, text):
    with pytest.raises(error, match=text):
        check(assay, **options)


def test_notes(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("smiles,one,value\n" + "".join(f"{s},1,{i / 7}\n" for i, s in enumerate(GOOD)))
    assert any("one class" in note for note in check(path).notes)
    assert any("a measurement" in note for note in check(path, targets=["value"]).notes)


def test_command(assay, tmp_path):
    page, rows = tmp_path / "report.html", tmp_path / "rows.csv"
    ended = call("check", assay, "--html", page, "--rows", rows)
    assert ended.code == 0, ended.err
    for text in (
        "68 rows, 59 molecules; 8 excluded, 1 merged",
        "whitespace 1",
        "2 occur more than once",
        "1 with labels",
    ):
        assert text in ended.out
    assert "</html>" in page.read_text()
    with rows.open(newline="") as file:
        listed = list(csv.DictReader(file))
    assert [row["row"] for row in listed] == [str(number) for number in range(1, 69)]
    middle = ["ok"] * 59 + ["contradiction", "merged"]
    assert [row["status"] for row in listed] == ["contradiction", *middle, *BAD.values(), "ragged"]
    assert listed[61]["message"] == "same molecule as line 3"


def test_command_as_json(assay):
    facts = json.loads(call("check", assay, "--json", "--split", "scaffold", "--target", "active").out)
    assert (facts["rows"], facts["usable"], list(facts["splits"])) == (68, 59, ["scaffold"])
    assert facts["targets"]["active"]["classes"] == {"0": 29, "1": 30}
    assert facts["columns"]["assay"]["role"] == "domain"
    assert facts["conflicts"]["groups"] == [[1, 61]]
    assert sum(part["rows"] for part in facts["splits"]["scaffold"]["parts"].values()) == 59


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [("no.csv", None, 2), ("a.csv", b"", 3), ("a.csv", b"\0\1", 3), ("a.csv", b"x\n1\n", 3)],
)
def test_exit_codes(tmp_path, name, content, code):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    ended = call("check", tmp_path / name)
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith("error: ")
    assert len(ended.err.splitlines()) == 1


def test_the_terminal_gets_no_control_characters(tmp_path):
    path = tmp_path / "a.csv"
    rows = [f"{s},{i % 2},[bold]\x1b[31m{i % 3}" for i, s in enumerate(GOOD)]
    path.write_text("\n".join(["smiles,y,no\x1b[2Jte", *rows, "C\x1b[31mC,1,x"]) + "\n")
    ended = call("check", path)
    assert ended.code == 0
    assert "\x1b" not in ended.out


def test_brackets_are_shown_as_they_are_written(tmp_path):
    path = tmp_path / "a.csv"
    rows = [f"{s},{i % 2}" for i, s in enumerate(GOOD)]
    path.write_text("\n".join(["smiles,y", *rows, "[nH+]x,1"]) + "\n")
    ended = call("check", path)
    assert ended.code == 0
    assert "'[nH+]x' is not" in ended.out


def test_how_hard_a_split_is(assay):
    facts = check(assay).as_dict()
    for split in facts["splits"].values():
        assert set(split["similarity"]) == {"id_test", "ood_test"}
        assert all(value is None or 0 <= value <= 1 for value in split["similarity"].values())
    rows = [f"{'C' * (i % 20 + 1)}{'O' * (i % 3)}N,{i % 2}" for i in range(200)]
    (assay.parent / "same.csv").write_text("\n".join(["smiles,y", *dict.fromkeys(rows)]) + "\n")
    ended = call("check", assay.parent / "same.csv", "--split", "random", "--duplicates", "keep")
    assert ended.code == 0
    assert "split random: nearly random here: OOD test is as similar to training" in ended.out


def test_names_are_told_with_the_rows(tmp_path):
    path = tmp_path / "a.csv"
    lines = [f"cmp-{i},{smiles},{i % 2}" for i, smiles in enumerate(GOOD)]
    path.write_text("\n".join(["id,smiles,y", *lines, "cmp-x,C C,1", f"cmp-y,{GOOD[0]},0"]) + "\n")
    report = check(path)
    assert [bad.id for bad in report.survey.bad] == ["cmp-x"]
    assert "cmp-x" in check_page(report)
    assert "cmp-0, cmp-y" in check_page(report)
    ended = call("check", path, "--rows", tmp_path / "rows.csv")
    assert "cmp-x" in ended.out
    with (tmp_path / "rows.csv").open(newline="") as file:
        last = [(row["row"], row["line"], row["id"]) for row in csv.DictReader(file)][-2:]
    count = len(GOOD)
    assert last == [(f"{count + 1}", f"{count + 2}", "cmp-x"), (f"{count + 2}", f"{count + 3}", "cmp-y")]
    assert json.loads(call("check", path, "--json").out)["set_aside"]["first"][0]["id"] == "cmp-x"
    with pytest.raises(UnknownName, match="column of a.csv 'idd'"):
        check(path, id="idd")


def test_contradicting_rows_as_asked(assay):
    assert len(check(assay, duplicates="keep").survey) == 61
    assert len(check(assay, duplicates="drop").survey) == 59
    with pytest.raises(UnknownName, match="rule for contradicting"):
        check(assay, duplicates="both")


@pytest.mark.slow
def test_hiv_parts(shared_data):
    """Counts of recent RDKit: seven molecules are refused, and some scaffolds are written in another way."""
    facts = check(shared_data / "moleculenet" / "HIV.csv", splits=["scaffold", "size"], standardise=False).as_dict()
    assert facts["rows"] == 41_127
    bad = [row["row"] for row in facts["set_aside"]["first"]]
    assert bad == [138, 988, 12883, 18294, 30785, 30786, 35729]
    sizes = {name: [part["rows"] for part in split["parts"].values()] for name, split in facts["splits"].items()}
    assert sizes["size"] == [26_162, 4_112, 4_112, 2_773, 3_961]
    assert sum(sizes["scaffold"]) == 41_120
    assert facts["targets"]["HIV_active"]["classes"]["1"] == 1_443
