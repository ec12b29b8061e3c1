"""Bundles of runs on benchmarks, and reports for regulators."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import mphil
from mphil.errors import IntegrityError, UnknownName, UsageError
from mphil.methods import evaluating
from mphil.model.bundle import read_bundle, write_bundle
from mphil.model.predictor import Predictor
from mphil.model.product.runs import (
    _label,
    bundle_chapters,
    evaluate_bundle,
    predict_part,
    training_fit,
    write_run_bundle,
)
from mphil.pages.regulatory import OPEN, open_fields, regulatory_markdown, regulatory_page
from mphil.training.metrics import roc_auc
from tests.command import call
from tests.products import binary_table, make

SETTINGS = {"encoder": {"width": 8, "layers": 2}, "train": {"epochs": 2, "batch_size": 24}}


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    """A run on graphs that are no molecules, with its bundle."""
    folder = tmp_path_factory.mktemp("graphs") / "run"
    run = mphil.train("good-motif-basis", "mphil", benchmark={"graphs": 150}, out=folder, **SETTINGS)
    return run, run.folder / "bundle"


@pytest.fixture(scope="module")
def molecules(tmp_path_factory):
    folder = tmp_path_factory.mktemp("molecules") / "run"
    run = mphil.train("decoy-scaffold", "erm", benchmark={"graphs": 150}, out=folder, **SETTINGS)
    return run, run.folder / "bundle"


@pytest.mark.parametrize(("kind", "member"), [("forest", "random forest"), ("boosting", "gradient boosting")])
def test_trees_on_a_benchmark(tmp_path, kind, member):
    folder = tmp_path / "run"
    words = ("--benchmark", "decoy-scaffold", "--set", "benchmark.graphs=150", "--method", kind, "--out", folder)
    ended = call("train", *words, "--json")
    assert (ended.code, ended.err) == (0, "")
    result = json.loads(ended.out)
    scores = result["selections"]["ood_val"]["scores"]
    assert scores == result["selections"]["id_val"]["scores"] == result["last5"]
    assert scores["id_test"] > 0.6
    bundle = read_bundle(folder / "bundle")
    assert bundle.metrics["scores"] == {member: {part: scores[part] for part in ("id_test", "ood_test")}}
    assert json.loads(call("evaluate", folder, "--json").out)["scores"] == scores
    assert call("predict", folder, "--part", "ood_val", "--out", tmp_path / "said.csv").code == 0
    again = json.loads(call("resume", folder, "--json").out)
    assert again["selections"] == result["selections"]
    assert "already holds a run" in call("train", *words).err
    assert "train.lr is a setting of networks" in call("train", *words, "--set", "train.lr=0.1").err


def test_trees_are_not_for_the_function_that_trains_networks():
    with pytest.raises(
        UsageError, match=r"mphil.train trains networks, and method forest grows trees; use mphil.study"
    ):
        mphil.train("decoy-scaffold", {"name": "forest"})


def test_the_bundle_has_the_chosen_weights_and_scores(graphs):
    run, path = graphs
    bundle = read_bundle(path)
    assert path == run.folder / "bundle"
    assert (bundle.config.molecules, bundle.config.selection) == (None, "ood_val")
    assert bundle.config.data["benchmark"] == run.config.benchmark.model_dump()
    assert bundle.config.classes == run.benchmark.classes
    scores = run.scores["ood_val"]
    assert bundle.metrics["scores"] == {"mphil": {part: scores[part] for part in ("id_test", "ood_test")}}
    assert evaluate_bundle(path) == (scores, "accuracy", "ood_val")


def test_a_bundle_of_molecules_reads_molecules(molecules):
    run, path = molecules
    predictor, data = mphil.load(path), run.benchmark
    part = data.store.select(data.split.ood_test[:6])
    by_smiles, by_store, by_pyg = (predictor.predict(given) for given in (list(part.smiles), part, part.to_pyg()))
    assert by_smiles.status == ["ok"] * 6
    np.testing.assert_array_equal(by_smiles.probability, by_store.probability)
    np.testing.assert_array_equal(by_smiles.probability, by_pyg.probability)
    with evaluating(run.method):
        expected = run.method.predict(part.batch(torch.arange(6))).numpy()
    found = predictor.outputs(predictor.read(list(part.smiles)).store).logits
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert evaluate_bundle(path)[0] == run.scores["ood_val"]


class TestGraphs:
    def test_a_store_and_pyg_graphs_are_the_same(self, graphs):
        run, path = graphs
        predictor, data = mphil.load(path), run.benchmark
        part = data.store.select(data.split.ood_test[:6])
        by_store, by_pyg = predictor.predict(part), predictor.predict(part.to_pyg())
        np.testing.assert_array_equal(by_store.probability, by_pyg.probability)
        assert by_store.status == ["ok"] * 6

    def test_the_folder_of_the_run_will_do(self, graphs):
        run, path = graphs
        assert mphil.load(run.folder).bundle.digest == read_bundle(path).digest

    def test_other_features_are_refused(self, graphs):
        other = mphil.benchmark("decoy-scaffold", graphs=60).store[:2]
        with pytest.raises(UsageError, match="the node features of these graphs are categorical"):
            mphil.load(graphs[1]).predict(other.to_pyg())

    def test_molecules_are_refused_with_what_it_takes(self, graphs, tmp_path):
        table = tmp_path / "new.csv"
        table.write_text("smiles\nCCO\nCCN\n")
        for words in (("predict", graphs[1], "CCO"), ("predict", graphs[1], table), ("explain", graphs[1], "CCO")):
            ended = call(*words)
            assert ended.code == 2, ended.out
            assert "takes graphs" in ended.err or "give it graphs" in ended.err


def test_molecules_without_smiles_are_refused(molecules):
    graph = mphil.benchmark("good-motif-basis", graphs=60).store[:1]
    with pytest.raises(UsageError, match="these graphs carry no SMILES"):
        mphil.load(molecules[1]).predict(graph)


def test_test_parts_that_must_not_be_scored_are_not(tmp_path):
    settings = {"encoder": {"width": 4}, "train": {"epochs": 1, "batch_size": 24, "scored": "validation"}}
    run = mphil.train("good-motif-basis", "erm", benchmark={"graphs": 120}, out=tmp_path / "run", **settings)
    bundle = read_bundle(run.folder / "bundle")
    assert bundle.config.data["parts"]["ood_test"] == 0
    assert bundle.metrics["scores"] == {"erm": {"id_test": None, "ood_test": None}}


def test_a_run_without_a_folder_has_nowhere_to_write():
    run = mphil.train("good-motif-basis", "erm", benchmark={"graphs": 120}, **SETTINGS)
    with pytest.raises(UsageError, match="the run has no folder"):
        write_run_bundle(run)


class TestCommands:
    def test_train_writes_a_bundle_and_evaluate_takes_it(self, tmp_path):
        sets = ("benchmark.graphs=120", "encoder.width=4", "train.epochs=1", "train.batch_size=24")
        words = [word for text in sets for word in ("--set", text)]
        ended = call("train", "--benchmark", "good-motif-basis", "--method", "erm", *words, "--out", tmp_path / "run")
        assert f"bundle: {tmp_path / 'run' / 'bundle'}" in ended.out
        by_run, by_bundle = call("evaluate", tmp_path / "run"), call("evaluate", tmp_path / "run" / "bundle")
        assert by_run.out == by_bundle.out != ""
        before = read_bundle(tmp_path / "run" / "bundle").digest
        assert call("resume", tmp_path / "run").code == 0
        assert read_bundle(tmp_path / "run" / "bundle").digest == before
        assert call("predict", tmp_path / "run", "--part", "id_test").code == 0

    def test_a_bundle_holds_one_epoch(self, graphs):
        ended = call("evaluate", graphs[1], "--selection", "id_val")
        assert (ended.code, "a bundle holds one epoch" in ended.err) == (2, True)

    def test_a_bundle_of_a_file_is_not_evaluated_on_a_benchmark(self, product):
        with pytest.raises(UsageError, match="was trained on a file, not on a benchmark"):
            evaluate_bundle(product.path)

    def test_other_data_are_named(self, graphs, monkeypatch):
        other = mphil.benchmark("good-motif-basis", graphs=90)
        monkeypatch.setattr("mphil.model.product.runs.benchmark", lambda name, **args: other)
        with pytest.raises(IntegrityError, match="the data of good-motif-basis are not those of the training"):
            evaluate_bundle(graphs[1])


class TestParts:
    """What a bundle says about a part of its benchmark."""

    def read(self, path):
        with path.open(newline="") as file:
            return list(csv.DictReader(file))

    def test_one_row_per_graph_in_order(self, graphs, tmp_path):
        run, path = graphs
        part = run.benchmark.split.ood_test
        assert predict_part(path, "ood_test", tmp_path / "p.csv") == len(part)
        rows, classes = self.read(tmp_path / "p.csv"), run.benchmark.classes
        assert list(rows[0])[:3] == ["graph", "label", "prediction"]
        assert [int(row["graph"]) for row in rows] == part.tolist()
        assert [row["label"] for row in rows] == [classes[int(y)] for y in run.benchmark.store.y[part, 0]]
        said = mphil.load(path).predict(run.benchmark.store.select(part))
        chances = [float(row[f"probability_{classes[1]}"]) for row in rows]
        np.testing.assert_allclose(chances, said.probability[:, 1], atol=1e-6)
        right = sum(row["prediction"] == row["label"] for row in rows)
        assert right / len(rows) == pytest.approx(run.scores["ood_val"]["ood_test"])

    def test_molecules_have_their_smiles(self, molecules, tmp_path):
        run, path = molecules
        predict_part(path, "id_test", tmp_path / "p.csv")
        rows, part = self.read(tmp_path / "p.csv"), run.benchmark.split.id_test.tolist()
        assert [row["smiles"] for row in rows] == [run.benchmark.store.smiles[graph] for graph in part]
        assert {row["status"] for row in rows} == {"ok"}

    def test_parts_that_do_not_exist(self, graphs, tmp_path):
        with pytest.raises(UnknownName, match="unknown part 'ood_tset'; did you mean ood_test"):
            predict_part(graphs[1], "ood_tset", tmp_path / "p.csv")
        run = mphil.train(
            "good-motif-basis-no-shift", "erm", benchmark={"graphs": 150}, out=tmp_path / "run", **SETTINGS
        )
        empty = next(part for part, size in run.benchmark.split.sizes.items() if not size)
        with pytest.raises(UsageError, match=f"has no {empty} part"):
            predict_part(run.folder / "bundle", empty, tmp_path / "p.csv")
        assert not (tmp_path / "p.csv").exists()

    def test_labels_that_are_missing_and_numbers(self):
        assert [_label(value, ("no", "yes")) for value in (0.0, 1.0, float("nan"))] == ["no", "yes", ""]
        assert _label(6.25, ()) == "6.25"


BAD = "</dd><script>bad()</script>|`"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return make(binary_table(folder / "assay.csv"), folder / "run", method="erm")


@pytest.fixture(scope="module")
def found(made):
    return bundle_chapters(made.path)


def test_all_five_principles(found):
    headings = " ".join(one.heading for one in found)
    assert re.findall(r"OECD principle (\d)", headings) == ["1", "2", "3", "4", "4", "5"]


def test_fields_are_filled_from_the_bundle(made, found):
    fields = {name: text for one in found for name, text in one.facts}
    assert fields["2.1 Endpoint"] == "active"
    assert fields["1.3 Identifier of the bundle (SHA-256)"] == read_bundle(made.path).digest
    assert fields["3.7 Seed"] == "0"
    assert fields["5.1 Training set"].startswith(f"{len(made.bundle.references)} rows")
    assert OPEN in fields["2.5 Experimental protocol"]


def test_goodness_of_fit_by_hand(made, found):
    references = made.bundle.references
    predictor = Predictor(made.bundle)
    said = predictor.predict(list(references.smiles)).probability[:, 0]
    known = references.labels[:, 0] == references.labels[:, 0]
    expected = roc_auc(said[known], references.labels[known, 0].astype(float))
    assert training_fit(predictor) == pytest.approx(expected)
    fields = {name: text for one in found for name, text in one.facts}
    assert fields["5.3 Goodness-of-fit"] == f"ROC-AUC {expected:.3f} on the training rows"


def test_what_a_bundle_cannot_know_is_marked(found):
    left = open_fields(found)
    assert "1.4 Author and contact" in left
    assert "2.6 Data quality" in left
    assert "3.7 Seed" not in left


def test_text_cannot_become_markup(made, tmp_path):
    config = made.bundle.config.model_copy(update={"targets": (BAD,), "data": {**made.bundle.config.data, "file": BAD}})
    write_bundle(tmp_path / "bundle", replace(made.bundle, config=config))
    chapters = bundle_chapters(tmp_path / "bundle")
    assert "<script>bad" not in regulatory_page(chapters)
    text = regulatory_markdown(chapters)
    assert "<script>" not in text.replace("\\<", "")


def test_a_bundle_without_scores(made, tmp_path):
    write_bundle(tmp_path / "bundle", replace(made.bundle, metrics={}))
    with pytest.raises(UsageError, match="no scores to report"):
        bundle_chapters(tmp_path / "bundle")


@pytest.mark.parametrize("name", ["report.md", "report.html"])
def test_command(made, tmp_path, name):
    ended = call("report", made.folder, "--out", tmp_path / name)
    assert ended.code == 0
    assert "1.4 Author and contact" in ended.out
    text = (tmp_path / name).read_text()
    assert OPEN in text
    assert "applicability (OECD principle 3)" in text
    assert "Errors by verdict" in text


def test_command_as_json_and_its_mistakes(made, tmp_path):
    ended = call("report", made.path, "--out", tmp_path / "r.md", "--json")
    assert "2.5 Experimental protocol" in json.loads(ended.out)["to_be_filled_in"]
    ended = call("report", made.path, "--out", tmp_path / "r.pdf")
    assert ended.code == 2
    assert "a report ends in .md or .html" in ended.err
