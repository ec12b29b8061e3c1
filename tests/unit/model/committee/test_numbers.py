"""Members of a regression: trees on standardised numbers, weights of least squared error, who is best."""

import numpy as np
import pytest
from scipy.optimize import minimize

from mphil.chem.describe import COUNTS, DESCRIPTORS
from mphil.errors import IntegrityError
from mphil.model.bundle.members_file import parse_trees, tree_tensors
from mphil.model.committee.fitting import fit_trees, probabilities
from mphil.model.committee.trees import TREE_KINDS, MoleculeFeatures
from mphil.model.committee.weights import as_logits, fit_weights
from mphil.model.product.joining import COMMITTEE, beside_baselines, standing
from mphil.task import Task

TASK = Task("regression", 2, "r2", (100.0, -5.0), (20.0, 2.0))
ONE = Task("regression", 1, "rmse", (6.0,), (2.0,))
NAN = float("nan")


@pytest.fixture(scope="module")
def molecules():
    rng = np.random.default_rng(0)
    counts = np.zeros((120, COUNTS), np.uint8)
    counts[:, :20] = rng.integers(0, 3, (120, 20))
    features = MoleculeFeatures(counts, rng.normal(size=(120, DESCRIPTORS)).astype(np.float32))
    first = 100 + 20 * features.descriptors[:, 0]
    y = np.stack([first, np.where(np.arange(120) % 3, NAN, -5.0)], axis=1).astype(np.float64)
    return features, y


@pytest.mark.parametrize("kind", TREE_KINDS)
def test_trees_learn_numbers_and_survive_a_file(kind, molecules):
    features, y = molecules
    trees = fit_trees(kind, features, y, TASK, seed=0)
    found = TASK.to_units(probabilities(trees, features.matrix(), TASK))
    assert found.shape == (120, 2)
    assert np.corrcoef(found[:, 0], y[:, 0])[0, 1] > 0.8
    assert found[:, 0].mean() == pytest.approx(100, abs=5)
    np.testing.assert_allclose(found[:, 1], -5.0)  # all labels alike: nothing to tell apart
    tensors = tree_tensors(trees)
    again = parse_trees(dict(tensors), TASK)
    x = features.matrix()
    np.testing.assert_array_equal(probabilities(again, x, TASK), probabilities(trees, x, TASK))
    with pytest.raises(IntegrityError, match="classes"):
        parse_trees(dict(tensors), Task("multitask", 2, "roc_auc"))


def test_trees_of_classes_are_no_regression(molecules):
    features, _ = molecules
    labels = (features.descriptors[:, :1] > 0).astype(np.float64)
    trees = fit_trees("forest", features, labels, Task("binary", 1, "roc_auc"), seed=0)
    with pytest.raises(IntegrityError, match="the trees of a regression have classes"):
        parse_trees(tree_tensors(trees), ONE)


def said_by(errors, y):
    """(m, n, 1) outputs of members with these errors, in standard deviations."""
    return ONE.from_units(y)[None] + errors[..., None]


def parts(n, seed=0):
    rng = np.random.default_rng(seed)
    y = 6 + 2 * rng.normal(size=(n, 1))
    common = rng.normal(size=n)
    errors = np.stack([0.3 * rng.normal(size=n), 0.5 * common, 0.5 * common + 0.4 * rng.normal(size=n)])
    return said_by(errors, y), y


def test_weights_are_those_of_least_squared_error():
    said, y = parts(400)
    errors = said[..., 0] - ONE.from_units(y)[:, 0]
    products = errors @ errors.T / 400
    bounds, total = [(0, 1)] * 3, {"type": "eq", "fun": lambda w: w.sum() - 1}
    wanted = minimize(lambda w: w @ products @ w, np.full(3, 1 / 3), bounds=bounds, constraints=total, tol=1e-12).x
    np.testing.assert_allclose(fit_weights([(said, y)], ONE, prior=0.0), wanted, atol=1e-4)


def test_few_labels_move_the_weights_little():
    plain = np.full(3, 1 / 3)
    gaps = [np.abs(fit_weights([parts(n)], ONE) - plain).max() for n in (0, 5, 5_000)]
    assert gaps[0] == 0
    assert gaps[0] < gaps[1] < gaps[2]
    assert gaps[1] < 0.15
    said, y = parts(50)
    assert fit_weights([(said, np.full_like(y, NAN))], ONE) == pytest.approx(plain)
    assert fit_weights([(said, y)], ONE).sum() == pytest.approx(1)


def test_numbers_are_no_logits():
    numbers = np.array([[-3.0], [7.0]])
    assert as_logits(numbers, "regression") is numbers


def test_the_lowest_error_is_best():
    y = 6 + 2 * np.random.default_rng(1).normal(size=(200, 1))
    right, wrong = ONE.from_units(y), ONE.from_units(y) + 1.0
    told = standing("ood_test", {"a": wrong, COMMITTEE: right + 0.1}, y, ONE)
    assert (told["best"], told["second"], told["clear"]) == (COMMITTEE, "a", True)
    assert "committee (0.200), 1.800 below a (2.000); 95 % interval" in told["sentence"]
    told = standing("ood_test", {"a": right + 0.1, COMMITTEE: wrong}, y, ONE)
    assert told["best"] == "a"


def test_a_better_baseline_is_named():
    task = Task("binary", 1, "roc_auc")
    scores = {"random forest": {"ood_test": 0.9}, "erm": {"ood_test": None}, "mphil+": {"ood_test": 0.8}}
    told = beside_baselines(scores, task)
    assert told["best"] == "random forest"
    assert told["sentence"].startswith(
        "best on ood-test: random forest (0.900), 0.100 above mphil+ (0.800); the bundle"
    )
    assert "the bundle holds mphil+" in told["sentence"]
    ahead = beside_baselines(scores | {"mphil+": {"ood_test": 0.95}}, task)
    assert ahead["sentence"] == "best on ood-test: mphil+ (0.950), 0.050 above random forest (0.900)"
    errors = beside_baselines({"a": {"ood_test": 2.0}, "b": {"ood_test": 1.0}}, Task("regression", 1, "rmse"))
    assert (errors["best"], errors["difference"]) == ("b", 1.0)
    assert beside_baselines({"mphil+": {"ood_test": 0.8}}, task) is None
    assert beside_baselines({}, task) is None
