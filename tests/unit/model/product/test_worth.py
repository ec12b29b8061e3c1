"""What verdicts and weighted sets are worth, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from mphil.model.bundle import Trust
from mphil.model.bundle.held_out import HeldOut
from mphil.model.product.worth import measured_worth, verdict_worth, weighted_coverage
from mphil.task import Task
from mphil.trust.calibration import Calibration
from mphil.trust.conformal import Conformal
from mphil.trust.ood import Bands

BINARY = Task("binary", 1, "roc_auc")


def test_errors_by_verdict_by_hand():
    verdicts = np.array(["in domain"] * 3 + ["out of domain"] * 3)
    probability = np.array([[0.9], [0.2], [0.6], [0.9], [0.8], [0.3]])
    y = np.array([[1.0], [0.0], [0.0], [0.0], [np.nan], [1.0]])
    found = verdict_worth(verdicts, probability, y, BINARY)
    assert found["in domain"] == {"rows": 3, "labels": 3, "error": pytest.approx(1 / 3), "score": 1.0}
    assert found["out of domain"] == {"rows": 3, "labels": 2, "error": 1.0, "score": 0.0}
    assert found["borderline"] == {"rows": 0, "labels": 0, "error": None, "score": None}


def test_several_classes():
    task = Task("multiclass", 3, "accuracy")
    probability = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    found = verdict_worth(np.array(["in domain"] * 2), probability, np.array([[0.0], [1.0]]), task)
    assert found["in domain"]["error"] == found["in domain"]["score"] == 0.5


@pytest.fixture
def fitted():
    draw = np.random.default_rng(0)
    probability, far = draw.random((60, 1)), draw.random(60)
    y = (draw.random((60, 1)) < probability).astype(float)
    bits = draw.integers(0, 256, (60, 256)).astype(np.uint8)
    conformal = Conformal.fit(probability, y, BINARY)
    trust = Trust("tanimoto", "id_val", Calibration("none", "binary", 1), conformal, Bands.fit(far))
    return trust, HeldOut(probability, y.astype(np.float32), far, bits)


def test_weighted_coverage_of_rows_drawn_alike_is_that_of_plain_sets(fitted):
    trust, held = fitted
    found = weighted_coverage(
        held, trust, held.probability, held.labels.astype(float), held.fingerprints, held.distance, BINARY
    )
    assert found["labels"] == 60
    assert found["covered"] >= 0.85
    assert found["effective_rows"] == pytest.approx(60, rel=0.05)


def test_both_tests_together(fitted):
    trust, held = fitted
    parts = {"id_test": slice(0, 20), "ood_test": slice(20, 60)}
    values = [
        {part: of[rows] for part, rows in parts.items()}
        for of in (held.probability, held.labels.astype(float), held.distance, held.fingerprints)
    ]
    found = measured_worth(trust, held, *values, BINARY)
    counts = [
        sum(word["rows"] for word in found["verdicts"][part].values()) for part in ("id_test", "ood_test", "both")
    ]
    assert counts == [20, 40, 60]
    assert found["weighted"].keys() == parts.keys()


def test_graphs_have_no_weighted_sets(fitted):
    trust, held = fitted
    found = measured_worth(
        trust, held, {"id_test": held.probability}, {"id_test": held.labels.astype(float)},
        {"id_test": held.distance}, {}, BINARY,
    )  # fmt: skip
    assert found.keys() == {"verdicts"}
