"""Prototypes and training molecules around a new one."""

import math

import numpy as np
import pytest

from mphil.serve.service import ModelService, Surroundings
from tests.served import predictor


@pytest.fixture(scope="module")
def model():
    return predictor()


@pytest.fixture(scope="module")
def service(model):
    with ModelService(model) as service:
        yield service


def test_near_prototypes_are_those_with_the_smallest_angle(model):
    around = Surroundings(model, 0)
    bank = model.method.bank()[0].detach().numpy()
    vector = model.bundle.references.embeddings[3]

    def cosine(a, b):
        return float(sum(x * y for x, y in zip(a, b, strict=True)) / math.hypot(*a) / math.hypot(*b))

    expected = sorted(
        ((cosine(vector, slot), name, number) for name, group in zip(model.bundle.config.classes, bank, strict=True)
         for number, slot in enumerate(group, start=1)), reverse=True,
    )  # fmt: skip
    found = around.near(vector)

    assert around.are_prototypes
    assert [(one.class_name, one.number) for one in found] == [(name, number) for _, name, number in expected[:3]]
    assert [one.similarity for one in found] == pytest.approx([value for value, *_ in expected[:3]], abs=1e-5)
    for one in found:
        assert (one.molecule in model.bundle.references.smiles) == (one.members > 0)


def test_the_map_holds_training_molecules_ours_and_the_stars(model, service):
    explained = service.explain(["CCO", "C C", "c1ccccc1"], parts=False)
    view = service.surroundings(0).map(explained.new_molecules(0), ["row 1, a", "row 3, b"])

    known = int(np.isfinite(model.bundle.references.labels[:, 0]).sum())
    stars = model.method.bank()[0].shape[0] * model.method.bank()[0].shape[1]
    assert len(view.cloud.parts) == known + 2
    assert list(view.cloud.parts[-2:]) == [str(word) for word in explained.predictions.domain[[0, 2]]]
    assert list(view.cloud.names[-2:]) == ["row 1, a", "row 3, b"]
    assert len(view.cloud.prototypes) == stars
    assert len(view.pictures) == known + 2 + stars


def test_a_method_without_prototypes_gets_class_centres():
    erm = predictor("erm")
    around = Surroundings(erm, 0)
    vectors = erm.bundle.references.embeddings
    found = around.near(vectors[0])
    assert not around.are_prototypes
    assert sorted(one.class_name for one in found) == sorted(erm.bundle.config.classes)


def test_a_model_that_places_nothing_has_no_map_and_no_prototypes(model):
    from dataclasses import replace

    empty = replace(model.bundle.references, embeddings=np.empty((len(model.bundle.references), 0), np.float32))
    bare = predictor()
    bare.bundle = replace(model.bundle, references=empty)
    around = Surroundings(bare, 0)
    assert around.near(np.empty(0, np.float32)) == []
    with ModelService(predictor()) as service:
        assert around.map(service.explain(["CCO"], parts=False).new_molecules(0), ["a"]) is None


def test_glowing_atoms_are_those_of_the_full_explanation(service):
    quick, full = (service.explain(["OCC", "c1ccccc1C(=O)O"], parts=parts) for parts in (False, True))
    assert quick.rows == full.rows == (0, 1)
    assert [one.seen for one in quick.explanations] == [one.seen for one in full.explanations]
    for one, other in zip(quick.explanations, full.explanations, strict=True):
        assert sorted(one.weights.round(5)) == sorted(other.weights.round(5))
    assert quick.explanations[0].substructures == ()
    assert full.explanations[1].substructures


def test_a_page_is_explained_once(service):
    asked = []

    def molecules():
        asked.append(1)
        return ["CCO"]

    first = service.explained_page("key", molecules)
    assert service.explained_page("key", molecules) is first
    for number in range(10):
        service.explained_page(number, molecules)
    assert service.explained_page("key", molecules) is not first
    assert len(asked) == 12
