"""What held-out graphs teach, and what is measured of it."""

import numpy as np
import pytest

from mphil.model.predictor.asking import Outputs
from mphil.model.product.fitting import ALPHA, BINS, fit_trust, measure
from mphil.task import Task

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
