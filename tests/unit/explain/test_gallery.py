from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from mphil.explain.atoms import explain_molecules
from mphil.explain.gallery import NO_MAP, Model, NewMolecules, gallery_view
from mphil.explain.prototypes import TrainingMolecules
from mphil.tables.from_smiles import molecule_store
from mphil.training.metrics import gather

from .conftest import built

CLASSES = ("off", "on")


def model_of(method, store, embeddings=None) -> Model:
    if embeddings is None:
        embeddings = gather(method, [store.batch(torch.arange(len(store)))], method.embed).double().numpy()
    training = TrainingMolecules(store.smiles, embeddings, store.y[:, 0].double().numpy())
    return Model(method, training, CLASSES, 0, "active", lambda smiles: molecule_store(smiles, None)[0])


def new_molecules(method, store, verdicts) -> NewMolecules:
    few = store[: len(verdicts)]
    vectors = gather(method, [few.batch(torch.arange(len(few)))], method.embed).double().numpy()
    n = len(few)
    classes = np.arange(n) % 2
    return NewMolecules(explain_molecules(method, few), vectors, classes, np.full(n, 0.75), verdicts, np.ones(n, int))


def view_of(method, store, verdicts=("in domain", "out of domain"), embeddings=None):
    new = new_molecules(method, store, list(verdicts))
    return gallery_view(model_of(method, store, embeddings), new, eyebrow="e", making=[], progress=False)


@pytest.fixture(scope="module")
def view(molecules):
    return view_of(built("mphil", molecules), molecules)


def test_every_point_has_its_picture_class_and_part(view, molecules):
    shown, n = view.map, len(molecules)
    assert list(shown.cloud.parts) == ["train"] * n + ["in domain", "out of domain"]
    assert list(shown.cloud.classes) == [*molecules.y[:, 0].int().tolist(), 0, 1]
    assert list(shown.cloud.names) == [*molecules.smiles, *molecules.smiles[:2]]
    for name, picture in zip(shown.cloud.names, shown.pictures, strict=False):
        assert f"<title>{name}</title>" in picture
    assert [part for part, *_ in shown.parts] == ["train", "in domain", "out of domain"]
    assert [mark for *_, mark in shown.parts] == ["filled", "hollow", "crossed"]
    assert shown.details[n:] == [
        "yours: off; P(on) = 0.75; in domain",
        "yours: on; P(on) = 0.75; out of domain",
        *shown.details[n + 2 :],
    ]


def test_a_star_shows_the_molecule_nearest_to_it(view, molecules):
    method = built("mphil", molecules)
    batch = molecules.batch(torch.arange(len(molecules)))
    with torch.no_grad():
        nearest = (method.embed(batch) @ method.bank()[0].flatten(0, 1).T).argmax(0).tolist()
    for star, graph in enumerate(nearest):
        assert f"<title>{molecules.smiles[graph]}</title>" in view.map.pictures[len(molecules) + 2 + star]
        assert view.map.details[len(molecules) + 2 + star].endswith(molecules.smiles[graph])


def test_groups_hold_all_training_molecules_once(view, molecules):
    assert [one.name for one in view.prototypes] == [
        f"{name}, prototype {slot} of 3" for name in CLASSES for slot in (1, 2, 3)
    ]
    assert sum(one.members for one in view.prototypes) == len(molecules)
    assert sum(one.same_class[1] for one in view.prototypes) == len(molecules)
    for one in view.prototypes:
        assert bool(one.nearest) == bool(one.members), "one that is not in use has nothing to show"


def test_what_is_shared_is_outlined(view):
    used = [one for one in view.prototypes if one.shared.startswith("Shared by all")]
    assert used
    assert all("mask" in drawing.svg for one in used for drawing in one.nearest)


def test_the_words_count(view):
    assert view.heading == "active: 2 molecules explained, 6 prototypes"
    assert "1 of the 2 molecules explained here is out of domain" in view.lead[0]


def test_molecules_show_their_first_parts(view):
    explained = view.explained[0]
    assert explained.drawing.caption == "off; P(on) = 0.75; in domain"
    assert explained.change == "Change of P(on)"
    assert 1 <= len(explained.rows) <= 4
    assert all((row.svg is None) == bool(row.name) for row in explained.rows), "what has no name is drawn"
    assert explained.matches == []


def test_names_come_first(molecules):
    new = replace(new_molecules(built("erm", molecules), molecules, ["in domain"]), names=["m7"])
    assert new.caption(0, CLASSES) == "m7: off; P(on) = 0.75; in domain"


def test_parts_of_mphil_plus_are_drawn_on_the_molecules(molecules):
    view = view_of(built("mphil+", molecules), molecules)
    for smiles, one in zip(molecules.smiles, view.explained, strict=False):
        assert len(one.matches) == 3
        assert all(f"<title>{smiles}</title>" in drawing.svg for drawing in one.matches)
        assert all("part " in drawing.caption and "similarity" in drawing.caption for drawing in one.matches)


def test_a_model_that_cannot_tell_the_domain(molecules):
    view = view_of(built("erm", molecules), molecules, ["unknown"])
    assert view.map.parts[1] == ("unknown", "yours", "hollow")
    assert view.explained[0].drawing.caption == "off; P(on) = 0.75"
    assert "domain" not in view.lead[0]
    assert view.centres == "class centre"
    assert view.map.stars == "mean of a class, in its colour"
    assert view.heading == "active: 1 molecule explained", "what is no prototype is not counted"
    assert "in their place, a star on the map is the mean direction" in view.lead[0]


def test_a_model_without_an_embedding(molecules):
    method = built("erm", molecules)
    view = view_of(method, molecules, embeddings=np.empty((len(molecules), 0)))
    assert view.map is None
    assert view.prototypes == []
    assert NO_MAP in view.notes
    assert view.heading == "active: 2 molecules explained"
