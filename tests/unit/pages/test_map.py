from __future__ import annotations

import json
import re

import numpy as np
import pytest

from mphil.errors import DataError
from mphil.pages.sphere_map import Cloud, MoleculeMap, legend, molecule_map, sphere, still

DRAWING = '<svg xmlns="http://www.w3.org/2000/svg"><title>{}</title></svg>'
PARTS = [("train", "training", "filled"), ("near", "yours, borderline", "barred"), ("out", "yours, out", "crossed")]


def made(names=("CCO", "CCN", "C"), pictures=4, details=4) -> MoleculeMap:
    cloud = Cloud(np.eye(3), [0, 1, 1], ["train", "near", "out"], np.eye(3)[:1], [1], 1.0, names)
    return MoleculeMap(
        cloud,
        [DRAWING.format(i) for i in range(pictures)],
        [f"detail {i}" for i in range(details)],
        ["off", "on"],
        PARTS,
        "title",
    )


def test_pictures_are_data_not_markup():
    html = molecule_map(made(), identifier="m")
    block = re.search(r"data-pictures>(.*?)</script>", html).group(1)
    assert "<svg" not in block
    shown = json.loads(block)
    assert shown["pictures"] == [DRAWING.format(i) for i in range(4)]
    assert shown["details"] == ["detail 0", "detail 1", "detail 2", "detail 3"]


def test_nobody_leaves_the_data_block():
    bad = "</script><script>bad()</script>"
    view = made(names=(bad, "CCN", "C"))
    view.pictures[0] = view.details[0] = bad
    html = molecule_map(view, identifier="m")
    assert "<script>bad" not in html
    assert json.loads(re.search(r"data-pictures>(.*?)</script>", html).group(1))["details"][0] == bad


def test_the_sphere_knows_names_and_marks():
    html = molecule_map(made(), identifier="m")
    data = json.loads(re.search(r'<script type="application/json">(.*?)</script>', html).group(1))
    assert data["names"] == ["CCO", "CCN", "C"]
    assert data["marks"] == ["filled", "barred", "crossed"]
    assert "Page Down and Page Up" in html


def test_without_names_there_is_nothing_to_walk_through():
    cloud = Cloud(np.eye(3), [0, 1, 1], ["a"] * 3)
    html = sphere(cloud, identifier="s", title="t", class_names=["x", "y"], part_names=[("a", "A")])
    assert "Page Down" not in html


def test_signs_of_parts_differ_in_the_still_picture_and_the_legend():
    view = made()
    names = [(part, name) for part, name, _ in PARTS]
    marks = [mark for *_, mark in PARTS]
    paths = re.findall(r'<path d="([^"]*)"', still(view.cloud, title="t", part_names=names, marks=marks))
    strokes = sorted(path.count("M") - 1 for path in paths)
    assert strokes == [0, 0, 1, 2]
    signs = re.findall(r'data-sphere-part="\d".*?<path d="([^"]*)"', legend(["off"], names, marks=marks))
    assert [sign.count("M") - 1 for sign in signs] == [0, 1, 2]


@pytest.mark.parametrize("counts", [(3, 4), (4, 3)])
def test_everything_has_a_picture_and_a_line(counts):
    with pytest.raises(DataError, match="must be as many"):
        made(pictures=counts[0], details=counts[1])


def test_names_and_marks_must_fit():
    with pytest.raises(DataError, match="2 names"):
        made(names=("C", "CC"))
    with pytest.raises(DataError, match="1 marks for 3 parts"):
        legend(["a"], [(part, name) for part, name, _ in PARTS], marks=["filled"])
