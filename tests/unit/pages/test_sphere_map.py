from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.errors import DataError
from mphil.pages.sphere_map import FRONT, Cloud, legend, sphere, still, to_sphere3

PARTS = [("id_test", "ID test"), ("ood_test", "OOD test")]


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 30), st.integers(0, 5), st.integers(1, 20), st.integers(0, 1000))
def test_places_are_on_the_sphere_and_the_share_is_a_share(n, m, p, seed):
    generator = np.random.default_rng(seed)
    points, stars, explained = to_sphere3(generator.standard_normal((n, p)), generator.standard_normal((m, p)))
    assert points.shape == (n, 3)
    assert stars.shape == (m, 3)
    np.testing.assert_allclose(np.linalg.norm(np.concatenate([points, stars]), axis=1), 1, atol=1e-9)
    assert 0 <= explained <= 1
    assert p > 3 or explained == pytest.approx(1)


def test_three_dimensions_are_kept_as_they_are():
    vectors = np.random.default_rng(0).standard_normal((20, 3))
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    points, stars, explained = to_sphere3(5 * vectors, units[:4])
    np.testing.assert_allclose(points @ points.T, units @ units.T, atol=1e-9)
    np.testing.assert_allclose(points @ stars.T, units @ units[:4].T, atol=1e-9)
    assert explained == pytest.approx(1)


def test_share_is_the_variance_of_the_kept_axes():
    generator = np.random.default_rng(1)
    vectors = generator.standard_normal((50, 8)) * np.array([9, 5, 3, 1, 1, 0.5, 0.2, 0.1])
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    values, axes = np.linalg.eigh(units.T @ units)
    kept = units @ axes[:, np.argsort(values)[-3:]]
    expected = kept.var(axis=0).sum() / units.var(axis=0).sum()
    assert to_sphere3(vectors)[2] == pytest.approx(expected)


def test_the_crowd_faces_the_reader():
    crowd = np.array([0.0, 0.0, -5.0, 0.0]) + 0.3 * np.random.default_rng(2).standard_normal((40, 4))
    points, _, _ = to_sphere3(crowd)
    assert points[:, 2].min() > 0.8


def test_a_vector_without_direction_stays_in_the_middle():
    points, _, explained = to_sphere3(np.zeros((2, 5)))
    np.testing.assert_array_equal(points, 0)
    assert explained == 1


@pytest.mark.parametrize("bad", [np.empty((0, 3)), np.ones(3), [[np.nan, 1.0]], [[np.inf, 1.0]]])
def test_unusable_embeddings_are_refused(bad):
    with pytest.raises(DataError):
        to_sphere3(bad)


def test_first_view_is_nearly_a_rotation():
    np.testing.assert_allclose(np.array(FRONT) @ np.array(FRONT).T, np.eye(3), atol=0.03)
    assert np.linalg.det(FRONT) > 0


@pytest.mark.parametrize(
    "arguments",
    [
        (np.eye(3), [0, 1], ["id_test"] * 3),
        (np.eye(3), [0, 1, 0], ["id_test"] * 2),
        (np.eye(3), [0, 1, 0], ["id_test"] * 3, np.eye(3), [1]),
        (np.eye(2), [0, 1], ["id_test"] * 2),
    ],
)
def test_clouds_must_fit_together(arguments):
    with pytest.raises(DataError, match="sphere"):
        Cloud(*arguments)


def figure(names=("off", "on")) -> str:
    cloud = Cloud(np.eye(3), [0, 1, 1], ["id_test", "ood_test", "id_test"], np.eye(3)[:1], [1], 0.613)
    return sphere(cloud, identifier="s", title="ERM", class_names=names, part_names=PARTS)


def test_figure_carries_its_data():
    data = json.loads(re.search(r'<script type="application/json">(.*?)</script>', figure()).group(1))
    assert data["points"] == np.eye(3).tolist()
    assert data["classes"] == [0, 1, 1]
    assert data["parts"] == [0, 1, 0]
    assert data["prototypeClasses"] == [1]
    assert data["partNames"] == ["ID test", "OOD test"]


def test_figure_says_what_it_hides():
    assert "keep 61&nbsp;% of the variance" in figure()


def test_class_names_cannot_leave_the_data_block():
    html = figure(names=("</script><script>bad()", "on"))
    assert "<script>bad" not in html
    data = json.loads(re.search(r'<script type="application/json">(.*?)</script>', html).group(1))
    assert data["classNames"][0] == "</script><script>bad()"


def test_still_picture_shows_hollow_and_filled_signs_and_a_star_last():
    cloud = Cloud(np.eye(3), [0, 1, 1], ["id_test", "ood_test", "id_test"], np.array([[0, 0, 1.0]]), [1])
    svg = still(cloud, title="t", part_names=PARTS)
    paths = re.findall(r"<path [^>]*>", svg)
    assert len(paths) == 4
    assert sum('fill="none"' in path for path in paths) == 1
    assert paths[-1].count("L") == 9


def test_legend_explains_only_what_is_there():
    assert "prototype" in legend(["a"], PARTS)
    assert "prototype" not in legend(["a"], PARTS, stars="")
    assert legend(["a", "b"], PARTS).count("data-sphere-part") == 2


@pytest.mark.parametrize(("classes", "parts", "message"), [([2], ["id_test"], "class 2"), ([0], ["train"], "'train'")])
def test_what_has_no_name_is_refused(classes, parts, message):
    cloud = Cloud(np.eye(3)[:1], classes, parts)
    with pytest.raises(DataError, match=message):
        sphere(cloud, identifier="s", title="ERM", class_names=["off", "on"], part_names=PARTS)
