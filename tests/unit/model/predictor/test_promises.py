"""Other coverages, weighted sets and reasons of verdicts, through a trained bundle on disk."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from mphil.chem.substructures import Seen
from mphil.errors import IntegrityError, UsageError
from mphil.model.bundle import read_bundle, write_bundle
from mphil.model.predictor import Predictor, load
from mphil.model.predictor.predictions import NO_SUPPORT, with_coverage
from tests.command import call
from tests.products import binary_table, make, molecules, rows_of, write_table


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("promises")
    return make(binary_table(folder / "assay.csv"), folder / "run", method="erm")


def test_held_out_rows_come_back(made):
    held = read_bundle(made.path).held_out
    for name, value in vars(made.bundle.held_out).items():
        np.testing.assert_array_equal(getattr(held, name), value)
    assert len(held) == made.run.benchmark.split.sizes["id_val"]


def test_names_of_training_molecules_come_back(made):
    references = read_bundle(made.path).references
    assert references.names == made.bundle.references.names
    assert all(name.startswith("m") for name in references.names)


def test_a_lower_coverage_gives_smaller_sets(made):
    smiles = molecules()
    wide, narrow = (load(made.path, coverage=share).predict(smiles).sets for share in (0.99, 0.3))
    assert wide.sum() > narrow.sum()
    assert (narrow <= wide).all()


def test_the_usual_coverage_is_that_of_the_bundle(made):
    assert with_coverage(made.bundle, 0.9).trust.conformal == made.bundle.trust.conformal


@pytest.mark.parametrize("share", [0.0, 1.0, 80.0])
def test_a_coverage_is_a_share(made, share):
    with pytest.raises(UsageError, match="between 0 and 1, such as 0.8"):
        with_coverage(made.bundle, share)


def test_a_bundle_without_held_out_rows(made):
    with pytest.raises(UsageError, match="train it again"):
        with_coverage(replace(made.bundle, held_out=None), 0.8)


def test_damaged_held_out_rows_are_refused(made, tmp_path):
    held = made.bundle.held_out
    for broken in (replace(held, probability=held.probability + 2), replace(held, distance=held.distance[:-1])):
        write_bundle(tmp_path / "bundle", replace(made.bundle, held_out=broken))
        with pytest.raises(IntegrityError, match="held_out.safetensors cannot be used"):
            read_bundle(tmp_path / "bundle")


def test_weighted_sets_stand_beside_the_plain_ones(made):
    smiles = [*molecules()[:40], "C C"]
    predictor = Predictor(made.bundle)
    adapted = predictor.adapt(smiles)
    said = adapted.predict(smiles)
    assert predictor.shift is None
    assert said.weighted_sets.shape == said.sets.shape
    columns = said.columns()
    assert columns["conformal_set_weighted"][-1] is None
    told = [row for row, message in enumerate(said.message) if message == NO_SUPPORT]
    assert all(said.weighted_sets[row].all() for row in told)
    np.testing.assert_array_equal(said.sets, predictor.predict(smiles).sets)


def test_few_rows_do_not_show_how_they_are_drawn(made):
    with pytest.raises(UsageError, match="3 molecules do not show"):
        Predictor(made.bundle).adapt(["CCO", "CCN", "CCC"])


def test_a_warning_says_why(made):
    said = Predictor(made.bundle).predict(["C[Si](C)(C)C1=CC=CC=CC1", made.bundle.references.smiles[0], "C C"])
    assert said.domain[0] == "out of domain"
    assert "the nearest training molecule, m" in said.reason[0]
    assert "no training molecule has the element Si" in said.reason[0]
    assert "no training molecule has the ring system" in said.reason[0]
    assert (said.reason[1], said.reason[2]) == ("", "")
    assert said.nearest_name[1] == made.bundle.references.names[0]


def test_a_warning_does_not_read_the_training_molecules_again(made, monkeypatch):
    stored = read_bundle(made.path)
    assert stored.references.seen == Seen.of(stored.references.smiles)
    strange = ["C[Si](C)(C)C1=CC=CC=CC1"]
    older = Predictor(replace(stored, references=replace(stored.references, seen=None))).predict(strange)
    monkeypatch.setattr(Seen, "of", None)
    assert Predictor(stored).predict(strange).reason == older.reason


def test_damaged_elements_and_ring_systems_are_refused(made, tmp_path):
    broken = replace(made.bundle.references, seen=SimpleNamespace(elements=["C"], rings=[6]))
    write_bundle(tmp_path / "bundle", replace(made.bundle, references=broken))
    with pytest.raises(IntegrityError, match="seen.json cannot be used"):
        read_bundle(tmp_path / "bundle")


class TestCommand:
    def test_a_file(self, made, tmp_path):
        table = write_table(tmp_path / "new.csv", {"smiles": molecules()[:30]})
        out = tmp_path / "out.csv"
        ended = call("predict", made.path, table, "--out", out, "--coverage", "0.8", "--weighted")
        assert ended.code == 0
        assert "held-out rows are worth" in ended.err
        assert {"conformal_set", "conformal_set_weighted", "domain_reason"} <= set(rows_of(out)[0])

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["CCO", "--coverage", "80"], "such as 0.8, not 80"),
            (["CCO", "--weighted"], "--weighted goes with a file"),
            (["CCO", "--sheet", "x"], "--sheet goes with a file"),
            ([".", "--coverage", "0.8"], "you gave a folder of tables"),
        ],
    )
    def test_mistakes(self, made, arguments, message):
        ended = call("predict", made.path, *arguments)
        assert ended.code == 2
        assert message in " ".join(ended.err.split())
