"""Trees as arrays answer as scikit-learn does."""

import numpy as np
import pytest
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from mphil.errors import IntegrityError
from mphil.model.committee.fitting import constant, from_boosting, from_forest
from mphil.model.committee.trees import Trees

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.integers(0, 4, (300, 10)), RNG.normal(size=(300, 6)) * 1000], axis=1).astype(np.float32)
SCORE = X[:, 0] + X[:, 11] / 700 + RNG.normal(size=300)
CLASSES = np.digitize(SCORE, [0.5, 2.0])
NEW = np.concatenate([X[::3], X[:50] + np.float32(0.5), -X[:50]])


def grown(kind="forest", y=CLASSES, **settings):
    model = {
        "forest": RandomForestClassifier(20, random_state=0, **settings),
        "extra trees": ExtraTreesClassifier(20, random_state=0, **settings),
        "extra regressor": ExtraTreesRegressor(20, random_state=0, **settings),
        "regressor": RandomForestRegressor(20, random_state=0, **settings),
        "boosting": HistGradientBoostingClassifier(max_iter=20, random_state=0, **settings),
        "boosted regressor": HistGradientBoostingRegressor(max_iter=20, random_state=0, **settings),
    }[kind]
    return model.fit(X, y)


@pytest.mark.parametrize("y", [CLASSES, CLASSES > 0], ids=["three classes", "two classes"])
@pytest.mark.parametrize(
    ("kind", "convert"), [("forest", from_forest), ("extra trees", from_forest), ("boosting", from_boosting)]
)
def test_classifiers(kind, convert, y):
    model = grown(kind, y.astype(int))
    trees, wanted = convert(model), model.predict_proba(NEW)
    found = trees.predict(NEW)
    assert trees.classes.tolist() == model.classes_.tolist()
    np.testing.assert_allclose(found, wanted if found.shape[1] > 1 else wanted[:, 1:], rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("kind", "convert"),
    [("regressor", from_forest), ("extra regressor", from_forest), ("boosted regressor", from_boosting)],
)
def test_regressors(kind, convert):
    model = grown(kind, SCORE)
    trees = convert(model)
    np.testing.assert_allclose(trees.predict(NEW)[:, 0], model.predict(NEW), rtol=0, atol=1e-9)
    assert not len(trees.classes)


@pytest.mark.parametrize("rows", [1, 2, 3, 200])
@pytest.mark.parametrize(
    ("kind", "convert", "y"),
    [
        ("forest", from_forest, CLASSES),
        ("boosting", from_boosting, CLASSES),
        ("boosting", from_boosting, CLASSES > 0),
        ("boosted regressor", from_boosting, SCORE),
        ("regressor", from_forest, SCORE),
    ],
)
def test_the_order_of_sums_is_kept(kind, convert, y, rows):
    """Answers of bundles are equal bit for bit: the sums are those over rows of trees, of a copy for every column."""
    trees, x = convert(grown(kind, y)), NEW[:rows]
    added, expected = trees.value[trees.plain_leaves(x)], np.tile(trees.base, (len(x), 1))
    for start in np.unique(trees.column).tolist():
        expected[:, start : start + trees.value.shape[1]] += added[:, trees.column == start].sum(1)
    assert trees._sums(x).tobytes() == expected.tobytes()


def test_values_on_a_threshold_go_the_same_way():
    """Thresholds lie between values of float32, and are kept as float32."""
    x = np.nextafter(np.float32(1), np.float32(np.arange(64) % 2 * 2))[:, None] * np.ones((1, 3), np.float32)
    y = np.arange(64) % 2
    model = RandomForestClassifier(5, random_state=0).fit(x, y)
    np.testing.assert_allclose(from_forest(model).predict(x), model.predict_proba(x), rtol=0, atol=1e-9)


def test_columns_that_were_left_out():
    columns = np.array([0, 3, 11])
    model = RandomForestClassifier(5, random_state=0).fit(X[:, columns], CLASSES)
    found = from_forest(model, columns).predict(NEW)
    np.testing.assert_allclose(found, model.predict_proba(NEW[:, columns]), rtol=0, atol=1e-9)


def test_no_rows_and_no_trees():
    assert from_boosting(grown("boosting")).predict(X[:0]).shape == (0, 3)
    assert constant(np.array([1.0]), np.array([1])).predict(X[:2]).tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize("rows", [1, 15, 16, 17, 200])
@pytest.mark.parametrize(("kind", "convert"), [("forest", from_forest), ("boosting", from_boosting)])
def test_the_compiled_loop_comes_to_the_same_leaves(kind, convert, rows):
    trees = convert(grown(kind))
    new = NEW[:rows].copy()
    new[0, :3] = np.nan  # is at most nothing
    assert np.array_equal(trees._leaves(new), trees.plain_leaves(new))
    assert np.array_equal(trees._leaves(np.asfortranarray(new)), trees.plain_leaves(new))


def test_rows_with_too_few_features():
    with pytest.raises(IndexError):
        from_forest(grown()).predict(NEW[:, :3])


class TestStored:
    def arrays(self, **changed):
        return {**from_forest(grown()).arrays(), **changed}

    def test_there_and_back(self):
        trees = from_forest(grown())
        again = Trees.from_arrays(trees.arrays(), X.shape[1])
        assert np.array_equal(trees.predict(NEW), again.predict(NEW))
        assert again.link == "identity"

    def test_a_circle(self):
        left = self.arrays()["left"].copy()
        left[0] = 0
        with pytest.raises(IntegrityError, match="a node stands before its parent"):
            Trees.from_arrays(self.arrays(left=left), X.shape[1])

    def test_features_that_rows_do_not_have(self):
        with pytest.raises(IntegrityError, match="a feature or a root is out of range"):
            Trees.from_arrays(self.arrays(), 3)

    @pytest.mark.parametrize(
        ("name", "change", "reason"),
        [
            ("threshold", lambda a: np.full_like(a, np.nan), "not finite"),
            ("value", lambda a: a[:5].copy(), "values of a leaf"),
            ("column", lambda a: a + 3, "values of a leaf"),
            ("root", lambda a: a - 1, "out of range"),
            ("right", lambda a: a[:-1], "differ in length"),
            ("base", lambda a: a.astype(np.float32), "base has another type"),
            ("classes", lambda a: a[:1], "columns and the classes"),
            ("link", lambda a: a + 7, "no link"),
        ],
    )
    def test_other_damage(self, name, change, reason):
        with pytest.raises(IntegrityError, match=reason):
            Trees.from_arrays(self.arrays(**{name: change(self.arrays()[name])}), X.shape[1])

    def test_a_missing_array(self):
        arrays = self.arrays()
        del arrays["root"]
        with pytest.raises(IntegrityError, match="not those that are expected"):
            Trees.from_arrays(arrays, X.shape[1])
