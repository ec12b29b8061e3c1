"""What held-out graphs teach, and what it is worth."""

from __future__ import annotations

import numpy as np
import pytest

from mphil.model.bundle import Trust
from mphil.model.bundle.contents import HeldOut
from mphil.model.predictor.asking import Outputs
from mphil.model.product.evaluation import (
    ALPHA,
    BINS,
    fit_trust,
    measure,
    measured_worth,
    verdict_worth,
    weighted_coverage,
)
from mphil.task import Task
from mphil.trust.calibration import Calibration
from mphil.trust.conformal import Conformal
from mphil.trust.ood import Bands

TASK = Task("binary", 1, "roc_auc")


def made(n, seed, shift=0.0, sharpness=3.0):
    """Logits that are `sharpness` times too sure of themselves, labels drawn from the true chances, distances."""
    rng = np.random.default_rng(seed)
    true = rng.normal(size=(n, 1))
    y = (rng.random((n, 1)) < 1 / (1 + np.exp(-true))).astype(float)
    return Outputs(sharpness * true, np.empty((n, 0), np.float32), None), y, rng.normal(shift, 1, n)


def test_an_overconfident_model_is_cooled_and_its_sets_cover():
    held, y, far = made(800, 0)
    trust = fit_trust("id_val", held, y, TASK, "knn", far)
    assert trust.calibration.temperatures[0] == pytest.approx(3.0, rel=0.25)
    assert (trust.fitted_on, trust.left_out, trust.conformal.per_class) == ("id_val", {}, True)
    tested, labels, far = made(2000, 1)
    found = measure(trust, {"id_test": tested}, {"id_test": labels}, {"id_test": far}, TASK)["parts"]["id_test"]
    assert found["calibration_error"]["after"] < found["calibration_error"]["before"] / 2
    assert found["squared_calibration_error"]["after"] < 0.001 < found["squared_calibration_error"]["before"]
    assert found["log_loss"]["after"] < found["log_loss"]["before"]
    assert found["coverage"]["covered"] == pytest.approx(1 - ALPHA, abs=0.03)
    assert all(value == pytest.approx(1 - ALPHA, abs=0.05) for value in found["coverage"]["by_class"])
    shares = [found["domain"][word] / 2000 for word in ("in domain", "borderline", "out of domain")]
    assert shares == [pytest.approx(0.95, abs=0.02), pytest.approx(0.04, abs=0.02), pytest.approx(0.01, abs=0.01)]
    assert sum(found["reliability"]["count"]) == 2000


def test_another_validation_part_helps_to_calibrate_and_to_nothing_else():
    held, y, far = made(200, 0)
    shifted, labels, _ = made(200, 3)
    lower = Outputs(shifted.logits - 2.0, shifted.embedding, None)
    alone = fit_trust("id_val", held, y, TASK, "knn", far)
    both = fit_trust("id_val", held, y, TASK, "knn", far, ("ood_val", lower, labels))
    assert (alone.calibrated_on, both.calibrated_on) == (("id_val",), ("id_val", "ood_val"))
    assert (alone.calibration.method, alone.fitted_on, both.fitted_on) == ("platt", "id_val", "id_val")
    assert both.calibration.offsets[0] > alone.calibration.offsets[0] + 0.1, "there the logits are too low"
    assert both.bands == alone.bands
    several = Task("multiclass", 3, "accuracy")
    rng = np.random.default_rng(0)
    outputs = Outputs(rng.normal(size=(60, 3)), np.empty((60, 0), np.float32), None)
    kinds = rng.integers(0, 3, (60, 1)).astype(float)
    assert fit_trust("id_val", outputs, kinds, several, "knn", far[:60]).calibration.method == "temperature"


def test_the_score_tells_a_shift_and_the_histogram_shows_it():
    held, y, far = made(300, 0)
    trust = fit_trust("id_val", held, y, TASK, "knn", far)
    parts = {"id_test": made(400, 1), "ood_test": made(400, 2, shift=2.0)}
    outputs, labels, distances = ({part: three[i] for part, three in parts.items()} for i in (0, 1, 2))
    found = measure(trust, outputs, labels, distances, TASK)
    inside, outside = distances.values()
    pairs = inside[:, None] < outside[None, :]
    assert found["ood_auroc"] == pytest.approx(pairs.mean())
    assert found["parts"]["ood_test"]["domain"]["in domain"] < found["parts"]["id_test"]["domain"]["in domain"]
    histogram = found["histogram"]
    assert len(histogram["edges"]) == BINS + 1
    assert all(sum(share) == pytest.approx(1) for share in histogram["share"].values())
    centres = np.convolve(histogram["edges"], [0.5, 0.5], "valid")
    means = {part: float(np.dot(centres, share)) for part, share in histogram["share"].items()}
    assert means["ood_test"] - means["id_test"] == pytest.approx(2.0, abs=0.3)


def test_labels_of_one_class_and_none_at_all():
    held, _, far = made(50, 0)
    trust = fit_trust("ood_val", held, np.ones((50, 1)), TASK, "knn", far)
    assert trust.left_out == {"calibration": "there are no labels of two classes in ood_val"}
    assert not trust.conformal.per_class, "a class without labels has no threshold of its own"
    unknown = np.full((50, 1), np.nan)
    nothing = fit_trust("id_val", held, unknown, TASK, "knn", far)
    assert nothing.conformal is None
    assert nothing.left_out["conformal sets"] == "id_val has no labels"
    assert nothing.bands is not None
    found = measure(nothing, {"id_test": held}, {"id_test": unknown}, {"id_test": far}, TASK)
    assert found["parts"]["id_test"]["coverage"] is None
    assert found["parts"]["id_test"]["calibration_error"] == {"before": None, "after": None}


def test_a_few_tasks_that_cannot_be_calibrated():
    task = Task("multitask", 2, "roc_auc")
    rng = np.random.default_rng(0)
    outputs = Outputs(rng.normal(size=(60, 2)), np.empty((60, 0), np.float32), None)
    y = np.stack([rng.integers(0, 2, 60), np.ones(60)], axis=1).astype(float)
    trust = fit_trust("id_val", outputs, y, task, "knn", rng.normal(size=60))
    assert trust.left_out == {"calibration": "1 tasks have no labels of two classes in id_val"}


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
