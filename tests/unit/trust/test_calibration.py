"""Calibration against loops and dense grids, and what must hold for any held-out labels."""

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.isotonic import IsotonicRegression

from mphil.errors import DataError, IntegrityError, UnknownName, UsageError
from mphil.task import Task
from mphil.trust.calibration import PRIOR, TEMPERATURES, Calibration
from mphil.trust.reliability import expected_calibration_error

NAN = math.nan
BINARY = Task("binary", 1, "roc_auc")
THREE = Task("multiclass", 3, "accuracy")
PAIR = Task("multitask", 2, "roc_auc")
few = settings(max_examples=40)
LEVELS = st.sampled_from([-3.0, -1.5, -1.0, 0.0, 0.5, 1.0, 2.0, 4.0])


@st.composite
def held_out(draw, classes=2, values=LEVELS):
    """Logits, with many ties, and labels of at least two classes, some missing."""
    labels = draw(
        st.lists(st.sampled_from([*range(classes), NAN]), min_size=2, max_size=25).filter(
            lambda y: len({v for v in y if v == v}) > 1
        )
    )
    width = 1 if classes == 2 else classes
    logits = draw(arrays.arrays(float, (len(labels), width), elements=values))
    return logits, np.array(labels)[:, None]


def smoothed_loss(logits, labels, classes, temperature):
    """The loss that a temperature minimises, term by term."""
    known = [(row, int(y)) for row, y in zip(logits.tolist(), labels[:, 0].tolist(), strict=True) if y == y]
    counts = [sum(y == c for _, y in known) for c in range(classes)]
    total = 0.0
    for row, y in known:
        scaled = [v / temperature for v in ([0.0, *row] if classes == 2 else row)]
        norm = max(scaled) + math.log(sum(math.exp(v - max(scaled)) for v in scaled))
        for c in range(classes):
            target = (counts[y] + 1 if c == y else 1) / (counts[y] + classes)
            total += target * (norm - scaled[c])
    return total / len(known)


@pytest.mark.parametrize("classes", [2, 3])
@given(st.data())
@few
def test_no_temperature_of_a_grid_is_better(classes, data):
    logits, labels = data.draw(held_out(classes))
    task = BINARY if classes == 2 else THREE
    (found,) = Calibration.fit(logits, labels, task).temperatures
    assert TEMPERATURES[0] <= found <= TEMPERATURES[1]
    loss = smoothed_loss(logits, labels, classes, found)
    grid = np.geomspace(*TEMPERATURES, 60)
    assert loss <= min(smoothed_loss(logits, labels, classes, other) for other in grid) + 1e-9


def test_a_temperature_mends_logits_that_were_multiplied():
    generator = np.random.default_rng(0)
    logits = generator.normal(0, 1.5, (20_000, 1))
    y = (generator.random((20_000, 1)) < 1 / (1 + np.exp(-logits))).astype(float)
    (found,) = Calibration.fit(3 * logits, y, BINARY).temperatures
    assert found == pytest.approx(3, rel=0.05)
    after = Calibration.fit(3 * logits, y, BINARY).apply(3 * logits)
    before = Calibration.fit(3 * logits, y, BINARY, "none").apply(3 * logits)
    assert expected_calibration_error(after, y, BINARY) < 0.02 < expected_calibration_error(before, y, BINARY)


def line_loss(logits, labels, slope, offset):
    """The loss that Platt's line minimises, term by term."""
    total = ((slope - 1) ** 2 + offset**2) / (2 * PRIOR**2)
    for z, y in zip(logits[:, 0].tolist(), labels[:, 0].tolist(), strict=True):
        if y == y:
            said = slope * z + offset
            total += max(said, 0.0) + math.log1p(math.exp(-abs(said))) - y * said
    return total


@given(held_out())
@few
def test_no_line_of_a_grid_is_better(case):
    logits, labels = case
    found = Calibration.fit(logits, labels, BINARY, "platt")
    least = line_loss(logits, labels, 1 / found.temperatures[0], found.offsets[0])
    for slope in np.linspace(0.01, 3, 14):
        for offset in np.linspace(-2, 2, 15):
            assert least <= line_loss(logits, labels, slope, offset) + 1e-9
    for turn in np.linspace(0, 2 * math.pi, 12):  # and the last digits
        slope = max(1 / found.temperatures[0] + 1e-3 * math.cos(turn), 0.01)
        assert least <= line_loss(logits, labels, slope, found.offsets[0] + 1e-3 * math.sin(turn)) + 1e-9


def test_platt_mends_sharpness_and_level_and_few_labels_change_little():
    rng = np.random.default_rng(5)
    true = rng.normal(size=(4000, 1))
    y = (rng.random(true.shape) < 1 / (1 + np.exp(-true))).astype(float)
    found = Calibration.fit(2 * true - 1, y, BINARY, "platt")
    assert (found.temperatures[0], found.offsets[0]) == (pytest.approx(2, rel=0.1), pytest.approx(0.5, abs=0.1))
    few = Calibration.fit(2 * true[:8] - 1, y[:8], BINARY, "platt")
    assert abs(1 / few.temperatures[0] - 1) + abs(few.offsets[0]) < 0.6
    with pytest.raises(UsageError, match="not several classes; use temperature"):
        Calibration.fit([[0.0, 1.0, 2.0]], [[1.0]], THREE, "platt")


def test_few_labels_that_are_all_right_do_not_make_certain():
    calibration = Calibration.fit([[5.0], [-5.0]], [[1.0], [0.0]], BINARY)
    assert calibration.apply([[5.0]])[0, 0] == pytest.approx(2 / 3, abs=1e-6)


@given(held_out(3))
@few
def test_a_temperature_keeps_the_predicted_class(case):
    logits, labels = case
    found = Calibration.fit(logits, labels, THREE).apply(logits)
    assert found.sum(1) == pytest.approx(np.ones(len(logits)))
    for row, chances in zip(logits, found, strict=True):
        for one in range(3):
            for other in range(3):
                assert row[one] < row[other] or chances[one] >= chances[other] - 1e-12


@pytest.mark.parametrize("method", ["temperature", "platt", "isotonic"])
@given(held_out(), st.lists(st.floats(-50, 50), min_size=2, max_size=30))
@few
def test_a_higher_logit_never_has_a_lower_probability(method, case, others):
    calibration = Calibration.fit(*case, BINARY, method)
    found = calibration.apply(np.sort(others)[:, None])[:, 0]
    assert ((found >= 0) & (found <= 1)).all()
    assert all(low <= high + 1e-12 for low, high in pairwise(found.tolist()))


@given(held_out())
@few
def test_isotonic_equals_scikit_learn_between_its_bounds(case):
    logits, labels = case
    known = ~np.isnan(labels[:, 0])
    oracle = IsotonicRegression(out_of_bounds="clip").fit(logits[known, 0], labels[known, 0])
    n, places = int(known.sum()), np.unique(logits[known, 0])
    heights = oracle.predict(places).clip(1 / (n + 2), (n + 1) / (n + 2))
    points = np.linspace(-5, 5, 41)
    found = Calibration.fit(logits, labels, BINARY, "isotonic").apply(points[:, None])[:, 0]
    assert found == pytest.approx(np.interp(points, places, heights), abs=1e-9)


def test_isotonic_ties_count_together():
    logits = [[1.0], [1.0], [1.0], [1.0], [2.0], [2.0]]
    found = Calibration.fit(logits, [[1.0], [0.0], [0.0], [0.0], [1.0], [0.0]], BINARY, "isotonic")
    assert found.apply([[1.0], [2.0], [1.5], [-9.0], [9.0]])[:, 0] == pytest.approx([0.25, 0.5, 0.375, 0.25, 0.5])


def test_isotonic_pools_what_falls():
    """Shares 1/2, 0, 1 at three places: the first two become one of 1/4, and six labels promise no more than 7/8."""
    logits = [[0.0], [0.0], [1.0], [1.0], [2.0], [2.0]]
    found = Calibration.fit(logits, [[1.0], [0.0], [0.0], [0.0], [1.0], [1.0]], BINARY, "isotonic")
    assert found.apply([[0.0], [1.0], [2.0]])[:, 0] == pytest.approx([0.25, 0.25, 7 / 8])


def test_isotonic_with_several_classes_is_a_curve_each_then_a_share():
    generator = np.random.default_rng(1)
    logits = generator.normal(size=(60, 3))
    labels = generator.integers(0, 3, (60, 1)).astype(float)
    labels[:5] = NAN
    found = Calibration.fit(logits, labels, THREE, "isotonic").apply(logits)
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    columns = []
    for c in range(3):
        oracle = IsotonicRegression(out_of_bounds="clip").fit(chances[5:, c], labels[5:, 0] == c)
        knots = np.unique(chances[5:, c])
        heights = oracle.predict(knots).clip(1 / 57, 56 / 57)
        columns.append(np.interp(chances[:, c], knots, heights))
    expected = np.stack(columns, 1)
    assert found == pytest.approx(expected / expected.sum(1, keepdims=True), abs=1e-9)


def test_tasks_are_fitted_by_themselves():
    generator = np.random.default_rng(2)
    logits, y = generator.normal(size=(40, 2)), generator.integers(0, 2, (40, 2)).astype(float)
    y[:7, 0] = NAN
    for method in ("temperature", "platt", "isotonic"):
        both = Calibration.fit(logits, y, PAIR, method).apply(logits)
        for column in (0, 1):
            kept = ~np.isnan(y[:, column])
            alone = Calibration.fit(logits[kept][:, [column]], y[kept][:, [column]], BINARY, method)
            assert (both[:, column] == alone.apply(logits[:, [column]])[:, 0]).all()


@pytest.mark.parametrize("method", ["temperature", "platt", "isotonic", "none"])
@pytest.mark.parametrize(
    ("logits", "y"),
    [
        (np.zeros((0, 2)), np.zeros((0, 2))),
        ([[1.0, -2.0]], [[1.0, 0.0]]),
        ([[1.0, -2.0], [3.0, 0.5]], [[1.0, NAN], [1.0, NAN]]),
    ],
)
def test_without_two_classes_the_probabilities_stay(method, logits, y):
    calibration = Calibration.fit(logits, y, PAIR, method)
    assert calibration.left == (() if method == "none" else (0, 1))
    found = calibration.apply([[1.0, -2.0], [0.0, 800.0]])
    assert found == pytest.approx(np.array([[1 / (1 + math.exp(-1)), 1 / (1 + math.exp(2))], [0.5, 1.0]]))


def test_a_class_that_is_not_held_out_keeps_its_own_probability():
    logits = np.array([[2.0, 0.0, 1.0], [0.0, 2.0, -1.0], [1.0, 0.0, 0.0]])
    calibration = Calibration.fit(logits, [[0.0], [1.0], [0.0]], THREE, "isotonic")
    assert calibration.left == (2,)
    assert calibration.apply(logits).sum(1) == pytest.approx(np.ones(3))


@pytest.mark.parametrize("method", ["temperature", "isotonic"])
def test_constant_scores_say_nothing(method):
    calibration = Calibration.fit([[0.0]] * 4, [[1.0], [0.0], [0.0], [0.0]], BINARY, method)
    assert calibration.apply([[0.0]])[0, 0] == pytest.approx({"temperature": 0.5, "isotonic": 0.25}[method])
    assert calibration.method == "isotonic" or calibration.temperatures == (1.0,)
    several = Calibration.fit([[7.0, 7.0, 7.0]] * 3, [[0.0], [1.0], [2.0]], THREE, method)
    assert several.apply([[7.0, 7.0, 7.0]])[0] == pytest.approx([1 / 3] * 3)


def test_logits_that_are_always_wrong_are_cooled_to_nothing():
    (found,) = Calibration.fit([[3.0], [-3.0]] * 9, [[0.0], [1.0]] * 9, BINARY).temperatures
    assert found == pytest.approx(TEMPERATURES[1])


@pytest.mark.parametrize("method", ["temperature", "platt", "isotonic", "none"])
@pytest.mark.parametrize("task", [BINARY, THREE, PAIR], ids=lambda task: task.kind)
def test_it_comes_back_from_json(method, task):
    if (method, task) == ("platt", THREE):
        pytest.skip("platt is for yes-or-no tasks")
    generator = np.random.default_rng(3)
    logits = generator.normal(size=(30, task.n_outputs))
    y = generator.integers(0, task.n_classes, (30, task.n_tasks)).astype(float)
    y[:, -1] = NAN if task.kind == "multitask" else y[:, -1]
    calibration = Calibration.fit(logits, y, task, method)
    again = Calibration.from_dict(json.loads(json.dumps(calibration.to_dict(), allow_nan=False)))
    assert again == calibration
    assert (again.apply(logits) == calibration.apply(logits)).all()


GOOD = {"method": "temperature", "kind": "binary", "outputs": 1, "temperatures": [1.5], "curves": []}
PLATT = GOOD | {"method": "platt", "offsets": [0.5]}
CURVE = {
    "method": "isotonic",
    "kind": "binary",
    "outputs": 1,
    "temperatures": [],
    "curves": [{"x": [0, 1], "y": [0, 1]}],
}


@pytest.mark.parametrize(
    "values",
    [
        {},
        GOOD | {"temperatures": [0.0]},
        GOOD | {"temperatures": [-1.0]},
        GOOD | {"temperatures": [NAN]},
        GOOD | {"temperatures": [1.0, 1.0]},
        GOOD | {"temperatures": []},
        GOOD | {"method": "plat"},
        GOOD | {"method": "platt"},
        GOOD | {"offsets": [0.5]},
        PLATT | {"offsets": [None]},
        PLATT | {"offsets": [math.inf]},
        PLATT | {"temperatures": [-1.0]},
        PLATT | {"kind": "multiclass", "outputs": 3},
        GOOD | {"kind": "multiclass"},
        GOOD | {"outputs": 0},
        GOOD | {"more": 1},
        CURVE | {"curves": [{"x": [1, 0], "y": [0, 1]}]},
        CURVE | {"curves": [{"x": [0, 1], "y": [1, 0]}]},
        CURVE | {"curves": [{"x": [0, 1], "y": [0, 2]}]},
        CURVE | {"curves": [{"x": [0], "y": [0, 1]}]},
        CURVE | {"curves": [{"x": [], "y": []}]},
        CURVE | {"curves": [{"x": [0, math.inf], "y": [0, 1]}]},
        CURVE | {"temperatures": [1.0]},
        [],
    ],
)
def test_a_spoiled_file_is_refused(values):
    with pytest.raises(IntegrityError, match="stored calibration cannot be used"):
        Calibration.from_dict(values)


def test_good_files_are_not_refused():
    assert Calibration.from_dict(GOOD).apply([[0.0]])[0, 0] == 0.5
    assert Calibration.from_dict(PLATT).apply([[-0.75]])[0, 0] == 0.5
    assert Calibration.from_dict(CURVE).apply([[0.25]])[0, 0] == 0.25


def test_unknown_methods_and_shapes_are_refused():
    with pytest.raises(UnknownName, match="did you mean isotonic"):
        Calibration.fit([[0.0]], [[0.0]], BINARY, "isotnic")
    with pytest.raises(DataError, match="logits have shape"):
        Calibration.fit([[0.0]], [[0.0]], BINARY, "none").apply([[0.0, 1.0]])
