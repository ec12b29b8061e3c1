"""A committee in a bundle: who is in it, how it answers, and how it is taken up again."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

import mphil
from mphil.config import NamedArgs
from mphil.errors import DataError, IntegrityError, UsageError
from mphil.model.bundle import BundleConfig, read_bundle, write_bundle
from mphil.model.committee.trees import TREE_NAMES
from mphil.model.committee.weights import combine
from mphil.model.export import export_model
from mphil.model.product import prepare, train_product
from mphil.model.product.members import network_configs
from mphil.model.product.runs import bundle_chapters
from mphil.pages.card import card_page
from mphil.serve.answers import model_facts
from mphil.serve.service import ModelService
from mphil.tables.from_smiles import with_descriptors
from mphil.testing import random_graphs
from mphil.training.run import evaluate_run
from tests.graphs import TASKS
from tests.products import TINY, binary_table, molecules, write_table

NETWORKS = ["mphil+", "erm with descriptors", "mphil+ with descriptors, seed 1"]
NAMES = [*NETWORKS, "random forest", "extra trees", "gradient boosting"]


def together(path, out, members=3, **wanted):
    wanted = {"benchmark": {"path": str(path)}, **TINY, **wanted}
    return train_product(prepare(wanted), out, members=members)


def alone(path, out, **method):
    """Trees, which have no settings of training."""
    return train_product(prepare({"benchmark": {"path": str(path)}, "method": method}), out)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("committee")
    return together(binary_table(folder / "assay.csv"), folder / "out")


class TestBundle:
    def test_who_is_in_it(self, made):
        committee = read_bundle(made.path).config.committee
        assert [member.name for member in committee.members] == NAMES
        assert [member.kind for member in committee.members] == ["network"] * 3 + ["forest", "extra-trees", "boosting"]
        assert sum(member.weight for member in committee.members) == pytest.approx(1)
        assert committee.fitted_on == ("id_val", "ood_val")
        assert list(made.bundle.metrics["scores"]) == [*NAMES, "committee"]

    def test_its_probabilities_are_calibrated_on_both_validation_parts(self, made):
        trust = read_bundle(made.path).trust
        assert (trust.calibration.method, trust.calibrated_on, trust.fitted_on) == (
            "platt",
            ("id_val", "ood_val"),
            "id_val",
        )
        assert "calibrated by Platt scaling on ID validation and OOD validation" in made.bundle.card
        assert "debiased" in made.bundle.card

    def test_it_answers_like_its_members_together(self, made):
        predictor = mphil.load(made.path)
        read = predictor.read(molecules()[:30])
        said = predictor.said(predictor.network(read.store), read.store, read.features)
        weights = np.array([member.weight for member in predictor.bundle.config.committee.members])
        answers = predictor.predict(molecules()[:30])
        logits = np.log(combine(said, weights)) - np.log1p(-combine(said, weights))
        wanted = predictor.bundle.trust.calibration.apply(logits)
        kept = answers.answered
        np.testing.assert_allclose(answers.probability[kept], wanted, atol=1e-9)
        assert (answers.uncertainty[kept] > 0).all()
        cells = answers.columns()["uncertainty"]
        assert [cell is None for cell in cells] == (~kept).tolist()
        # Features that are not handed over are made from the spellings.
        np.testing.assert_allclose(predictor.outputs(read.store).logits, logits, atol=1e-6)

    def test_the_spelling_does_not_matter(self, made):
        predictor, spellings = mphil.load(made.path), ["OCc1ccccc1", "c1ccccc1CO"]
        first, second = (predictor.predict([smiles]).probability.item() for smiles in spellings)
        assert first == second
        # In one batch, a product rounds by the place of a row.
        np.testing.assert_allclose(predictor.predict(spellings).probability, first, rtol=1e-6)

    def test_the_scores_are_those_of_the_answers(self, made):
        from mphil.training.metrics import roc_auc

        data = prepare({"benchmark": {"path": str(made.folder.parent / "assay.csv")}, **TINY}).data
        graphs = data.split.ood_test
        said = mphil.load(made.path).predict([data.store.smiles[i] for i in graphs.tolist()])
        found = roc_auc(said.probability[:, 0], data.store.y[graphs, 0].numpy())
        assert made.bundle.metrics["scores"]["committee"]["ood_test"] == pytest.approx(found, abs=1e-9)

    def test_card_and_standing(self, made):
        standing = made.bundle.metrics["standing"]
        assert standing["part"] == "ood_test"
        assert "95 % interval" in standing["sentence"]
        card = made.bundle.card
        assert card.index("The committee: ROC-AUC") < card.index("Who answers")
        assert "Explanations show what the first network, mphil+, goes" in card
        assert "95 % interval" in card
        assert "shrunk towards fixed ones that count trees more than networks" in card
        for words in ("What was chosen, and why", "3 networks and 3 ensembles of trees", "--no-standardise"):
            assert words in card

    def test_the_report_names_all_of_them(self, made):
        fields = {name: text for one in bundle_chapters(made.path) for name, text in one.facts}
        assert fields["1.1 Title"].startswith("committee for active")
        for name in NAMES:
            assert f"{name} (0." in fields["3.1 Type of model"]
        assert "(mphil+ with descriptors, seed 1), chosen on" in fields["3.6 Choice of the epoch"]
        assert "of trees " in fields["3.2 Descriptors"]

    def test_the_page_names_all_of_them(self, made):
        with ModelService(mphil.load(made.path)) as service:
            facts = model_facts(service)
        assert facts.members == NAMES
        assert facts.scores["committee"] == made.bundle.metrics["scores"]["committee"]

    def test_card_and_report_know_the_threshold(self, made, tmp_path):
        smiles = molecules()
        path = write_table(tmp_path / "p.csv", {"smiles": smiles, "pIC50": [5 + len(one) / 9 for one in smiles]})
        wanted = {"benchmark": {"path": str(path), "threshold": 6.5}, "method": {"name": "forest"}}
        divided = train_product(prepare(wanted), tmp_path / "out")
        for words in ("inactive, active: active is &gt;= 6.5, as", "Target &#39;pIC50&#39;: active is &gt;= 6.5:"):
            assert words in divided.bundle.card
        fields = {name: text for one in bundle_chapters(divided.path) for name, text in one.facts}
        assert fields["2.4 Units and threshold"] == "Active is >= 6.5. Unit: to be filled in by the author."
        values = [made.bundle.config.model_dump(mode="json"), made.bundle.metrics]
        assert card_page(*values, json.loads((made.path / "trust.json").read_text()), "ab" * 32)

    @pytest.mark.parametrize("accident", ["remove", "truncate", "flip", "link"])
    def test_accidents(self, made, tmp_path, accident):
        file = shutil.copytree(made.path, tmp_path / "bundle") / "committee.safetensors"
        data = file.read_bytes()
        file.unlink()
        if accident == "truncate":
            file.write_bytes(data[:-1])
        elif accident == "flip":
            file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        elif accident == "link":
            file.symlink_to(made.path / file.name)
        with pytest.raises(IntegrityError, match="committee.safetensors"):
            read_bundle(tmp_path / "bundle")

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (lambda bundle: {"committee": {"features": "morgan-9/1"}}, "made with features 'morgan-9/1'"),
            (lambda bundle: {"committee": {"features": None}}, "trees, and nothing else, need features"),
            (lambda bundle: {"committee": {"members": bundle.config.committee.members[:4]}}, "do not sum to 1"),
            (lambda bundle: {"networks": {**bundle.networks, "more": bundle.state}}, "belongs to no member"),
            (lambda bundle: {"networks": {"erm": bundle.state}}, "are not those of erm"),
            (lambda bundle: {"trees": {}}, "the arrays of the trees are not those that are expected"),
        ],
    )
    def test_members_that_do_not_fit(self, made, tmp_path, change, reason):
        changed = change(made.bundle)
        if "committee" in changed:
            committee = made.bundle.config.committee.model_copy(update=changed["committee"])
            changed = {"config": made.bundle.config.model_copy(update={"committee": committee})}
        write_bundle(tmp_path / "bundle", replace(made.bundle, **changed))
        with pytest.raises(IntegrityError, match=reason):
            read_bundle(tmp_path / "bundle")

    def test_settings_from_before_there_were_committees(self, product):
        values = product.bundle.config.model_dump(mode="json")
        assert values.pop("committee") is None
        assert BundleConfig.model_validate(values) == product.bundle.config


class TestTraining:
    def test_doing_it_again_changes_nothing(self, made, tmp_path, monkeypatch):
        folder = shutil.copytree(made.folder, tmp_path / "out")
        monkeypatch.setattr("mphil.model.product.members.fit_trees", lambda *_, **__: pytest.fail("they are there"))
        again = together(made.folder.parent / "assay.csv", folder)
        for name in ("config.json", "committee.safetensors", "model.safetensors", "trust.json", "metrics.json"):
            assert (again.path / name).read_bytes() == (made.path / name).read_bytes(), name

    def test_trees_of_other_data_are_grown_anew(self, made, tmp_path):
        first, second = tmp_path / "a", tmp_path / "b"
        table = write_table(tmp_path / "b.csv", {"smiles": molecules(), "active": [i % 2 for i in range(108)]})
        first.mkdir()
        shutil.copy(made.folder / "product.json", first)
        shutil.copy(made.folder / "forest.safetensors", first)
        found, wanted = together(table, first, members=1), together(table, second, members=1)
        assert found.bundle.metrics["scores"] == wanted.bundle.metrics["scores"]

    def test_several_classes(self, tmp_path):
        smiles = molecules()
        kinds = ["amine" if "N" in one else "alcohol" if "O" in one else "other" for one in smiles]
        table = write_table(tmp_path / "a.csv", {"smiles": smiles, "kind": kinds})
        wanted = {"path": str(table), "split": "random", "targets": ["kind"]}
        made = together(table, tmp_path / "out", members=1, benchmark=wanted)
        predictor = mphil.load(made.path)
        said = predictor.predict(smiles[:9])
        np.testing.assert_allclose(said.probability.sum(1), 1)
        assert said.uncertainty.shape == (9, 3)
        columns = said.columns()
        assert len(columns["uncertainty"]) == 9
        assert list(predictor.predict([]).columns()) == list(columns), "files ask for the columns before any row"

    def test_several_tasks_with_missing_labels(self, tmp_path):
        smiles = molecules()
        columns = {"n": [int("N" in one) for one in smiles], "o": [int("O" in one) for one in smiles]}
        columns["n"][3], columns["o"][5:60] = "", [""] * 55
        table = write_table(tmp_path / "a.csv", {"smiles": smiles, **columns})
        wanted = {"path": str(table), "split": "random", "targets": ["n", "o"]}
        made = together(table, tmp_path / "out", members=1, benchmark=wanted)
        said = mphil.load(made.path).predict(smiles[:9]).columns()
        assert {"uncertainty_n", "uncertainty_o", "probability_n", "probability_o"} <= said.keys()

    def test_graphs_have_no_trees(self, tmp_path):
        random_graphs(TASKS["multiclass"], n_nodes=[3 + n % 9 for n in range(80)]).save(tmp_path / "graphs")
        made = together(tmp_path / "graphs", tmp_path / "out", members=2)
        assert [member.kind for member in made.bundle.config.committee.members] == ["network"] * 2
        assert made.bundle.metrics["left_out"]["random forest"] == "it takes molecules, and these are graphs"
        assert mphil.load(made.path).bundle.config.committee.features is None

    @pytest.mark.parametrize("members", [-1, 21])
    def test_no_such_number(self, made, tmp_path, members):
        with pytest.raises(UsageError, match=f"--members {members}: a committee has 1 to 20 networks"):
            together(made.folder.parent / "assay.csv", tmp_path / "out", members=members)

    def test_the_networks(self, made):
        config = made.run.config
        graphs = network_configs(config, 4, molecules=False)
        four = [(one.method.name, one.seed, one.method.args["descriptors"]) for one in graphs]
        assert four == [("mphil+", 0, False), ("erm", 0, False), ("mphil+", 1, False), ("erm", 1, False)]
        assert {one.encoder for one in graphs} == {config.encoder}
        assert [(one.method.name, one.seed) for one in network_configs(graphs[1], 2, molecules=False)] == [
            ("erm", 0),
            ("erm", 1),
        ]

    def test_of_molecules_all_but_the_first_take_descriptors(self, made):
        config = made.run.config
        four = network_configs(config, 4, molecules=True)
        assert four[0] == config
        assert [one.method.args["descriptors"] for one in four] == [False, True, True, True]
        other = config.model_copy(update={"method": NamedArgs(name="irm", args={})})
        assert [one.method.args for one in network_configs(other, 3, molecules=True)[::2]] == [{}, {}]
        predictor = mphil.load(made.path)
        assert (predictor.method.takes_descriptors, predictor.takes_descriptors) == (False, True)


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    table = binary_table(folder / "assay.csv")
    return together(table, folder / "out", members=0, method={"name": "mphil+", "descriptors": True})


class TestOneNetworkWithDescriptors:
    def test_its_answers_are_those_of_the_method(self, one):
        predictor, smiles = mphil.load(one.path), molecules()[:9]
        assert (predictor.takes_descriptors, predictor.has_trees) == (True, False)
        store = with_descriptors(predictor.read(smiles).store)
        with torch.no_grad():
            logits = predictor.method.predict(store.batch(torch.arange(9))).double().numpy()
        np.testing.assert_allclose(predictor.network(store).logits, logits, atol=1e-6)
        expected = predictor.bundle.trust.calibration.apply(logits)
        np.testing.assert_allclose(predictor.predict(smiles).probability, expected, atol=1e-6)

    def test_the_run_and_its_bundle_score_alike(self, one):
        found, _ = evaluate_run(one.folder / "mphil+", one.bundle.config.selection)
        assert found["ood_test"] == pytest.approx(one.bundle.metrics["scores"]["mphil+"]["ood_test"])

    def test_it_is_not_exported(self, one, tmp_path):
        with pytest.raises(UsageError, match=r"descriptors of whole molecules.*method\.descriptors=false"):
            export_model(mphil.load(one.path), tmp_path / "model.pt2")


class TestTreesAlone:
    @pytest.mark.parametrize("method", ["forest", "extra-trees", "boosting"])
    def test_from_a_table_to_answers(self, made, tmp_path, method):
        table = made.folder.parent / "assay.csv"
        trees = alone(table, tmp_path / "out", name=method)
        name = TREE_NAMES[method]
        assert trees.bundle.metrics["scores"] == {name: made.bundle.metrics["scores"][name]}
        assert trees.summary()["result"] is None
        assert f"{name.upper()}: ROC-AUC" in trees.bundle.card
        assert "Encoder" not in trees.bundle.card
        fields = {field: text for one in bundle_chapters(trees.path) for field, text in one.facts}
        assert fields["3.1 Type of model"] == f"ensemble of trees, {name}"
        assert "3.3 Network" not in fields
        predictor = mphil.load(trees.path)
        said = predictor.predict(molecules()[:9])
        assert "uncertainty" not in said.columns()
        assert said.answered.sum() >= 8
        with pytest.raises(UsageError, match=f"holds {method} and no network"):
            _ = predictor.method

    def test_what_it_does_not_take(self, made, tmp_path):
        table = made.folder.parent / "assay.csv"
        with pytest.raises(UsageError, match="method forest has no options or presets; leave out method.depth"):
            alone(table, tmp_path / "out", name="forest", depth=3)
        random_graphs(TASKS["multiclass"], n_nodes=[3 + n % 9 for n in range(80)]).save(tmp_path / "graphs")
        with pytest.raises(
            DataError, match="method boosting takes molecules, and the graphs of own-data are no molecules"
        ):
            alone(tmp_path / "graphs", tmp_path / "out", name="boosting")
