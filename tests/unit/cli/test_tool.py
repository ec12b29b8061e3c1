"""`mphil train FILE` and `mphil predict BUNDLE FILE`: what a chemist types and sees."""

import json

import pytest

from mphil.model.bundle import read_bundle
from mphil.testing import random_graphs
from tests.command import call
from tests.graphs import TASKS
from tests.products import SET, binary_table, molecules, rows_of, write_table

TINY = [text for pair in SET for text in ("--set", pair)]


class TestTrain:
    def test_what_is_said(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        binary_table(tmp_path / "assay.csv")
        ended = call("train", "assay.csv", "--target", "active", "--out", "first", *TINY)
        assert ended.code == 0, ended.err
        assert "assay.csv: 108 rows, 106 molecules; 2 rows excluded (first/issues.csv)" in ended.out
        assert "split by scaffold: train 64 · id-val 10 · id-test 10 · ood-val " in ended.out
        assert "scaffolds, none both in training and in a shifted part" in ended.out
        names = (
            "id-test   ood-test",
            "mphil+ with descriptors, seed 1",
            "random forest",
            "gradient boosting",
            "committee",
        )
        order = [ended.out.index(name) for name in names]
        assert order == sorted(order)
        assert ended.out.count("weight 0.") == 6
        assert "best on ood-test: " in ended.out
        assert "95 % interval" in ended.out
        assert "bundle: first/bundle   card: first/bundle/card.html" in ended.out
        assert "next: mphil predict first/bundle new.csv" in ended.out
        again = call("train", "assay.csv", "--target", "active", "--out", "first", *TINY)
        assert (again.code, again.out) == (0, ended.out)

    def test_trees_alone_are_not_explained(self, tmp_path):
        ended = call("train", binary_table(tmp_path / "a.csv"), "--method", "boosting", "--out", tmp_path / "out")
        assert (ended.code, ended.err) == (0, "")
        assert ended.out.endswith(f"next: mphil predict {tmp_path}/out/bundle new.csv\n")

    def test_one_network(self, tmp_path):
        ended = call("train", binary_table(tmp_path / "a.csv"), "--fast", "--out", tmp_path / "out", *TINY)
        assert (ended.code, ended.err) == (0, "")
        order = [ended.out.index(name) for name in ("id-test   ood-test", "random forest", "erm", "chosen on ood-val")]
        assert order == sorted(order)
        assert "best on ood-test: " in ended.out
        assert read_bundle(tmp_path / "out" / "bundle").config.committee is None

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            (["--members", "0"], "--members 0: a committee has 1 to 20 networks; for one network alone use --fast"),
            (["--members", "-1"], "--members -1: a committee has 1 to 20 networks"),
            (["--members", "21"], "--members 21: a committee has 1 to 20 networks"),
            (["--members", "2", "--fast"], "--fast trains one network, --members a committee"),
            (["--no-baselines"], "--no-baselines goes with --fast"),
            (["--method", "forest", "--members", "2"], "--members is about networks, but forest trains trees only"),
            (["--method", "boosting", "--fast"], "--fast is about networks, but boosting trains trees only"),
            (["--method", "forest", "--set", "train.lr=0.1"], "train.lr is a setting of networks, and method forest"),
            (["--method", "boosting", "--set", "encoder.width=8"], "encoder.width is a setting of networks"),
        ],
    )
    def test_no_such_committee(self, tmp_path, options, text):
        ended = call("train", binary_table(tmp_path / "a.csv"), "--out", tmp_path / "out", *options)
        assert ended.code == 2
        assert text in ended.err
        assert not (tmp_path / "out").exists()

    def test_json_and_defaults(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        binary_table(tmp_path / "assay.csv")
        options = (
            "--method",
            "erm",
            "--fast",
            "--no-baselines",
            "--selection",
            "id_val",
            "--seed",
            3,
            "--split",
            "random",
        )
        ended = call("train", "assay.csv", *options, *TINY, "--json")
        assert (ended.code, ended.err) == (0, "")
        found = json.loads(ended.out)
        assert found["bundle"] == "runs/assay-erm-s3/bundle"
        assert list(found["scores"]) == ["erm"]
        assert (found["selection"], found["result"]["seeds"]["training"]) == ("id_val", 3)
        assert found["result"]["config"]["benchmark"]["args"]["split"] == "random"
        assert read_bundle(found["bundle"]).config.seed == 3
        assert call("evaluate", "runs/assay-erm-s3/erm").code == 0
        assert call("evaluate", "runs/assay-erm-s3").code == 0
        assert "the folder that the training wrote" in call("evaluate", "runs/assay-erm-s3/bundle").err

    def test_graphs(self, tmp_path):
        random_graphs(TASKS["multiclass"], n_nodes=[3 + n % 9 for n in range(80)]).save(tmp_path / "graphs")
        ended = call("train", tmp_path / "graphs", "--method", "erm", "--out", tmp_path / "out", *TINY)
        assert ended.code == 0, ended.err
        assert "without random forest: it takes molecules, and these are graphs" in ended.out
        predicted = call("predict", tmp_path / "out", tmp_path / "graphs", "--out", tmp_path / "answers.csv")
        assert predicted.code == 0, predicted.err
        assert len(rows_of(tmp_path / "answers.csv")) == 81

    def test_a_measured_column(self, tmp_path):
        """Names of classes, thresholds and bounds, from the table to the answers."""
        smiles = molecules()
        values = [("7,5" if "N" in one else "<5") if i % 9 else "n.d." for i, one in enumerate(smiles)]
        table = write_table(tmp_path / "a.csv", {"smiles": smiles, "pIC50": values})
        options = ("--target", "pIC50", "--threshold", "6,5", "--fast", "--no-baselines", "--method", "erm")
        ended = call("train", table, *options, "--out", tmp_path / "out", *TINY)
        assert ended.code == 0, ended.err
        assert "12 cells ('n.d.') read as missing" in ended.out
        assert "active is >= 6.5" in ended.out
        bundle = read_bundle(tmp_path / "out" / "bundle")
        assert bundle.config.classes == ("inactive", "active")
        assert "Class inactive" in bundle.card
        assert call("predict", tmp_path / "out", table, "--out", tmp_path / "answers.csv").code == 0
        header, *rows = rows_of(tmp_path / "answers.csv")
        assert {row[header.index("prediction")] for row in rows} <= {"inactive", "active"}
        assert {row[header.index("conformal_set")] for row in rows} <= {"{inactive}", "{active}", "{inactive|active}"}
        for wrong, text in (
            (["--threshold", "high"], "'high' is no number; write it like 6.5"),
            (["--target", "pIC50", "--active-below"], "--active-below goes with --threshold"),
        ):
            refused = call("train", table, *wrong)
            assert refused.code == 2
            assert text in refused.err
        numbers = [f"{5 + i % 37 / 10:.1f}" for i in range(len(smiles))]
        both = write_table(tmp_path / "b.csv", {"smiles": smiles, "pIC50": numbers, "pKi": numbers})
        assert "no single one is found: name it with --target" in call("train", both, "--threshold", "6.5").err

    @pytest.mark.parametrize("option", [["--selection", "id_val"], ["--no-baselines"], ["--fast"], ["--members", "0"]])
    def test_options_of_a_file(self, option):
        ended = call("train", "--benchmark", "good-motif-basis", *option)
        assert ended.code == 2
        assert f"{option[0]} goes with a file of your own" in ended.err

    def test_several_processes(self, tmp_path, monkeypatch):
        monkeypatch.setattr("mphil.training.distributed.launched", lambda: True)
        ended = call("train", binary_table(tmp_path / "a.csv"), "--out", tmp_path / "out")
        assert ended.code == 2
        assert "with one process" in ended.err


class TestPredict:
    def test_what_is_said(self, product, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        write_table(tmp_path / "new.csv", {"smiles": [*molecules()[:5], "C C", "=x"], "note": [*"abcdef", "=1"]})
        ended = call("predict", product.path, "new.csv")
        assert (ended.code, ended.err) == (0, "")
        assert "new.csv: 7 rows, 5 answered" in ended.out
        assert "without an answer: " in ended.out
        assert "whitespace 1" in ended.out
        assert "2 cells that a spreadsheet would run as formulas got a leading apostrophe" in ended.out
        assert "answers: new-predictions.csv" in ended.out
        assert "probability: that of 1" in ended.out
        assert len(rows_of(tmp_path / "new-predictions.csv")) == 8

    def test_semicolons(self, product, tmp_path):
        (tmp_path / "neu.csv").write_text("nr;smiles\n1;CCO\n")
        ended = call("predict", product.path, tmp_path / "neu.csv", "--out", tmp_path / "answers.csv")
        assert "--out NAME.xlsx opens in any spreadsheet program" in ended.err
        assert "xlsx" not in call("predict", product.path, tmp_path / "neu.csv", "--out", tmp_path / "a.xlsx").err

    def test_json(self, product, tmp_path):
        write_table(tmp_path / "new.csv", {"mol": ["CCO"], "status": ["mine"]})
        ended = call("predict", product.folder, tmp_path / "new.csv", "--out", tmp_path / "o.parquet", "--json")
        assert (ended.code, ended.err) == (0, "")
        found = json.loads(ended.out)
        assert (found["rows"], found["column"], found["statuses"]) == (1, "mol", {"ok": 1})
        assert "mphil_status" in found["notes"][-1]

    def test_a_folder(self, product, tmp_path):
        (tmp_path / "in").mkdir()
        for name in ("a.csv", "b.csv"):
            write_table(tmp_path / "in" / name, {"smiles": ["CCO", "CCN"]})
        command = ("predict", product.path, tmp_path / "in", "--workers", 0)
        first = call(*command)
        assert (first.code, first.err) == (0, "")
        assert "a.csv: 2 rows, 2 answered\nb.csv: 2 rows, 2 answered" in first.out
        assert f"2 files predicted, 0 finished before: {tmp_path / 'in-predictions'}" in first.out
        assert "0 files predicted, 2 finished before" in call(*command).out
        write_table(tmp_path / "in" / "c.csv", {"a": [1]})
        ended = call(*command, "--json")
        assert ended.code == 3
        assert "c.csv" in ended.err
        assert json.loads(ended.out)["before"] == ["a.csv", "b.csv"]

    def test_molecules_of_the_command_line(self, product):
        ended = call("predict", product.path, "OCc1ccccc1", "[Na+].[O-]C(=O)Cc1ccccc1")
        assert (ended.code, ended.err) == (0, "")
        assert ended.out.startswith("OCc1ccccc1\n  prediction: ")
        assert "  probability of 1: 0." in ended.out
        assert "  standardised_smiles: O=C(O)Cc1ccccc1" in ended.out
        found = json.loads(call("predict", product.folder, "OCc1ccccc1", "--json").out)
        assert [row["smiles"] for row in found] == ["OCc1ccccc1"]
        assert found[0]["status"] == "ok"
        found = json.loads(call("predict", product.folder, "C1CC(", "OCc1ccccc1", "--json").out)
        assert [row["status"] for row in found] == ["syntax", "ok"], "one that cannot be read costs its own answer"

    @pytest.mark.parametrize(
        ("arguments", "code", "text"),
        [
            (["{bundle}", "CCO", "--out", "a.csv"], 2, "you gave molecules"),
            (["{bundle}", "CCO", "{table}"], 2, "is a file; give one file or folder, or SMILES"),
            (["{bundle}"], 2, "say what to predict"),
            (["{bundle}", "--smiles", "CCO"], 2, "--smiles goes with a file or a folder of tables; none was given"),
            (["{bundle}", "--workers", "2"], 2, "--workers goes with"),
            (["{bundle}", "--sheet", "x"], 2, "--sheet goes with a file; none was given"),
            (["{bundle}", "--engine", "ray"], 2, "--engine goes with a folder of tables"),
            (["{bundle}", "CCO", "--engine", "local"], 2, "--engine goes with a folder of tables"),
            (["{bundle}", "absent.csv"], 2, "no such file or folder"),
            (["{bundle}", "{table}", "--smiles", "smile"], 2, "did you mean smiles"),
            (["{bundle}", "{table}", "--out", "a.xls"], 2, "its name must end in"),
            (["{bundle}", "{table}", "--out", "{table}"], 2, "is the file that is read"),
            (["{bundle}", "{table}", "--engine", "ray"], 2, "--engine goes with a folder"),
            (["{run}", "{table}"], 2, "is not a bundle"),
            (["{run}"], 2, "is not a bundle and contains none"),
            (
                ["{bundle}", "{table}", "--part", "train"],
                2,
                "--part goes with the benchmark of a bundle",
            ),
            (["{table}"], 2, "the folder of a bundle comes first"),
            (["{table}", "{bundle}"], 2, "the folder of a bundle comes first"),
        ],
    )
    def test_mistakes(self, product, tmp_path, monkeypatch, arguments, code, text):
        monkeypatch.chdir(tmp_path)
        places = {
            "bundle": product.path,
            "run": product.folder / "mphil",
            "table": write_table(tmp_path / "t.csv", {"smiles": ["CCO"]}),
        }
        ended = call("predict", *(word.format(**places) for word in arguments))
        assert ended.code == code, ended
        assert text in ended.err
        assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
