"""From a bundle on disk to a folder with drawings, tables and a page; also by the command."""

from __future__ import annotations

import csv
import json
import re
from itertools import pairwise

import numpy as np
import pytest
from rdkit import Chem

from mphil.errors import DataError, UnknownName, UsageError
from mphil.explain import gallery, report
from mphil.explain.report import RowsToExplain, read_rows, write_report
from mphil.explain.rows import explain_rows
from mphil.model.bundle import write_bundle
from mphil.model.predictor import load
from tests.bundles import bundle_of, trained
from tests.command import call

GOOD = "CC(=O)NCc1ccc2ncccc2c1"
ROWS = [GOOD, "C C", "=1+1", "OC(=O)c1ccccc1", ""]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """Folders of a bundle with prototypes and of one without."""
    folder = tmp_path_factory.mktemp("bundles")
    for name in ("mphil", "erm"):
        write_bundle(folder / name, bundle_of(trained(name, epochs=1)))
    return folder


@pytest.fixture(scope="module")
def predictor(bundles):
    return load(bundles / "mphil")


def table(path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def written(predictor, tmp_path_factory):
    return write_report(
        predictor, RowsToExplain(ROWS, "new.csv"), tmp_path_factory.mktemp("out") / "why", progress=False
    )


class TestRows:
    def test_explained_are_the_rows_that_can_be_read(self, predictor):
        found = explain_rows(predictor, ROWS)
        assert found.rows == (0, 3)
        assert [one.smiles for one in found.explanations] == [GOOD, "OC(=O)c1ccccc1"]
        assert found.predictions.status == ["ok", "whitespace", "syntax", "ok", "empty"]

    def test_a_hundred_spellings_through_the_predictor(self, predictor):
        spellings = list(Chem.MolToRandomSmilesVect(Chem.MolFromSmiles(f"{GOOD}.Cl"), 100, randomSeed=5))
        found = explain_rows(predictor, spellings)
        weights = []
        for spelling, one in zip(spellings, found.explanations, strict=True):
            ranks = np.array(Chem.CanonicalRankAtoms(Chem.MolFromSmiles(spelling), breakTies=False))
            weights.append(sorted(zip(ranks.tolist(), one.weights.round(4).tolist(), strict=True)))
        np.testing.assert_allclose(weights, [weights[0]] * 100, atol=2e-4)

    def test_the_page_shows_the_probability_that_predict_shows(self, predictor):
        found = explain_rows(predictor, [GOOD, "CCO", "CCCCCC"])
        new = found.new_molecules()
        positive = found.predictions.probability[:, 0]
        assert new.classes.tolist() == (positive > 0.5).astype(int).tolist()
        np.testing.assert_array_equal(new.probabilities, found.predictions.columns()["probability"])
        assert new.shown.tolist() == [1, 1, 1]
        assert set(new.verdicts) <= {"in domain", "borderline", "out of domain"}


class TestFolder:
    def test_every_row_is_answered(self, written):
        rows = table(written.folder / report.MOLECULES)
        assert [row["status"] for row in rows] == ["ok", "whitespace", "syntax", "ok", "empty"]
        assert [row["row"] for row in rows] == ["1", "2", "3", "4", "5"]
        assert len(rows[0]["atom_importance"].split()) == Chem.MolFromSmiles(GOOD).GetNumAtoms()
        assert rows[1]["drawing"] == rows[1]["prediction"] == ""
        assert rows[0]["prediction"] in ("reversed", "forward")

    def test_formulas_stay_text(self, written):
        assert table(written.folder / report.MOLECULES)[2]["smiles"] == "'=1+1"

    def test_drawings_glow(self, written):
        rows = table(written.folder / report.MOLECULES)
        names = [row["drawing"] for row in rows if row["drawing"]]
        assert sorted(path.name for path in (written.folder / "drawings").iterdir()) == ["000001.svg", "000004.svg"]
        for name, one in zip(names, written.explained.explanations, strict=True):
            svg = (written.folder / name).read_text()
            assert svg.count("<circle") == (one.weights > 0).sum()
            assert "script" not in svg

    def test_substructures_are_ranked(self, written):
        rows = [row for row in table(written.folder / report.SUBSTRUCTURES) if row["row"] == "1"]
        assert [int(row["rank"]) for row in rows] == list(range(1, len(rows) + 1))
        importance = [float(row["importance"]) for row in rows]
        assert all(one >= other for one, other in pairwise(importance))
        quinoline = next(row for row in rows if row["part"] == "*c1ccc2ncccc2c1")
        assert quinoline["name"] == "quinoline"
        assert abs(float(quinoline["drop"])) == abs(float(quinoline["change"]))
        assert set(map(int, quinoline["atoms"].split())) == set(range(5, 15))

    def test_page_holds_the_map_the_molecules_and_the_prototypes(self, written):
        page = (written.folder / report.PAGE).read_text()
        headings = re.findall(r"<h2[^>]*>(.*?)</h2>", page)
        assert headings == ["The map", "Your molecules", "What the prototypes stand for", "How this page was made"]
        assert page.count('class="prototype"') == 6
        assert "3 of 5 rows could not be read" in page
        shown = json.loads(re.search(r"data-pictures>(.*?)</script>", page).group(1))
        assert len(shown["pictures"]) == len(shown["details"]) == 40 + 2 + 6
        assert shown["details"][40].startswith("yours: ")

    def test_summary(self, written):
        facts = json.loads((written.folder / report.SUMMARY).read_text())
        assert facts == written.summary
        assert (facts["rows"], facts["explained"], facts["atoms_scored_by"]) == (5, 2, "own")

    def test_a_second_time_takes_its_place(self, predictor, tmp_path):
        out = tmp_path / "why"
        write_report(predictor, RowsToExplain([GOOD, "CCO"], ""), out, progress=False)
        write_report(predictor, RowsToExplain(["CCO"], ""), out, progress=False)
        assert [path.name for path in (out / "drawings").iterdir()] == ["000001.svg"]
        assert len(table(out / report.MOLECULES)) == 1

    def test_an_interrupt_leaves_the_folder_as_it_was(self, predictor, tmp_path, monkeypatch):
        out = tmp_path / "why"
        write_report(predictor, RowsToExplain(["CCO"], ""), out, progress=False)
        before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}

        def stop(view):
            raise KeyboardInterrupt

        monkeypatch.setattr(report, "render", stop)
        with pytest.raises(KeyboardInterrupt):
            write_report(predictor, RowsToExplain([GOOD, "CCN"], ""), out, progress=False)
        assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == before
        assert [path.name for path in tmp_path.iterdir()] == ["why"]

    def test_a_folder_with_something_else_is_left_alone(self, predictor, tmp_path):
        (tmp_path / "thesis.txt").write_text("years of work")
        with pytest.raises(UsageError, match="holds something else"):
            write_report(predictor, RowsToExplain(["CCO"], ""), tmp_path)
        assert (tmp_path / "thesis.txt").read_text() == "years of work"

    def test_a_method_without_prototypes(self, bundles, tmp_path):
        write_report(load(bundles / "erm"), RowsToExplain([GOOD], ""), tmp_path / "why", progress=False)
        page = (tmp_path / "why" / report.PAGE).read_text()
        assert "erm has no prototypes" in page
        assert "What the class centres stand for" in page

    def test_the_model_alone(self, predictor, tmp_path):
        write_report(predictor, RowsToExplain([], ""), tmp_path / "why", progress=False)
        page = (tmp_path / "why" / report.PAGE).read_text()
        assert "Your molecules" not in page
        assert "label: 6 prototypes" in page

    def test_what_is_left_out_is_told(self, predictor, tmp_path, monkeypatch):
        monkeypatch.setattr(gallery, "TRAINING_POINTS", 10)
        monkeypatch.setattr(gallery, "NEW_POINTS", 1)
        monkeypatch.setattr(gallery, "CENTRES", 2)
        write_report(predictor, RowsToExplain([GOOD, "CCO"], "", more=True), tmp_path / "why", progress=False)
        page = (tmp_path / "why" / report.PAGE).read_text()
        for text in ("10 of 40 training molecules", "1 of 2 new molecules on the map", "2 of 6 groups", "--limit"):
            assert text in page
        assert page.count('class="prototype"') == 2
        assert len(json.loads(re.search(r"data-pictures>(.*?)</script>", page).group(1))["pictures"]) == 10 + 1 + 6

    def test_unknown_target(self, predictor, tmp_path):
        with pytest.raises(UnknownName, match="did you mean label"):
            write_report(predictor, RowsToExplain(["C"], ""), tmp_path / "why", target="lable")


class TestReading:
    def test_the_column_of_the_training_is_taken(self, predictor, tmp_path):
        (tmp_path / "t.csv").write_text("other,smiles\nCCO,CCN\nCCC,CCCl\n")
        assert read_rows(tmp_path / "t.csv", predictor).smiles == ["CCN", "CCCl"]
        assert read_rows(tmp_path / "t.csv", predictor, column="other").smiles == ["CCO", "CCC"]

    def test_or_found(self, predictor, tmp_path):
        (tmp_path / "t.csv").write_text("id,molecule\na,CCO\nb,CCCN\n")
        assert read_rows(tmp_path / "t.csv", predictor).smiles == ["CCO", "CCCN"]

    def test_names_go_with_the_rows(self, predictor, tmp_path):
        (tmp_path / "t.csv").write_text("id,molecule,batch\na,CCO,x\nb,C C,y\n")
        rows = read_rows(tmp_path / "t.csv", predictor)
        assert rows.names == ["a", "b"]
        assert read_rows(tmp_path / "t.csv", predictor, name="batch").names == ["x", "y"]
        write_report(predictor, rows, tmp_path / "why", progress=False)
        told = [(row["row"], row["line"], row["id"]) for row in table(tmp_path / "why" / report.MOLECULES)]
        assert told == [("1", "2", "a"), ("2", "3", "b")]
        assert {row["id"] for row in table(tmp_path / "why" / report.SUBSTRUCTURES)} == {"a"}
        assert "<h3>a: " in (tmp_path / "why" / report.PAGE).read_text()

    def test_rows_without_a_name_are_called_by_their_line(self, predictor, tmp_path):
        (tmp_path / "t.csv").write_text('molecule,note\n\nCCO,"a\nb"\nCCN,"a\nb"\n')
        assert read_rows(tmp_path / "t.csv", predictor).called == ["line 3", "line 5"]
        assert RowsToExplain(["CCO", "CCN"], "").called == ["row 1", "row 2"]

    def test_limit(self, predictor, tmp_path):
        (tmp_path / "t.csv").write_text("smiles\nCCO\nCCN\nCCC\n")
        two = read_rows(tmp_path / "t.csv", predictor, limit=2)
        assert (two.smiles, two.more) == (["CCO", "CCN"], True)
        assert not read_rows(tmp_path / "t.csv", predictor, limit=3).more

    def test_an_empty_file(self, predictor, tmp_path):
        (tmp_path / "t.csv").write_text("")
        with pytest.raises(DataError, match="empty"):
            read_rows(tmp_path / "t.csv", predictor)


class TestCommand:
    def test_smiles(self, bundles, tmp_path):
        ended = call("explain", bundles / "mphil", "c1cc[nH]c1CO", "CCO", "--out", tmp_path / "why", "--by", "gradient")
        assert ended.code == 0
        assert "atoms are scored by gradient times input" in ended.out
        assert "c1cc[nH]c1CO" in ended.out, "brackets are no markup"
        assert len(list((tmp_path / "why" / "drawings").iterdir())) == 2
        page = (tmp_path / "why" / "index.html").read_text()
        assert "mphil explain" in page
        assert "gradient times input" in page

    def test_a_molecule_that_cannot_be_read_costs_its_own_answer(self, bundles, tmp_path):
        ended = call("explain", bundles / "mphil", "C1CC(", "CCO", "--out", tmp_path / "why")
        assert ended.code == 0
        assert "1 of 2 rows could not be read" in " ".join(ended.err.split())

    def test_a_table_as_json(self, bundles, tmp_path):
        (tmp_path / "new.csv").write_text("smiles\nCCO\nbroken(\n")
        ended = call("explain", bundles / "mphil", tmp_path / "new.csv", "--out", tmp_path / "why", "--json")
        assert (ended.code, ended.err) == (0, "")
        facts = json.loads(ended.out)
        assert (facts["rows"], facts["explained"], facts["source"]) == (2, 1, "new.csv")

    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (["mphil", "new.cvs"], 2, "no such file, and 'new.cvs' is not a molecule"),
            (["mphil", "CCO", "--by", "gradeint"], 2, "did you mean gradient"),
            (["erm", "CCO", "--by", "contribution"], 2, "erm has no node scores"),
            (["mphil", "CCO", "--smiles", "x"], 2, "--smiles names a column"),
            (["mphil", "CCO", "--id", "x"], 2, "--id names a column"),
            (["mphil", "CCO", "--sheet", "x"], 2, "--sheet names a sheet"),
            (["nowhere", "CCO"], 2, "no bundle here"),
        ],
    )
    def test_mistakes(self, bundles, tmp_path, arguments, code, message):
        ended = call("explain", bundles / arguments[0], *arguments[1:], "--out", tmp_path / "why")
        assert ended.code == code
        assert message in " ".join(ended.err.split())
        assert not (tmp_path / "why").exists()

    def test_help_has_an_example(self):
        assert "Example: mphil explain" in " ".join(call("explain", "--help").out.split())
