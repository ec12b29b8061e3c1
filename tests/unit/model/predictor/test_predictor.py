"""Answers: what they are, that they do not depend on spelling, company or order, and that no row is lost."""

import random
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from rdkit import Chem, DataStructs
from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

import mphil
from mphil.errors import UsageError
from mphil.graphs.loader import Loader
from mphil.graphs.store import GraphStore
from mphil.methods import METHODS
from mphil.model.bundle import read_bundle
from mphil.model.predictor import Predictor
from mphil.model.predictor.asking import ask, implements
from mphil.tables.from_smiles import molecule_store
from mphil.testing import random_graphs
from mphil.training.metrics import gather, predict_logits
from tests.graphs import TASKS, random_store, small_encoder
from tests.products import make, molecules, write_table

SALT = "CC(=O)Nc1ccc(cc1)C(=O)OCC[NH+](CC)C[C@H](C)O.[Cl-].O"
NUMBERS = ("probability", "ood_score", "similarity", "embedding")


@pytest.fixture(scope="module")
def predictor(product):
    return mphil.load(product.path)


def assert_equal(one, other, rows=slice(None), tolerance=1e-5):
    """Both say the same: numbers to a tolerance, words exactly."""
    for name in NUMBERS:
        np.testing.assert_allclose(getattr(one, name), getattr(other, name)[rows], atol=tolerance, rtol=0)
    for name in ("prediction", "sets", "domain", "prototype", "nearest"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name)[rows])


class TestAnswers:
    def test_against_the_written_out_way(self, product, predictor):
        """Canonical SMILES, features, the run's own weights, calibration, thresholds: step by step."""
        smiles = [Chem.CanonSmiles(one.partition(".")[0]) for one in molecules()[:30]]
        answers = predictor.predict(molecules()[:30])
        store, _ = molecule_store(smiles, None)
        method, trust = product.run.method, product.bundle.trust
        batches = Loader(store, torch.arange(len(store)), 7)
        logits = predict_logits(method, batches).double().numpy()[:, 0]
        (temperature,), (offset,) = trust.calibration.temperatures, trust.calibration.offsets
        chance = 1 / (1 + np.exp(-logits / temperature - offset))
        np.testing.assert_allclose(answers.probability[:, 0], chance, atol=1e-6)
        assert answers.prediction[:, 0].tolist() == [int(value > 0.5) for value in chance]
        limits = [np.inf if limit is None else limit for limit in trust.conformal.thresholds[0]]
        for row, value in enumerate(chance):
            assert answers.sets[row, 0].tolist() == [value <= limits[0] + 1e-9, 1 - value <= limits[1] + 1e-9]
        maker = GetMorganGenerator(radius=2, fpSize=2048)
        known = [maker.GetFingerprint(Chem.MolFromSmiles(one)) for one in product.bundle.references.smiles]
        bits = [maker.GetFingerprint(Chem.MolFromSmiles(one)) for one in smiles]
        far = [1 - max(DataStructs.BulkTanimotoSimilarity(one, known)) for one in bits]
        np.testing.assert_allclose(answers.ood_score, far, atol=1e-9)
        words = ["out of domain" if s > trust.bands.out else "borderline" if s > trust.bands.borderline else "in domain"
                 for s in answers.ood_score]  # fmt: skip
        assert answers.domain.tolist() == words
        assert answers.prototype.tolist() == gather(method, batches, method.nearest_prototype).tolist()
        assert answers.smiles == smiles
        assert answers.status == ["ok"] * 30

    def test_graphs_have_no_fingerprint_to_tell_their_distance_by(self, predictor):
        store, _ = molecule_store(molecules()[:3], None)
        with pytest.raises(UsageError, match="by fingerprints of molecules, and was asked about graphs"):
            predictor.predict_graphs(store)

    def test_the_nearest_training_molecule(self, product, predictor):
        maker = GetMorganGenerator(radius=2, fpSize=2048)
        known = [maker.GetFingerprint(Chem.MolFromSmiles(one)) for one in product.bundle.references.smiles]
        asked = molecules()[::9]
        answers = predictor.predict(asked)
        for row, one in enumerate(asked):
            near = DataStructs.BulkTanimotoSimilarity(maker.GetFingerprint(Chem.MolFromSmiles(one)), known)
            assert answers.similarity[row] == pytest.approx(max(near))
            assert answers.nearest[row] == near.index(max(near))
            assert answers.nearest_smiles[row] == product.bundle.references.smiles[answers.nearest[row]]
        training = predictor.predict(product.bundle.references.smiles[:5])
        assert training.similarity.tolist() == [1.0] * 5

    def test_rows_in_are_rows_out(self, predictor):
        rows = ["CCO", "C C", "", None, float("nan"), "c1ccccc", " OCC ", "Xx", "CCСО", "C" * 5000]
        answers = predictor.predict(rows)
        status = ["ok", "whitespace", "empty", "empty", "empty", "syntax", "ok", "syntax", "not-ascii", "too-long"]
        assert answers.status == status
        assert [bool(text) for text in answers.message] == [code != "ok" for code in status]
        assert answers.answered.tolist() == [code == "ok" for code in status]
        assert answers.probability[0] == answers.probability[6]
        refused = ~answers.answered
        assert np.isnan(answers.probability[refused]).all()
        assert np.isnan(answers.ood_score[refused]).all()
        assert (answers.prediction[refused] == -1).all()
        assert set(answers.domain[refused].tolist()) == {""}
        assert not answers.sets[refused].any()
        for name, cells in answers.columns().items():
            assert len(cells) == len(rows)
            if name not in ("standardised_smiles", "status", "message"):
                assert [cell is None for cell in cells] == refused.tolist(), name

    @pytest.mark.parametrize("rows", [[], ["C C"], ["", ""]])
    def test_nothing_to_answer(self, predictor, rows):
        answers = predictor.predict(rows)
        assert len(answers) == len(rows)
        assert not answers.answered.any()
        assert list(answers.columns()) == list(predictor.predict(["CCO"]).columns())

    def test_the_table(self, predictor):
        table = predictor.predict(["CCO"]).columns()
        assert list(table) == [
            *("prediction", "probability", "conformal_set", "prototype", "ood_score", "domain", "domain_reason"),
            *(
                "nearest_training_id",
                "nearest_training_molecule",
                "similarity",
                "standardised_smiles",
                "status",
                "message",
            ),
        ]
        assert table["prediction"][0] in ("0", "1")
        assert table["conformal_set"][0] in ("{}", "{0}", "{1}", "{0|1}")
        assert table["prototype"][0].startswith(f"{table['prediction'][0]}#")

    def test_molecules_are_standardised_as_in_training(self, product, predictor):
        reading = product.bundle.config.molecules
        assert (reading.standardised, reading.fragments) == ("parent/1", "largest organic")
        answers = predictor.predict(["[Na+].[O-]C(=O)Cc1ccccc1", "OC(=O)Cc1ccccc1"])
        assert answers.columns()["standardised_smiles"] == ["O=C(O)Cc1ccccc1", None]
        assert answers.probability[0] == answers.probability[1]
        assert not any("." in smiles for smiles in product.bundle.references.smiles)

    def test_a_bundle_of_before_reads_molecules_as_they_are(self, product):
        """Older bundles do not say whether they standardise: they did not."""
        config = product.bundle.config
        fields = config.molecules.model_dump()
        del fields["standardised"]
        before = type(config.molecules).model_validate({**fields, "fragments": "kept"})
        old = Predictor(replace(product.bundle, config=config.model_copy(update={"molecules": before})))
        answers = old.predict(["[Na+].[O-]C(=O)Cc1ccccc1"])
        assert answers.smiles == ["O=C([O-])Cc1ccccc1.[Na+]"]
        assert "standardised_smiles" not in answers.columns()

    def test_a_number_that_is_none(self, predictor):
        """A model that breaks down on a molecule costs that row and no other."""
        broken = Predictor(predictor.bundle)
        sound = broken.network

        def network(store, advance):
            found = sound(store, advance)
            found.logits[1] = np.nan
            return found

        broken.network = network
        answers = broken.predict(["CCO", "CCC", "C C", "c1ccccc1"])
        assert answers.status == ["ok", "not-finite", "whitespace", "ok"]
        assert_equal(replace(answers, **{n: getattr(answers, n)[[0, 3]] for n in (*NUMBERS, *_WORDS)}),
                     predictor.predict(["CCO", "c1ccccc1"]))  # fmt: skip

    def test_a_single_string_is_a_mistake(self, predictor):
        with pytest.raises(UsageError, match="put it into a list"):
            predictor.predict("CCO")


_WORDS = ("prediction", "sets", "domain", "prototype", "nearest")


class TestSameness:
    def test_a_hundred_spellings_of_one_molecule(self, predictor):
        mol = Chem.MolFromSmiles(SALT)
        spellings = [Chem.MolToSmiles(mol, doRandom=True) for _ in range(100)]
        assert len(set(spellings)) > 50
        answers = predictor.predict([SALT, *spellings])
        assert len(set(answers.smiles)) == 1
        for name in (*NUMBERS, *_WORDS):
            values = getattr(answers, name)
            assert (values == values[:1]).all(), name
        read = predictor.read(spellings[:5])
        atoms = [read.store[i : i + 1].x.tolist() for i in range(5)]
        assert all(one == atoms[0] for one in atoms), "the same atoms in the same order"

    def test_fragments_in_any_order(self, predictor):
        parts = SALT.split(".")
        answers = predictor.predict([".".join(order) for order in (parts, parts[::-1], parts[1:] + parts[:1])])
        assert len(set(answers.probability[:, 0].tolist())) == 1
        assert answers.ood_score[0] == predictor.predict([parts[0]]).ood_score[0], "a salt is the same molecule"

    @pytest.mark.parametrize("size", [1, 7, 64])
    def test_company_does_not_matter(self, predictor, size):
        smiles = molecules()[:60]
        assert_equal(Predictor(predictor.bundle, batch_size=size).predict(smiles), predictor.predict(smiles))

    def test_order_does_not_matter(self, predictor):
        smiles = [*molecules(), "C C"]
        order = random.Random(3).sample(range(len(smiles)), len(smiles))
        assert_equal(predictor.predict([smiles[i] for i in order]), predictor.predict(smiles), order)

    def test_processes_do_not_matter(self, predictor):
        smiles = [*molecules()[:40], "C C"]
        assert_equal(predictor.predict(smiles, workers=1), predictor.predict(smiles, workers=0), tolerance=0)

    def test_asking_leaves_the_method_as_it_was(self, predictor):
        store = predictor.read(["CCO"]).store
        batch = store.batch(torch.arange(1))
        with torch.no_grad():
            first = predictor.method.embed(batch)
            batch.x = batch.x * 0
            assert not torch.equal(predictor.method.embed(batch), first), "nothing is remembered outside of a question"
        assert not predictor.method.training


class TestKinds:
    def test_several_classes(self, tmp_path):
        grades = [("low", "mid", "top")[len(one) % 3] for one in molecules()]
        table = write_table(tmp_path / "a.csv", {"smiles": molecules(), "grade": grades})
        made = make(table, tmp_path / "out", targets=("grade",))
        answers = mphil.load(made.path).predict(["CCO", "C C"])
        assert answers.probability.shape == (2, 3)
        assert answers.probability[0].sum() == pytest.approx(1)
        columns = answers.columns()
        each = {name: columns[f"probability_{name}"][0] for name in ("low", "mid", "top")}
        assert columns["prediction"][0] == max(each, key=each.get)
        assert columns["probability"][0] == max(each.values())
        assert columns["probability_low"][1] is None

    def test_several_tasks_with_gaps(self, tmp_path):
        smiles = molecules()
        one = [int("N" in s) for s in smiles]
        two = ["" if i % 4 == 0 else int("O" in s) for i, s in enumerate(smiles)]
        table = write_table(tmp_path / "a.csv", {"smiles": smiles, "one": one, "two": two})
        made = make(table, tmp_path / "out", method="erm")
        predictor = mphil.load(made.path)
        answers = predictor.predict(smiles[:9])
        assert (answers.probability.shape, answers.sets.shape) == ((9, 2), (9, 2, 2))
        assert answers.prototype is None
        assert list(answers.columns())[:6] == [
            *("prediction_one", "probability_one", "conformal_set_one"),
            *("prediction_two", "probability_two", "conformal_set_two"),
        ]
        assert predictor.bundle.trust.score == "tanimoto"
        near = predictor.predict(made.bundle.references.smiles[:20]).ood_score
        assert (near < predictor.predict(["[Xe]", "FS(F)(F)(F)(F)F"]).ood_score.min()).all()

    def test_graphs(self, tmp_path):
        store = random_graphs(TASKS["multiclass"], n_nodes=[3 + n % 9 for n in range(80)])
        store.save(tmp_path / "graphs")
        made = make(tmp_path / "graphs", tmp_path / "out", method="erm", baselines=True)
        assert made.bundle.metrics["left_out"]["random forest"] == "it takes molecules, and these are graphs"
        predictor = mphil.load(made.path)
        done = []
        answers = predictor.predict_graphs(store, done.append)
        assert sum(done) == len(store)
        expected = predict_logits(made.run.method, Loader(store, torch.arange(len(store)), 16))
        assert answers.prediction[:, 0].tolist() == expected.argmax(1).tolist()
        assert answers.smiles is answers.nearest_smiles is None
        assert "nearest_training_molecule" not in answers.columns()
        assert not predictor.takes_molecules
        with pytest.raises(UsageError, match="trained on graphs"):
            predictor.predict(["CCO"])
        other = random_graphs(TASKS["multiclass"], n_nodes=[3, 4])
        wrong = GraphStore.from_pyg(replace(other, x=other.x[:, :1]).to_pyg())
        with pytest.raises(UsageError, match="node features of these graphs"):
            predictor.predict_graphs(wrong)


@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_answers_in_one_pass(name):
    """Whatever a method can say comes out as if it were asked alone, and its encoder is not asked twice for it."""
    from mphil.methods.base import build_method

    kind = "binary" if "binary" in METHODS[name].tasks else "multiclass"
    torch.manual_seed(0)
    store = random_store(kind, graphs=9, nodes="categorical", edges="categorical")
    if "molecules" in METHODS[name].needs:
        store, _ = molecule_store(["CCO", "c1ccccc1", "CCN"] * 3, [0, 1, 0] * 3)
    method = build_method(name, TASKS[kind], small_encoder(store), {}).eval()
    batches = Loader(store, torch.arange(9), 4)
    calls = []
    plain = type(method).embed
    method.embed = lambda batch: calls.append(len(batch.ptr) - 1) or plain(method, batch)
    outputs = ask(method, batches)
    asked_for = sum(calls)
    del method.embed
    np.testing.assert_allclose(outputs.logits, predict_logits(method, batches).numpy(), atol=1e-6)
    if implements(method, "embed"):
        assert asked_for <= 9
        np.testing.assert_allclose(outputs.embedding, gather(method, batches, method.embed).numpy(), atol=1e-6)
    assert (outputs.slots is not None) == (name == "mphil")


def test_another_rdkit_is_told(product):
    bundle = read_bundle(product.path)
    assert Predictor(bundle).notes == ()
    old = bundle.config.model_copy(update={"versions": {"rdkit": "2019.3"}})
    assert "made with RDKit 2019.3" in Predictor(replace(bundle, config=old)).notes[0]


def test_wrong_arguments(product, tmp_path):
    with pytest.raises(UsageError, match="batch_size"):
        Predictor(product.bundle, batch_size=0)
    with pytest.raises(UsageError, match="no bundle here"):
        mphil.load(tmp_path)


class TestFrames:
    """A DataFrame in, a DataFrame out."""

    def frame(self):
        return pd.DataFrame({"code": ["a-1", "a-2", "a-3"], "structure": [*molecules()[:2], None]}, index=[7, 3, 5])

    def test_the_same_answers_under_the_index_of_the_table(self, predictor):
        found = predictor.predict(self.frame(), smiles="structure")
        assert found.index.tolist() == [7, 3, 5]
        assert {name: list(cells) for name, cells in found.astype(object).where(found.notna(), None).items()} == (
            predictor.predict([*molecules()[:2], ""]).columns()
        )
        assert found["status"].tolist() == ["ok", "ok", "empty"]

    def test_a_column_names_the_rows(self, predictor):
        found = predictor.predict(self.frame(), smiles="structure", id="code")
        assert (found.index.name, found.index.tolist()) == ("code", ["a-1", "a-2", "a-3"])
        joined = self.frame().join(found, on="code")
        assert joined["status"].tolist() == ["ok", "ok", "empty"]

    def test_the_column_of_the_training_is_found(self, predictor):
        usual = predictor.bundle.config.molecules.column
        table = self.frame().rename(columns={"structure": usual})
        pd.testing.assert_frame_equal(predictor.predict(table), predictor.predict(self.frame(), smiles="structure"))

    def test_columns_that_are_not_there(self, predictor):
        with pytest.raises(UsageError, match=r"no column 'mol' \(columns: code, structure\); name one with smiles="):
            predictor.predict(self.frame(), smiles="mol")
        with pytest.raises(UsageError, match="no column 'name'.*name one with id="):
            predictor.predict(self.frame(), smiles="structure", id="name")
        with pytest.raises(UsageError, match="name columns of a DataFrame"):
            predictor.predict(molecules()[:2], smiles="structure")
