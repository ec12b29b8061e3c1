"""`MPHILClassifier` as its users meet it."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import torch
from rdkit.Chem import MolFromSmiles, MolToSmiles
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

import mphil
from mphil.model.estimator import InputError, MPHILClassifier, UnreadableRows
from mphil.training.recipe import MOLECULES
from tests.graphs import random_store
from tests.products import molecules

QUICK = {"epochs": 2, "batch_size": 20, "width": 8, "layers": 2}
SMILES = molecules()
ACTIVE = np.array(["active" if "N" in one else "inactive" for one in SMILES])


@pytest.fixture(scope="module")
def fitted():
    return MPHILClassifier(**QUICK).fit(SMILES, ACTIVE)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_learned_carries_over(seed):
    """Whether a molecule has an oxygen, with everything held out by the caller.

    Judged by ROC-AUC, like the epoch: with so few molecules the first epoch that orders them may be chosen, whatever
    its threshold.
    """
    oxygen = np.array(["O" in one for one in SMILES])
    model = MPHILClassifier("erm", epochs=25, width=16, layers=2, lr=0.003, dropout=0.0, readout="sum", seed=seed)
    train = np.arange(len(SMILES)) % 5 > 0
    model.fit([one for one, kept in zip(SMILES, train, strict=True) if kept], oxygen[train])
    rest = [one for one, kept in zip(SMILES, train, strict=True) if not kept]
    assert roc_auc_score(oxygen[~train], model.predict_proba(rest)[:, 1]) > 0.9


def test_answers_have_the_form_that_scikit_learn_expects(fitted):
    assert fitted.classes_.tolist() == ["active", "inactive"]
    probability = fitted.predict_proba(SMILES)
    np.testing.assert_allclose(probability.sum(1), 1)
    assert fitted.predict(SMILES).tolist() == fitted.classes_[probability.argmax(1)].tolist()
    assert fitted.score(SMILES, ACTIVE) == accuracy_score(ACTIVE, fitted.predict(SMILES))
    weight = np.arange(len(SMILES))
    assert fitted.score(SMILES, ACTIVE, weight) == accuracy_score(ACTIVE, fitted.predict(SMILES), sample_weight=weight)


def test_molecules_and_other_spellings_get_the_same_answer(fitted):
    mols = [MolFromSmiles(one) for one in SMILES[:20]]
    rooted = [MolToSmiles(mol, rootedAtAtom=mol.GetNumAtoms() - 1, canonical=False) for mol in mols]
    wanted = fitted.predict_proba(SMILES[:20])
    for other in (mols, rooted, np.array(rooted, dtype=object)):
        np.testing.assert_array_equal(fitted.predict_proba(other), wanted)


def test_a_seed_decides_everything(fitted):
    torch.manual_seed(99)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    again = clone(fitted).fit(SMILES, ACTIVE)
    other = clone(fitted).set_params(seed=1).fit(SMILES, ACTIVE)
    np.testing.assert_array_equal(again.predict_proba(SMILES), fitted.predict_proba(SMILES))
    assert not np.array_equal(other.predict_proba(SMILES), fitted.predict_proba(SMILES))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_scikit_learns_tools():
    model = MPHILClassifier("erm", **QUICK)
    scores = cross_val_score(model, SMILES, ACTIVE, cv=2, scoring="roc_auc", error_score="raise")
    assert scores.shape == (2,)
    search = GridSearchCV(model, {"width": [4, 8], "method": ["erm", "mphil"]}, cv=2, error_score="raise")
    search.fit(SMILES, ACTIVE)
    assert len(search.cv_results_["params"]) == 4
    assert search.predict(["CCO"])[0] in ("active", "inactive")
    stripped = FunctionTransformer(lambda rows: [one.split(".")[0] for one in rows])
    pipe = Pipeline([("salts", stripped), ("model", clone(model))]).fit(SMILES, ACTIVE)
    np.testing.assert_array_equal(pipe.predict_proba(["CCO.Cl"]), pipe.predict_proba(["CCO"]))


def test_a_table_of_pandas_gives_what_lists_give(fitted):
    table = pd.DataFrame({"smiles": SMILES, "active": ACTIVE}).set_index(np.arange(len(SMILES)) + 500)
    model = clone(fitted).fit(table["smiles"], table["active"])
    np.testing.assert_array_equal(model.predict_proba(table["smiles"]), fitted.predict_proba(SMILES))
    scores = cross_val_score(MPHILClassifier("erm", **QUICK), table[["smiles"]], table["active"], cv=2)
    np.testing.assert_array_equal(scores, cross_val_score(MPHILClassifier("erm", **QUICK), SMILES, ACTIVE, cv=2))


def test_settings_arrive():
    settings = {"weight_decay": 0.01, "patience": 1, "encoder": "vgin", "layers": 3, "dropout": 0.1, "readout": "max"}
    model = MPHILClassifier(**QUICK | settings, options={"prototypes": 2}, validation=0.4, lr=0.02, seed=3)
    config = model.fit(SMILES, ACTIVE).bundle_.config
    train = config.data["settings"]
    assert (config.method.args["prototypes"], config.seed) == (2, 3)
    encoder = config.encoder
    assert (encoder.kind, encoder.layers, encoder.width) == ("vgin", 3, 8)
    assert (encoder.dropout, encoder.readout) == (0.1, "max")
    assert [train[name] for name in ("epochs", "batch_size", "lr", "weight_decay", "patience")] == [
        2,
        20,
        0.02,
        0.01,
        1,
    ]
    assert 0.3 * len(SMILES) < config.data["parts"]["id_val"] + config.data["parts"]["ood_val"] < 0.45 * len(SMILES)


@pytest.mark.parametrize(
    ("given", "start", "lr"),
    [({}, MOLECULES, 5e-4), ({"start": ""}, "", 1e-3), ({"width": 64}, "", 1e-3), ({"lr": 0.01}, MOLECULES, 0.01)],
    ids=["default", "random", "other width", "rate"],
)
def test_networks_for_molecules_start_from_pretrained_weights(given, start, lr):
    model = MPHILClassifier("erm", epochs=1, batch_size=40, **given).fit(SMILES[:40], ACTIVE[:40])
    train = model.bundle_.config.data["settings"]
    assert (train["start"], train["lr"]) == (start, lr)


def test_a_batch_is_never_larger_than_the_training_part():
    small = MPHILClassifier("erm", epochs=1, batch_size=500, width=4, layers=1).fit(SMILES[:12], ACTIVE[:12])
    assert small.bundle_.config.data["settings"]["batch_size"] == small.bundle_.config.data["parts"]["train"]


def test_groups_choose_the_epoch_and_are_environments():
    groups = [f"assay {row // 27}" for row in range(len(SMILES))]
    model = MPHILClassifier("irm", **QUICK, validation=0.5).fit(SMILES, ACTIVE, groups=groups)
    data = model.bundle_.config.data
    assert (data["split"], data["domains"], data["parts"]["ood_val"]) == ("groups", 4, 27)
    assert model.bundle_.config.selection == "ood_val"
    assert set(model.bundle_.references.rows) <= set(range(81))
    with pytest.raises(InputError, match="2 groups for 108 rows"):
        clone(model).fit(SMILES, ACTIVE, groups=["a", "b"])


class TestUnreadable:
    BROKEN = ("CCO", "C C", "c1ccc1c", None)

    def test_fit_names_the_rows(self):
        rows = [*self.BROKEN, *SMILES]
        message = re.escape("3 of 112 rows cannot be read: 1, 2, 3 (row 1: 'C C' is not a molecule")
        with pytest.raises(InputError, match=f"{message}.*on_bad='skip'"):
            MPHILClassifier(**QUICK).fit(rows, [*ACTIVE[:4], *ACTIVE])

    def test_fit_leaves_them_out(self):
        rows, labels = [*self.BROKEN[1:], *SMILES], [*ACTIVE[:3], *ACTIVE]
        with pytest.warns(UnreadableRows, match=r"3 of 111 rows cannot be read: 0, 1, 2 .*they are left out") as told:
            model = MPHILClassifier("erm", **QUICK, on_bad="skip").fit(rows, labels)
        assert told[0].filename == __file__
        assert model.skipped_.tolist() == [0, 1, 2]
        whole = MPHILClassifier("erm", **QUICK).fit(SMILES, ACTIVE)
        np.testing.assert_array_equal(model.predict_proba(SMILES), whole.predict_proba(SMILES))
        assert (model.bundle_.references.rows - 3 == whole.bundle_.references.rows).all()

    def test_rows_in_are_rows_out(self, fitted):
        model = clone(fitted).set_params(on_bad="skip").fit(SMILES, ACTIVE)
        with pytest.warns(UnreadableRows, match="3 of 4 rows cannot be read.*they get no answer") as told:
            probability = model.predict_proba(self.BROKEN)
        assert told[0].filename == __file__
        assert np.isnan(probability).all(1).tolist() == [False, True, True, True]
        with pytest.warns(UnreadableRows):
            assert model.predict(self.BROKEN).tolist() == [model.predict(["CCO"])[0], None, None, None]
        with pytest.warns(UnreadableRows):
            assert model.score(self.BROKEN, ["active"] * 4) == model.score(["CCO"], ["active"])
        with pytest.raises(InputError, match="3 of 4 rows cannot be read"):
            fitted.predict(self.BROKEN)

    def test_numbers_become_nan(self):
        model = MPHILClassifier("erm", **QUICK, on_bad="skip").fit(SMILES, (ACTIVE == "active").astype(int))
        with pytest.warns(UnreadableRows):
            found = model.predict(["CCO", "C C"])
        assert found[0] in (0, 1)
        assert np.isnan(found[1])


def test_several_classes():
    rows = [*SMILES, "CCO", "CCN", "CCC", "CCCC", "CCCO", "CCCN", "CCCCO", "COC", "CNC"]
    ring = np.array(["aromatic" if "c" in one else "ring" if "1" in one else "chain" for one in rows])
    model = MPHILClassifier("erm", **QUICK).fit(rows, ring)
    assert model.classes_.tolist() == ["aromatic", "chain", "ring"]
    assert model.predict_proba(rows).shape == (len(rows), 3)
    assert set(model.predict(rows)) <= {"aromatic", "chain", "ring"}


def test_several_tasks_with_gaps():
    y = np.array([[float("N" in one), float("O" in one)] for one in SMILES])
    y[::5, 0] = np.nan
    model = MPHILClassifier(**QUICK).fit(SMILES, y)
    probability = model.predict_proba(SMILES)
    assert probability.shape == (len(SMILES), 2)
    assert (model.predict(SMILES) == (probability > 0.5)).all()
    assert (model.classes_.tolist(), model.n_outputs_) == ([0, 1], 2)
    known = ~np.isnan(y[:, 0])
    areas = [roc_auc_score(y[known, 0], probability[known, 0]), roc_auc_score(y[:, 1], probability[:, 1])]
    assert model.score(SMILES, y) == pytest.approx(np.mean(areas))
    with pytest.raises(InputError, match="no sample_weight"):
        model.score(SMILES, y, np.ones(len(y)))
    with pytest.raises(InputError, match="nothing to score"):
        model.score(SMILES[:2], np.ones((2, 2)))


def test_graphs():
    graphs = random_store("binary", graphs=60).to_pyg()
    y = [int(graph.y) for graph in graphs]
    model = MPHILClassifier(**QUICK).fit(graphs, y)
    assert model.bundle_.config.molecules is None
    assert model.bundle_.config.data["split"] == "size"
    whole = model.predict_proba(graphs)
    assert whole.shape == (60, 2)
    np.testing.assert_allclose(
        np.concatenate([model.predict_proba([graph]) for graph in graphs[:5]]), whole[:5], atol=1e-5
    )
    with pytest.raises(InputError, match="X holds molecules, the model was trained on graphs"):
        model.predict(["CCO"])
    with pytest.raises(InputError, match="features of these graphs"):
        model.predict(random_store("binary", graphs=3, nodes="categorical").to_pyg())


def test_a_saved_model_says_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "bundle")
    loaded = mphil.load(tmp_path / "bundle")
    answers = loaded.predict(SMILES)
    np.testing.assert_array_equal(answers.probability[:, 0], fitted.predict_proba(SMILES)[:, 1])
    assert answers.columns()["prediction"] == fitted.predict(SMILES).tolist()
    assert loaded.bundle.config.data["file"] == "data in Python"
    assert "not tested" in loaded.bundle.card
    assert "whose labels do not define it" not in loaded.bundle.card


def test_history_and_predictor(fitted):
    assert [epoch["epoch"] for epoch in fitted.history_] == [1, 2]
    assert fitted.predictor_.predict(["CCO"]).status == ["ok"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "mphill"}, "unknown method 'mphill'; did you mean mphil"),
        ({"options": {"prototype": 2}}, "unknown option of method mphil 'prototype'"),
        ({"epochs": 0}, "train.epochs=0"),
        ({"batch_size": "all"}, "train.batch_size='all'"),
        ({"readout": "median"}, "encoder.readout='median'"),
        ({"validation": 0.9}, "validation=0.9"),
        ({"on_bad": "ignore"}, "on_bad='ignore': use 'raise' or 'skip'"),
        ({"seed": -1}, "seed=-1"),
    ],
    ids=["method", "option", "epochs", "batch", "readout", "validation", "on_bad", "seed"],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        MPHILClassifier(**QUICK | settings).fit(SMILES[:30], ACTIVE[:30])


def test_too_few_rows():
    with pytest.raises(InputError, match="3 row\\(s\\) can be used"):
        MPHILClassifier("erm", **QUICK).fit(SMILES[:3], ["a", "b", "a"])
    with pytest.raises(InputError, match="no epoch can be chosen"):
        MPHILClassifier("erm", **QUICK).fit(SMILES[:5], ["a", "b", "b", "b", "b"])


def test_nothing_is_answered_before_fit(tmp_path):
    for ask in (lambda model: model.predict(["C"]), lambda model: model.save(tmp_path / "bundle")):
        with pytest.raises(NotFittedError):
            ask(MPHILClassifier())


def test_a_committee(tmp_path):
    model = MPHILClassifier("erm", **QUICK, members=2).fit(SMILES, ACTIVE)
    names = [member.name for member in model.bundle_.config.committee.members]
    assert names == ["erm", "erm with descriptors, seed 1", "random forest", "extra trees", "gradient boosting"]
    model.save(tmp_path / "bundle")
    said = mphil.load(tmp_path / "bundle").predict(SMILES[:7])
    np.testing.assert_array_equal(model.predict_proba(SMILES[:7])[:, 1:], said.probability)
    with pytest.raises(InputError, match="1 to 20 networks"):
        clone(model).set_params(members=21).fit(SMILES, ACTIVE)


@pytest.mark.parametrize("method", ["forest", "extra-trees", "boosting"])
def test_trees_alone(method):
    model = MPHILClassifier(method).fit(SMILES, ACTIVE)
    assert model.history_ == []
    assert model.score(SMILES, ACTIVE) > 0.9
    for setting, default in (({"members": 2}, 0), ({"lr": 0.1}, None), ({"width": 64}, 128)):
        with pytest.raises(InputError, match=f"is about networks, and {method} is trees alone; leave it at {default}"):
            clone(model).set_params(**setting).fit(SMILES, ACTIVE)
