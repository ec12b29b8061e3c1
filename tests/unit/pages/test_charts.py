from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.errors import DataError
from mphil.pages.charts import LINE, bar_chart, line_chart
from mphil.pages.elements import nice_ticks

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '<script>alert("1")</script>&\x00'
finite = st.floats(-1e6, 1e6)


def tree(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def lines(svg: str) -> list[str]:
    """The paths of the series."""
    return [p.get("d", "") for p in tree(svg).iter(f"{SVG}path") if p.get("stroke-width") == "2"]


def draw(series, **options):
    return line_chart(series, title="t", x_label="epoch", y_label="score", **options)


@settings(max_examples=80, deadline=None)
@given(finite, st.floats(1e-3, 1e6), st.integers(2, 8))
def test_ticks_are_round_even_and_inside(low, length, count):
    high = low + length
    ticks = nice_ticks(low, high, count)
    steps = [b - a for a, b in pairwise(ticks)]
    assert 2 <= len(ticks) <= max(count, 5) + 1
    assert all(low - 1e-6 * length <= t <= high + 1e-6 * length for t in ticks)
    assert f"{steps[0]:.0e}"[0] in "125"
    assert max(steps) - min(steps) < 1e-6 * max(abs(high), abs(low), 1)


def test_ticks_of_a_point():
    assert nice_ticks(3, 3) == [3]


def test_line_follows_its_numbers():
    (path,) = lines(draw({"a": [0.0, 0.5, 1.0]}, y_range=(0, 1), size=(360, 250)))
    points = [tuple(map(float, p.split(","))) for p in re.findall(r"[\d.]+,[\d.]+", path)]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x1 == pytest.approx((x0 + x2) / 2, abs=0.1)
    assert y1 == pytest.approx((y0 + y2) / 2, abs=0.1)
    assert x0 < x2
    assert y0 > y2


def test_missing_values_leave_a_gap_and_a_lone_value_stays_visible():
    (path,) = lines(draw({"a": [0.1, 0.2, None, float("nan"), 0.3, None, 0.4, 0.5]}))
    assert [len(run.split()) for run in path.split("M")[1:]] == [2, 1, 2]
    assert path.count("h0") == 1


def circles(svg: str, radius: str) -> list[ElementTree.Element]:
    return [c for c in tree(svg).iter(f"{SVG}circle") if c.get("r") == radius]


def test_a_value_without_neighbours_is_a_dot():
    assert len(circles(draw({"a": [0.1, 0.2, None, 0.3], "b": [None, None, None, 0.4]}), "3.5")) == 2
    assert not circles(draw({"a": [0.1, 0.2]}), "3.5")


def test_whiskers_of_a_line_reach_up_and_down_by_the_error():
    chart = draw({"a": [2.0, 4.0, 3.0]}, errors={"a": [1.0, None, 2.0]}, y_range=(0, 8))
    stems = [p.get("d", "") for p in tree(chart).iter(f"{SVG}path") if p.get("stroke-width") == "1.3"]
    ends = [tuple(map(float, re.match(r"M[\d.]+ ([\d.]+)V([\d.]+)", d).groups())) for d in stems]
    heights = [low - high for low, high in ends]
    assert (len(ends), len(circles(chart, "3.5"))) == (2, 3)
    assert heights[1] == pytest.approx(2 * heights[0], abs=0.3)
    assert "a, epoch 1: 2 ± 1" in chart
    assert all(low <= 250 - 40 for low, _ in ends)
    with pytest.raises(DataError, match="a has 1 errors for 2 positions"):
        draw({"a": [1, 2]}, errors={"a": [1]})


def test_equal_factors_are_equally_high_on_a_logarithmic_axis():
    (path,) = lines(draw({"a": [1.0, 2.0, 4.0]}, log=True))
    first, second, third = (float(p.split(",")[1]) for p in re.findall(r"[\d.]+,[\d.]+", path))
    assert first - second == pytest.approx(second - third, abs=0.2)
    shown = [t.text for t in tree(draw({"a": [0.7, 13.0]}, log=True)).findall(f"{SVG}text")]
    assert [text for text in ("0.5", "1.0", "2.0", "5.0", "10.0", "20.0") if text in shown] == shown[1:7]
    with pytest.raises(DataError, match="0 cannot be drawn on a logarithmic axis"):
        draw({"a": [0.0, 1.0]}, log=True)


def test_lines_of_the_same_colour_differ_in_their_dashes():
    chart = draw({f"s{n:02d}": [n, n + 1] for n in range(14)})
    looks = [
        (p.get("stroke"), p.get("stroke-dasharray"))
        for p in tree(chart).iter(f"{SVG}path")
        if p.get("stroke-width") == "2"
    ]
    assert len(set(looks)) == 14
    assert looks[0][1] is None


def test_tooltips_name_series_position_and_value():
    titles = [t.text for t in tree(draw({"mphil": [0.25, None, 0.75]}, x=[10, 20, 30])).iter(f"{SVG}title")]
    assert titles == ["mphil, epoch 10: 0.25", "mphil, epoch 30: 0.75"]


def test_labels_of_lines_that_end_together_are_apart():
    texts = [t for t in tree(draw({n: [0.5, 0.5] for n in "abc"})).iter(f"{SVG}text") if t.text in ("a", "b", "c")]
    heights = sorted(float(t.get("y", "")) for t in texts)
    assert all(b - a >= LINE - 0.1 for a, b in pairwise(heights))
    assert heights[-1] <= 250
    far = draw({"top": [1, 1], **{n: [0, 0] for n in "abc"}})
    (top,) = [float(t.get("y", "")) for t in tree(far).iter(f"{SVG}text") if t.text == "top"]
    assert top == pytest.approx(44 + 4)  # where its line ends: it need not give way


def test_mark_puts_one_ring_on_its_line():
    assert len(circles(draw({"a": [0, 1], "b": [1, 0]}, marks={"b": 2}), "4.5")) == 1


@pytest.mark.parametrize("series", [{}, {"a": []}, {"a": [None]}, {"a": [0.5]}, {"a": [7, 7, 7]}, {"a": [0, 0]}])
def test_odd_data_still_make_a_picture(series):
    assert "nan" not in draw(series).lower().replace("nano", "")
    tree(draw(series))


def test_unequal_lengths_are_refused():
    with pytest.raises(DataError, match=r"b has 1 values for 2 positions"):
        draw({"a": [1, 2], "b": [1]})


def test_text_from_outside_is_harmless():
    chart = line_chart({HOSTILE: [1, 2]}, title=HOSTILE, x_label=HOSTILE, y_label=HOSTILE)
    bars = bar_chart([HOSTILE], {HOSTILE: [1]}, title=HOSTILE, y_label=HOSTILE, reference=(HOSTILE, 0.5))
    for svg in (chart, bars):
        assert "<script" not in svg
        assert not list(tree(svg).iter(f"{SVG}script"))


def bars(svg: str) -> list[dict[str, str]]:
    return [dict(r.attrib) for g in tree(svg).iter(f"{SVG}g") for r in g.findall(f"{SVG}rect")]


def test_bars_start_at_zero_and_grow_with_the_value():
    drawn = bars(bar_chart(["x", "y"], {"a": [1.0, 2.0], "b": [4.0, None]}, title="t", y_label="v"))
    heights = [float(bar["height"]) for bar in drawn]
    assert len(heights) == 3
    assert heights[1] == pytest.approx(2 * heights[0], abs=0.2)
    assert heights[2] == pytest.approx(4 * heights[0], abs=0.3)
    assert len({round(float(bar["y"]) + float(bar["height"])) for bar in drawn}) == 1


def test_negative_bars_hang_from_zero():
    up, down = bars(bar_chart(["x", "y"], {"a": [2.0, -2.0]}, title="t", y_label="v"))
    assert float(up["height"]) == pytest.approx(float(down["height"]), abs=0.2)
    assert float(down["y"]) == pytest.approx(float(up["y"]) + float(up["height"]), abs=0.2)


def test_error_bars_are_said_and_drawn():
    with_error = bar_chart(["x"], {"a": [2.0]}, errors={"a": [0.5]}, title="t", y_label="v")
    without = bar_chart(["x"], {"a": [2.0]}, title="t", y_label="v")
    assert "a, x: 2 ± 0.5" in with_error
    assert with_error.count("<path") == without.count("<path") + 1


def test_bars_need_a_value_for_each_group():
    with pytest.raises(DataError, match="each of 2 groups"):
        bar_chart(["x", "y"], {"a": [1]}, title="t", y_label="v")
