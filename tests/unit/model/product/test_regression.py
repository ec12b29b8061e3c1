"""A measured column from the table to the answers: units, intervals, card, explanation, refusals."""

import csv

import numpy as np
import pytest

from mphil.errors import IntegrityError, UsageError
from mphil.explain.report import RowsToExplain, write_report
from mphil.explain.rows import Levels, explain_rows
from mphil.model.bundle import read_bundle
from mphil.model.predictor import Predictor
from mphil.model.predictor.asking import Outputs
from mphil.model.product import prepare, train_product
from mphil.model.product.evaluation import fit_trust, measure
from mphil.model.product.runs import bundle_chapters
from mphil.pages.regulatory import regulatory_page
from mphil.pages.score_charts import scatter_chart
from mphil.task import Task
from tests.products import TINY, molecules

SMILES = molecules()


def table(path, targets=1):
    """Atoms of each molecule in a unit of its own, with decimal commas, a bound and missing cells."""
    names = ["weight", "other"][:targets]
    with path.open("w", encoding="utf-8-sig") as file:
        file.write(";".join(["smiles", *names]) + "\n")
        for number, smiles in enumerate(SMILES):
            value = 100 + 12.5 * len(smiles) + number / 100
            cells = ["n.d." if number == 5 else ">400" if number == 6 else f"{value:.2f}".replace(".", ",")]
            cells.append("" if number % 4 else f"{-value:.1f}".replace(".", ","))
            file.write(";".join([smiles, *cells[:targets]]) + "\n")
    return path


def wanted(path, **sections):
    return {"benchmark": {"path": str(path), **sections.pop("benchmark", {})}, **TINY, **sections}


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    folder = tmp_path_factory.mktemp("measured")
    return train_product(prepare(wanted(table(folder / "a.csv"))), folder / "out", baselines=True)


def test_the_bundle_speaks_the_unit_of_the_table(product):
    config = read_bundle(product.path).config
    assert (config.task.kind, config.classes, config.method.name) == ("regression", (), "mphil+")
    assert 100 < config.task.means[0] < 500
    said = Predictor(read_bundle(product.path)).predict([*SMILES[:3], "C C"])
    assert said.answered.tolist() == [True] * 3 + [False]
    columns = said.columns()
    assert list(columns)[:3] == ["predicted", "lower", "upper"]
    assert 100 < columns["predicted"][0] < 500
    assert columns["lower"][0] < columns["predicted"][0] < columns["upper"][0]
    assert (columns["predicted"][3], columns["lower"][3], columns["status"][3]) == (None, None, "whitespace")


def test_what_was_assumed_is_told(product):
    told = " ".join(product.bundle.config.data["assumed"])
    for words in ("1 cell ('n.d.')", "a decimal comma", "'>400' as 400", "so this is a regression", "--threshold"):
        assert words in told


def test_scores_and_errors(product):
    metrics = product.bundle.metrics
    assert metrics["metric"] == "rmse"
    assert list(metrics["scores"]) == ["random forest", "erm", "mphil+"]
    for part in ("id_test", "ood_test"):
        found = metrics["trust"]["parts"][part]
        assert found["errors"]["rmse"][0] == pytest.approx(metrics["scores"]["mphil+"][part], rel=1e-5)
        assert set(found["errors"]) == {"rmse", "mae", "r2", "spearman"}
        assert len(found["points"][0][0]) == found["graphs"] - (found["graphs"] - found["coverage"]["labels"])


def test_the_card(product):
    card = product.bundle.card
    for words in ("A regression of molecules", "lower is better", "Predicted and measured: weight", "Residuals"):
        assert words in card
    assert "Coverage of the intervals" in card
    assert "calibrated by" not in card


def test_intervals_of_another_task_are_damage(product, tmp_path):
    import json
    import shutil

    from mphil.model.bundle.manifest import read_files, write_files

    folder = shutil.copytree(product.path, tmp_path / "bundle")
    files, _ = read_files(folder)
    trust = json.loads(files["trust.json"])
    trust["intervals"] = {"alpha": 0.1, "quantiles": [1.0, 2.0], "offsets": [None, None], "labels": [9, 9]}
    shutil.rmtree(folder)
    write_files(folder, {**files, "trust.json": json.dumps(trust).encode()})
    with pytest.raises(IntegrityError, match="it belongs to another task"):
        read_bundle(folder)


def test_explanations(product, tmp_path):
    predictor = Predictor(read_bundle(product.path))
    explained = explain_rows(predictor, SMILES[:2])
    part = explained.explanations[0].substructures[0]
    assert part.measured
    assert part.effect == abs(part.drop)
    report = write_report(predictor, RowsToExplain(SMILES[:2], "two"), tmp_path / "why", progress=False)
    page = (report.folder / "index.html").read_text()
    for words in (
        "weight: 2 molecules explained",
        "into three levels, a third in each",
        "mean of a level",
        "of the predicted number when the part is hidden",
        "in domain",
    ):
        assert words in page
    with (report.folder / "molecules.csv").open(newline="") as file:
        assert "predicted" in next(csv.reader(file))


def test_the_report_for_regulators(product):
    found = bundle_chapters(product.path)
    fields = {name: text for one in found for name, text in one.facts}
    assert fields["2.2 Kind of answer"] == "regression: a number in the unit of the table"
    references = product.bundle.references
    said = Predictor(read_bundle(product.path)).predict(list(references.smiles)).predicted[:, 0]
    known = ~np.isnan(references.labels[:, 0])
    expected = np.sqrt(np.mean((said[known] - references.labels[known, 0]) ** 2))
    assert fields["5.3 Goodness-of-fit"] == f"RMSE {expected:.3f} on the training rows"
    page = regulatory_page(found)
    assert "Errors and intervals" in page
    assert "Mean error" in page


def test_what_verdicts_are_worth(product):
    worth = product.bundle.metrics["trust"]["verdicts"]["both"]
    parts = product.bundle.metrics["trust"]["parts"].values()
    errors = np.concatenate([np.abs(np.subtract(*part["points"][0])) for part in parts])
    total = sum(one["labels"] * one["mean_error"] for one in worth.values() if one["labels"])
    assert total == pytest.approx(errors.sum(), rel=1e-5)
    assert "What the verdicts are worth" in product.bundle.card


def test_several_columns_with_gaps(tmp_path):
    made = train_product(
        prepare(
            wanted(table(tmp_path / "a.csv", 2), benchmark={"targets": ("weight", "other")}, method={"name": "erm"})
        ),
        tmp_path / "out",
        baselines=False,
    )
    assert made.bundle.metrics["metric"] == "r2"
    columns = Predictor(read_bundle(made.path)).predict(SMILES[:2]).columns()
    assert {"predicted_weight", "lower_weight", "predicted_other", "upper_other"} <= columns.keys()
    assert columns["predicted_other"][0] < 0 < columns["predicted_weight"][0]


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    folder = tmp_path_factory.mktemp("committee")
    return train_product(prepare(wanted(table(folder / "a.csv"))), folder / "out", members=1)


class TestCommittee:
    def test_the_mean_of_the_members_is_the_answer(self, together):
        predictor = Predictor(read_bundle(together.path))
        committee = predictor.bundle.config.committee
        assert [member.kind for member in committee.members] == ["network", "forest", "extra-trees", "boosting"]
        read = predictor.read(SMILES[:9])
        said = predictor.said(predictor.network(read.store), read.store, read.features)
        weights = np.array([member.weight for member in committee.members])
        answers = predictor.answer(read)
        mean = predictor.bundle.config.task.to_units(np.tensordot(weights, said, 1))
        np.testing.assert_allclose(answers.predicted, mean)
        columns = answers.columns()
        assert list(columns)[:4] == ["predicted", "lower", "upper", "uncertainty"]

    def test_intervals_are_wider_where_the_members_disagree(self, together):
        answers = Predictor(read_bundle(together.path)).predict(SMILES)
        width = answers.intervals[:, 0, 1] - answers.intervals[:, 0, 0]
        order = answers.uncertainty[:, 0].argsort()
        assert (np.diff(width[order]) >= -1e-9).all()

    def test_explanations_speak_of_numbers(self, together, tmp_path):
        rows = RowsToExplain(SMILES[:2], "two")
        report = write_report(Predictor(read_bundle(together.path)), rows, tmp_path / "why", progress=False)
        assert "Numbers are those of 4 models together" in report.notes[0]

    def test_scores_and_card(self, together):
        metrics = together.bundle.metrics
        assert list(metrics["scores"])[-1] == "committee"
        part = metrics["trust"]["parts"]["ood_test"]
        assert part["errors"]["rmse"][0] == pytest.approx(metrics["scores"]["committee"]["ood_test"])
        assert "The predicted number is the weighted mean" in together.bundle.card

    @pytest.mark.parametrize("kind", ["forest", "extra-trees", "boosting"])
    def test_trees_alone(self, kind, tmp_path):
        path = table(tmp_path / "a.csv")
        made = train_product(prepare({"benchmark": {"path": str(path)}, "method": {"name": kind}}), tmp_path / "out")
        columns = Predictor(read_bundle(made.path)).predict(SMILES[:2]).columns()
        assert 100 < columns["predicted"][0] < 500
        assert "uncertainty" not in columns


def test_methods_that_cannot(tmp_path):
    with pytest.raises(UsageError, match=r"mphil is not defined for regression tasks.*methods that can: .*mphil\+"):
        prepare(wanted(table(tmp_path / "a.csv"), method={"name": "mphil"}))


def test_without_labels_there_are_no_intervals():
    outputs = Outputs(np.zeros((30, 1)), np.empty((30, 0), np.float32), None)
    task, far = Task("regression", 1, "rmse", (5.0,), (2.0,)), np.linspace(0, 1, 30)
    trust = fit_trust("id_val", outputs, np.full((30, 1), np.nan), task, "knn", far)
    assert (trust.intervals, trust.left_out) == (None, {"intervals": "id_val has no labels"})
    found = measure(trust, {"id_test": outputs}, {"id_test": np.full((30, 1), 7.0)}, {"id_test": far}, task)
    assert found["parts"]["id_test"]["errors"]["mae"] == [2.0]
    assert found["parts"]["id_test"]["coverage"] is None


def test_levels_are_thirds():
    levels = Levels.of(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, np.nan]))
    assert np.nan_to_num(levels.number(np.array([0.0, 3.5, 9.0, np.nan])), nan=-1).tolist() == [0, 1, 2, -1]
    assert levels.names[1] == "middle"
    alike = Levels.of(np.array([2.0, 2.0, 2.0]))
    assert set(alike.number(np.array([1.0, 2.0, 3.0])).tolist()) <= {0.0, 1.0, 2.0}


def test_a_scatter_chart_draws_every_point():
    chart = scatter_chart(
        {"a": ([1.0, 2.0], [1.5, 2.5]), "b": ([3.0], [2.0])},
        title="t",
        x_label="x",
        y_label="y",
        diagonal=True,
        level=2,
    )
    assert chart.count("a2 2 0 1 0 4 0") == 3
    assert chart.count('stroke-dasharray="3 3"') == 2
    assert "a: 2 points; b: 1 points" in chart
