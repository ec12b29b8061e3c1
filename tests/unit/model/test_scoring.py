"""Models scored on labelled rows: on their own held-out parts to the digit of the training, and on any table."""

import json
import shutil

import numpy as np
import openpyxl
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, mean_absolute_error, r2_score, roc_auc_score

import mphil
from mphil.errors import DataError, IntegrityError, UnknownName, UsageError
from mphil.model.product import prepare, train_product
from mphil.model.product.held_out import evaluate_training
from mphil.testing import random_graphs
from mphil.trust.ood import VERDICTS
from tests.command import call
from tests.graphs import TASKS
from tests.products import TINY, binary_table, molecules, write_table

SMILES = molecules()
ERM = {"method": {"name": "erm"}, **TINY}


def kind(smiles):
    return "amine" if "N" in smiles else "alcohol" if "O" in smiles else "other"


def weight(smiles):
    return 100 + 12.5 * len(smiles)


def measured_table(path, columns=1):
    numbers = [f"{weight(one):.2f}" if n % 9 else "n.d." for n, one in enumerate(SMILES)]
    second = ["" if n % 4 else f"{-weight(one):.1f}" for n, one in enumerate(SMILES)]
    return write_table(path, {"smiles": SMILES, "weight": numbers, **({"other": second} if columns == 2 else {})})


def trained(path, out, members=0, wanted=ERM, **table):
    prepared = prepare({"benchmark": {"path": str(path), **table}, **wanted})
    return train_product(prepared, out, members=members, baselines=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("scoring")


@pytest.fixture(scope="module")
def binary(folder):
    """Yes or no, with rows that cannot be read and one without a label."""
    return trained(binary_table(folder / "binary.csv"), folder / "binary")


@pytest.fixture(scope="module")
def committee(folder):
    return trained(binary_table(folder / "together.csv"), folder / "together", members=2, wanted=TINY)


@pytest.fixture(scope="module")
def trees(folder):
    return trained(binary_table(folder / "trees.csv"), folder / "trees", wanted={"method": {"name": "forest"}})


@pytest.fixture(scope="module")
def thresholds(folder):
    """Measurements with a threshold of many digits, duplicates that contradict, and an external test set."""
    smiles, values = [*SMILES, *SMILES[:20]], [weight(one) for one in SMILES] + [999.0] * 20
    table = write_table(folder / "t.csv", {"smiles": smiles[14:], "value": values[14:]})
    test = write_table(folder / "t-test.csv", {"smiles": SMILES[:14], "value": [weight(one) for one in SMILES[:14]]})
    told = {"threshold": 325.0000001, "active_below": True, "test": str(test), "split": "random"}
    return trained(table, folder / "threshold", targets=["value"], **told)


@pytest.fixture(scope="module")
def several(folder):
    kinds = [kind(one) for one in SMILES]
    return trained(
        write_table(folder / "k.csv", {"smiles": SMILES, "kind": kinds}),
        folder / "kinds",
        split="random",
        targets=["kind"],
    )


@pytest.fixture(scope="module")
def tasks(folder):
    columns = {"n": [int("N" in one) for one in SMILES], "o": [int("O" in one) for one in SMILES]}
    columns["n"][3], columns["o"][5:60] = "", [""] * 55
    table = write_table(folder / "two.csv", {"smiles": SMILES, **columns})
    return trained(table, folder / "two", members=1, wanted=TINY, split="random", targets=["n", "o"])


@pytest.fixture(scope="module")
def measured(folder):
    return trained(measured_table(folder / "m.csv"), folder / "measured", members=1, wanted=TINY)


@pytest.fixture(scope="module")
def both(folder):
    return trained(measured_table(folder / "m2.csv", 2), folder / "both", targets=["weight", "other"], split="random")


@pytest.fixture(scope="module")
def graphs(folder):
    random_graphs(TASKS["multiclass"], n_nodes=[3 + n % 9 for n in range(80)]).save(folder / "graphs")
    return trained(folder / "graphs", folder / "of-graphs")


MODELS = ["binary", "committee", "trees", "thresholds", "several", "tasks", "measured", "both", "graphs"]


class TestHeldOut:
    @pytest.mark.parametrize("name", MODELS)
    def test_scores_are_those_of_the_training_to_the_digit(self, request, name):
        made = request.getfixturevalue(name)
        metrics = json.loads((made.path / "metrics.json").read_text())
        found = evaluate_training(made.folder)
        told = list(metrics["scores"].values())[-1]
        tested = [part for part in ("id_test", "ood_test") if part in found]
        assert tested
        assert {part: found[part].score for part in tested} == {part: told[part] for part in tested}
        for part in tested:
            groups, trust = found[part].groups, metrics["trust"]["parts"][part]
            if "calibration_error" in trust:
                assert groups["all"]["calibration_error"] == trust["calibration_error"]["after"]
            else:
                columns = found[part].targets or {"": groups["all"]}
                for metric, values in trust["errors"].items():
                    assert [figures[metric] for figures in columns.values()] == values, metric
            if trust["domain"] is not None and not found[part].unlabelled:
                assert {verdict: groups[verdict]["rows"] for verdict in VERDICTS} == trust["domain"]
            judged = metrics["trust"]["verdicts"][part]
            assert {name: groups[name]["labels"] for name in VERDICTS} == {
                name: judged[name]["labels"] for name in VERDICTS
            }
        sizes = made.bundle.config.data["parts"]
        assert {part: one.rows for part, one in found.items()} == {
            part: size for part, size in sizes.items() if size and part != "train"
        }

    def test_a_file_that_changed_or_went_is_refused_by_name(self, folder, tmp_path):
        table = binary_table(tmp_path / "a.csv")
        made = trained(table, tmp_path / "out")
        before = table.read_bytes()
        table.write_bytes(before + b"CCO,x,1\n")
        with pytest.raises(IntegrityError, match=r"a.csv has changed since .*out was made; restore it, or score other"):
            evaluate_training(made.folder)
        table.unlink()
        with pytest.raises(DataError, match=r"a.csv, of which .*out was made, is gone; put it back, or score other"):
            evaluate_training(made.folder)
        table.write_bytes(before)
        (made.folder / "parts.csv").rename(tmp_path / "kept.csv")
        with pytest.raises(IntegrityError, match=r"parts.csv cannot be read; restore it"):
            evaluate_training(made.folder)
        text = (tmp_path / "kept.csv").read_text().replace(",ood_test", ",id_test", 1)
        (made.folder / "parts.csv").write_text(text)
        with pytest.raises(IntegrityError, match=r"parts.csv is not the one that the training wrote"):
            evaluate_training(made.folder)

    def test_a_training_without_a_record_or_a_bundle(self, binary, tmp_path):
        out = shutil.copytree(binary.folder, tmp_path / "out")
        (out / "product.json").write_text('{"format": 1, "method": "erm"}')
        with pytest.raises(UsageError, match=r"does not say how its file was read: give its `mphil train FILE`"):
            evaluate_training(out)
        shutil.rmtree(out / "bundle")
        with pytest.raises(UsageError, match=r"the training is not finished; go on with `mphil resume"):
            evaluate_training(out)


def said(made, smiles):
    return mphil.load(made.path).predict(smiles)


class TestTable:
    def table(self, tmp_path, **columns):
        return write_table(tmp_path / "new.csv", {"smiles": SMILES, **columns})

    def test_classes_by_any_of_their_words(self, binary, tmp_path):
        labels = ["Active" if "N" in one else "no" for one in SMILES]
        smiles = list(SMILES)
        smiles[4], labels[9], labels[11] = "C C", "n.d.", "perhaps"
        table = write_table(tmp_path / "new.csv", {"smiles": smiles, "active": labels})
        found = mphil.evaluate(binary.path, table)
        assert (found.rows, found.scored, found.unlabelled, found.unanswered) == (108, 105, 2, 1)
        assert found.statuses == {"whitespace": 1}
        rows = [n for n in range(108) if n not in (4, 9, 11)]
        answers = said(binary, smiles)
        y = [int("N" in SMILES[n]) for n in rows]
        assert found.score == pytest.approx(roc_auc_score(y, answers.probability[rows, 0]), abs=1e-12)
        assert any("the model knows 0, 1, and not 1 cell such as 'perhaps'" in note for note in found.notes)
        assert any("hold molecules that the model was trained on" in note for note in found.notes)
        for verdict in VERDICTS:
            those = [n for n in rows if answers.domain[n] == verdict]
            group = found.groups[verdict]
            assert (group["rows"], group["labels"]) == (len(those), len(those))
            if len(those) < 20:
                assert (group["roc_auc"], group["calibration_error"]) == (None, None)
        assert sum(found.groups[verdict]["rows"] for verdict in VERDICTS) == found.scored

    def test_every_format_gives_the_same(self, committee, tmp_path):
        columns = {"structure": SMILES, "hit": [int("N" in one) for one in SMILES]}
        frame = pd.DataFrame(columns)
        frame.to_parquet(tmp_path / "a.parquet")
        book = openpyxl.Workbook()
        for row in [list(columns), *zip(*columns.values(), strict=True)]:
            book.active.append(row)
        book.save(tmp_path / "a.xlsx")
        expected = mphil.evaluate(committee.path, write_table(tmp_path / "a.csv", columns), targets=["hit"])
        for name in ("a.parquet", "a.xlsx"):
            found = mphil.evaluate(committee.folder, tmp_path / name, targets=["hit"], workers=0)
            assert (found.score, found.groups) == (expected.score, expected.groups)

    def test_a_structure_file(self, binary, tmp_path):
        from rdkit import Chem

        with Chem.SDWriter(str(tmp_path / "a.sdf")) as file:
            for one in SMILES:
                mol = Chem.MolFromSmiles(one)
                mol.SetProp("active", str(int("N" in one)))
                file.write(mol)
        labels = [int("N" in one) for one in SMILES]
        expected = mphil.evaluate(binary.path, self.table(tmp_path, active=labels))
        assert mphil.evaluate(binary.path, tmp_path / "a.sdf").groups == expected.groups

    def test_the_threshold_of_the_training(self, thresholds, tmp_path):
        values = [weight(one) for one in SMILES]
        cells = [">1000" if n == 3 else "<1" if n == 5 else ">1" if n == 7 else f"{v}" for n, v in enumerate(values)]
        found = mphil.evaluate(thresholds.path, self.table(tmp_path, value=cells))
        y = np.array([float(v <= 325.0000001) for v in values])
        y[3], y[5], y[7] = 0, 1, np.nan
        known = ~np.isnan(y)
        probability = said(thresholds, SMILES).probability[known, 0]
        assert found.score == pytest.approx(roc_auc_score(y[known], probability), abs=1e-12)
        assert found.unlabelled == 1

    def test_names_of_several_classes(self, several, tmp_path):
        names = [kind(one).upper() for one in SMILES]
        names[0], names[1] = "ketone", ""
        chosen = [n for n, name in enumerate(names) if name != "OTHER"][:30]  # not every class occurs
        table = write_table(
            tmp_path / "a.csv", {"smiles": [SMILES[n] for n in chosen], "k": [names[n] for n in chosen]}
        )
        found = mphil.evaluate(several.path, table, targets=["k"])
        rows = [n for n in chosen if names[n] not in ("", "ketone")]
        answers = said(several, [SMILES[n] for n in rows]).columns()["prediction"]
        assert found.score == pytest.approx(accuracy_score([kind(SMILES[n]) for n in rows], answers))
        assert (found.unlabelled, found.scored) == (2, len(rows))
        assert any(
            "the model knows alcohol, amine, other, and not 1 cell such as 'ketone'" in note for note in found.notes
        )

    def test_several_targets_of_which_one_is_there(self, tasks, tmp_path):
        labels = ["" if n % 5 == 0 else int("O" in one) for n, one in enumerate(SMILES)]
        found = mphil.evaluate(tasks.path, self.table(tmp_path, o=labels))
        rows = [n for n in range(108) if n % 5]
        probability = said(tasks, SMILES).probability[rows, 1]
        expected = roc_auc_score([labels[n] for n in rows], probability)
        assert found.score == pytest.approx(expected, abs=1e-12)
        assert found.targets["o"]["roc_auc"] == pytest.approx(expected, abs=1e-12)
        assert found.targets["n"] == {"labels": 0, "roc_auc": None, "calibration_error": None}
        assert "no labels of n" in found.notes

    def test_a_regression(self, measured, tmp_path):
        cells = [f"{weight(one) + n % 3}".replace(".", ",") if n else "not tested" for n, one in enumerate(SMILES)]
        found = mphil.evaluate(measured.path, self.table(tmp_path, weight=cells))
        y = [weight(one) + n % 3 for n, one in enumerate(SMILES)][1:]
        predicted = said(measured, SMILES).predicted[1:, 0]
        figures = found.groups["all"]
        assert list(figures) == ["rows", "labels", "rmse", "mae", "r2", "spearman"]
        assert figures["mae"] == pytest.approx(mean_absolute_error(y, predicted))
        assert figures["r2"] == pytest.approx(r2_score(y, predicted))
        assert found.score == figures["rmse"]

    def test_measurements_in_several_units(self, both, tmp_path):
        columns = {"weight": [weight(one) for one in SMILES], "other": [-weight(one) for one in SMILES]}
        found = mphil.evaluate(both.path, self.table(tmp_path, **columns))
        assert (found.groups["all"]["rmse"], found.groups["all"]["mae"]) == (None, None)
        assert found.score == pytest.approx(np.mean([one["r2"] for one in found.targets.values()]))
        assert found.targets["other"]["mae"] > 0

    def test_graphs(self, graphs, folder, tmp_path):
        found = mphil.evaluate(graphs.path, folder / "graphs")
        assert (found.rows, found.scored) == (80, 80)
        assert found.score == found.groups["all"]["accuracy"]
        with pytest.raises(UsageError, match="this bundle takes graphs; give a folder of graphs"):
            mphil.evaluate(graphs.path, binary_table(tmp_path / "a.csv"))
        random_graphs(TASKS["multitask"], n_nodes=[3] * 9).save(tmp_path / "other")
        with pytest.raises(UsageError, match="labels a graph, and the model has 1 targets"):
            mphil.evaluate(graphs.path, tmp_path / "other")

    def test_refusals(self, binary, tasks, measured, tmp_path):
        table = self.table(tmp_path, active=["maybe"] * 108, empty=[""] * 108, words=["many"] * 108)
        with pytest.raises(DataError, match="knows 0, 1, and not 108 cells such as 'maybe'; name the column of labels"):
            mphil.evaluate(binary.path, table)
        with pytest.raises(DataError, match="column 'empty' has no label at all"):
            mphil.evaluate(binary.path, table, targets=["empty"])
        with pytest.raises(UnknownName, match="did you mean active"):
            mphil.evaluate(binary.path, table, targets=["activ"])
        with pytest.raises(UsageError, match="column 'smiles' holds the molecules"):
            mphil.evaluate(binary.path, table, targets=["smiles"])
        with pytest.raises(UnknownName, match="name the labels with --target"):
            mphil.evaluate(tasks.path, table)
        with pytest.raises(UsageError, match="the model has the targets n, o: give a column for each"):
            mphil.evaluate(tasks.path, table, targets=["active"])
        with pytest.raises(DataError, match="'words' holds 'many'"):
            mphil.evaluate(measured.path, table, targets=["words"])


class TestCommand:
    def test_a_table(self, binary, tasks, tmp_path):
        table = binary_table(tmp_path / "a.csv")
        ended = call("evaluate", binary.folder, table)
        assert ended.code == 0, ended.err
        assert "a.csv: 108 rows, 105 scored, 1 without a label, 2 without an answer" in ended.out
        assert "without an answer: whitespace 1, aromaticity 1" in ended.out
        for text in ("roc auc", "calibration error", *VERDICTS):
            assert text in ended.out
        found = json.loads(call("evaluate", binary.path, table, "--target", "active", "--json").out)
        assert found["score"] == found["groups"]["all"]["roc_auc"] == mphil.evaluate(binary.path, table).score
        two = write_table(tmp_path / "b.csv", {"smiles": SMILES, "n": [int("N" in one) for one in SMILES]})
        ended = call("evaluate", tasks.path, two)
        assert (ended.code, "note: no labels of o" in ended.err) == (0, True)

    def test_the_folder_of_a_training(self, binary):
        ended = call("evaluate", binary.folder)
        assert ended.code == 0, ended.err
        for text in ("id-val", "id-test", "ood-val", "ood-test", "out of domain", "calibration error"):
            assert text in ended.out
        found = json.loads(call("evaluate", binary.folder, "--json").out)
        metrics = json.loads((binary.path / "metrics.json").read_text())
        assert found["scores"]["ood_test"] == metrics["scores"]["erm"]["ood_test"]
        assert found["parts"]["ood_test"]["groups"]["all"]["roc_auc"] == found["scores"]["ood_test"]

    def test_options_that_do_not_fit(self, binary, tmp_path):
        table = binary_table(tmp_path / "a.csv")
        for options, text in (
            ([binary.path], "what to score (mphil evaluate"),
            ([binary.folder, "--target", "active"], "--target is about a table"),
            ([binary.folder, "--selection", "id_val"], "a bundle holds one epoch"),
            ([binary.path, table, "--selection", "id_val"], "a bundle holds one epoch"),
        ):
            ended = call("evaluate", *options)
            assert ended.code == 2
            assert text in ended.err
