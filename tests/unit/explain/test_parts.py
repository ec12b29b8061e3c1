"""The parts of MPHIL+ on molecules: which are shown, where they match, and what they speak for."""

from __future__ import annotations

import pytest
import torch

from mphil.explain.prototypes import EXAMPLES, MATCHES, SHOWN, part_matches, part_views, part_weights
from mphil.methods import build_method
from mphil.pages.gallery_page import GalleryView, render
from mphil.tables.from_smiles import molecule_store
from mphil.task import Task
from tests.graphs import small_encoder

from .conftest import built

CLASSES = ("off", "on")


def featurise(smiles):
    return molecule_store(smiles, None)[0]


@pytest.fixture(scope="module")
def method(molecules):
    return built("mphil+", molecules)


@pytest.fixture(scope="module")
def views(method, molecules):
    return part_views(method, molecules.smiles, featurise, CLASSES, 0)


def test_those_that_weigh_most_come_first(views, method):
    assert len(views) == min(SHOWN, len(method.prototypes))
    weights = [one.weight for one in views]
    assert weights == sorted(weights, reverse=True)
    assert weights[0] == pytest.approx(
        float(method.head.weight.detach()[0, :32].abs().max()) / method.temperature, rel=1e-5
    )


def test_a_part_speaks_for_the_class_it_raises(views, method):
    weights = part_weights(method, 0)
    for one in views:
        part = int(one.name.split()[1].rstrip(",")) - 1
        assert one.name.endswith(CLASSES[int(weights[:, part].argmax())])


def test_examples_are_where_it_matches_best(views, method, molecules):
    batch = molecules.batch(torch.arange(len(molecules)))
    found = method.match(batch)
    for one in views:
        part = int(one.name.split()[1].rstrip(",")) - 1
        assert len(one.examples) == EXAMPLES
        assert one.examples[0].caption == f"similarity {found.similarity[:, part].max():.2f}"
        assert one.examples[0].svg.count("<circle") == 1, "the atom where it matches glows, and no other"


def test_the_page_shows_them(views):
    page = render(GalleryView("e", "h", [], "prototype", [], [], [], [], parts=views))
    assert page.count("A perfect match moves the decision by") == len(views)
    assert "The parts it looks for" in page


def test_without_prototypes_or_molecules_there_are_none(molecules):
    bare = build_method("mphil+", Task("binary", 1, "roc_auc"), small_encoder(molecules), {"parts": 0})
    assert part_views(bare, molecules.smiles, featurise, CLASSES, 0) == []
    assert part_views(built("mphil+", molecules), [], featurise, CLASSES, 0) == []


def test_matches_are_those_that_move_the_decision_most(method, molecules):
    found = method.match(molecules.batch(torch.arange(len(molecules))))
    weights = part_weights(method, 0)
    moves = (found.similarity * (weights[1] - weights[0]).abs()).abs()
    drawn = part_matches(method, molecules, CLASSES, 0)
    assert len(drawn) == len(molecules)
    for row, own in enumerate(drawn):
        best = moves[row].argsort(descending=True, stable=True)[:MATCHES].tolist()
        assert [int(one.caption.split()[1].rstrip(",")) - 1 for one in own] == best
        assert all(one.svg.count("<circle") == 1 for one in own)


def test_matches_without_prototypes_or_molecules(method, molecules):
    bare = build_method("mphil+", Task("binary", 1, "roc_auc"), small_encoder(molecules), {"parts": 0})
    assert part_matches(bare, molecules, CLASSES, 0) == [[] for _ in range(len(molecules))]
    assert part_matches(method, molecules[:0], CLASSES, 0) == []
