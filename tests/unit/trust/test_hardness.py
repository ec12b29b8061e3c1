from __future__ import annotations

import numpy as np
import pytest

from mphil.trust import neighbours as module
from mphil.trust.neighbours import hardness, similarity_to_training


def similarities(bits: np.ndarray, train, test) -> list[float]:
    rows = np.unpackbits(bits, axis=1).astype(bool)
    return [max((rows[t] & rows[r]).sum() / (rows[t] | rows[r]).sum() for r in train) for t in test]


def test_median_of_the_nearest_by_hand(monkeypatch):
    bits = np.random.default_rng(0).integers(0, 256, (40, 8)).astype(np.uint8)
    train, test = np.arange(25), np.arange(25, 40)
    assert similarity_to_training(bits, train, test) == pytest.approx(np.median(similarities(bits, train, test)))
    monkeypatch.setattr(module, "ASKED", 3)
    assert similarity_to_training(bits, train, test) == pytest.approx(
        np.median(similarities(bits, train, [25, 32, 39]))
    )


def test_an_empty_part_has_no_similarity():
    bits, none, some = np.ones((2, 8), np.uint8), np.empty(0, np.int64), np.array([1])
    assert similarity_to_training(bits, none, some) is None
    assert similarity_to_training(bits, some, none) is None


@pytest.mark.parametrize(
    ("similarity", "told"),
    [
        ({}, ""),
        ({"id_test": None, "ood_test": 0.5}, ""),
        ({"id_test": 0.6, "ood_test": 0.58}, "nearly random here"),
        ({"id_test": 0.6, "ood_test": 0.7}, "nearly random here"),
        ({"id_test": 0.6, "ood_test": 0.3}, "OOD test is less similar to training (0.30) than ID test (0.60)"),
    ],
)
def test_what_is_said(similarity, told):
    assert told in hardness(similarity)
    assert bool(told) == bool(hardness(similarity))
