from __future__ import annotations

from xml.etree import ElementTree

import pytest

from mphil.errors import DataError
from mphil.pages.elements import LIGHT
from mphil.pages.samples import GraphSample, draw_graph, gallery

SVG = "{http://www.w3.org/2000/svg}"
HOUSE = [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 2), (4, 5), (5, 6)]


def dots(svg: str, colour: str) -> list[ElementTree.Element]:
    groups = ElementTree.fromstring(svg).iter(f"{SVG}g")
    return [c for g in groups if g.get("fill") == LIGHT[colour] for c in g.findall(f"{SVG}circle")]


def segments(svg: str, colour: str) -> int:
    return sum(
        p.get("d", "").count("L")
        for p in ElementTree.fromstring(svg).iter(f"{SVG}path")
        if p.get("stroke") == LIGHT[colour]
    )


def test_highlighted_nodes_and_the_edges_between_them_stand_out():
    svg = draw_graph(7, HOUSE, highlight=range(5))
    assert (len(dots(svg, "vermillion")), len(dots(svg, "slate"))) == (5, 2)
    assert (segments(svg, "vermillion"), segments(svg, "slate")) == (6, 2)


def test_direction_repetition_and_loops_do_not_matter():
    messy = [*HOUSE, *[(b, a) for a, b in HOUSE], (0, 0)]
    assert draw_graph(7, messy) == draw_graph(7, HOUSE)


def test_everything_lies_inside_the_picture():
    for dot in dots(draw_graph(7, HOUSE, size=100), "slate"):
        assert 0 < float(dot.get("cx", "")) < 100
        assert 0 < float(dot.get("cy", "")) < 100


def test_labels_become_tooltips():
    svg = draw_graph(2, [(0, 1)], labels={1: "<C>"})
    assert [t.text for t in ElementTree.fromstring(svg).iter(f"{SVG}title")] == ["node 0", "<C>"]


@pytest.mark.parametrize("n", [0, 1, 2])
def test_tiny_graphs(n):
    assert len(dots(draw_graph(n, []), "slate")) == n


@pytest.mark.parametrize(
    ("edges", "highlight", "message"),
    [
        ([(0, 3)], (), "node 3 of 3"),
        ([(-1, 0)], (), "node -1 of 3"),
        ([(0, 1, 2), (1, 2, 0)], (), "transpose"),
        ([(0, 1)], [5], "highlight names node 5"),
    ],
)
def test_wrong_graphs_are_refused(edges, highlight, message):
    with pytest.raises(DataError, match=message):
        draw_graph(3, edges, highlight=highlight)


def test_gallery_is_one_picture_with_captions():
    svg = gallery(
        [GraphSample(7, HOUSE, range(5), f"house & {i}") for i in range(5)], title="Samples", columns=3, size=100
    )
    root = ElementTree.fromstring(svg)
    texts = [t.text for t in root.iter(f"{SVG}text")]
    places = {g.get("transform") for g in root.iter(f"{SVG}g") if g.get("transform")}
    assert texts == ["Samples", *(f"house & {i}" for i in range(5))]
    assert len(places) == 5
    assert root.get("width") == "300"
    assert len(dots(svg, "vermillion")) == 25


def test_gallery_needs_a_column():
    with pytest.raises(DataError, match="column"):
        gallery([], columns=0)
