"""Charts as SVG text: lines and bars with honest axes, readable without a legend where there is room."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mphil.errors import DataError
from mphil.pages.elements import (
    SERIES,
    Frame,
    Markup,
    Range,
    Values,
    element,
    heading,
    known,
    label,
    number,
    paint,
    picture,
    rounded,
    span,
    stepped,
    stroke,
    tooltip,
    whole_ticks,
)

LETTER = 7.8
"""Width of a bold letter of the label size in a wide font; there is none to measure here."""
LINE = 14
"""Distance of two lines of label text."""
DASHES = ("", "7 3", "2 4", "9 3 2 3")
"""Strokes that tell lines of the same colour apart."""

Show = Callable[[float], str]


def line_chart(
    series: Mapping[str, Values],
    *,
    title: str,
    x_label: str,
    y_label: str,
    x: Sequence[float] | None = None,
    errors: Mapping[str, Values] | None = None,
    y_range: Range | None = None,
    log: bool = False,
    marks: Mapping[str, float] | None = None,
    colours: Sequence[str] = SERIES,
    show: Show = number,
    size: tuple[int, int] = (360, 250),
) -> Markup:
    """Several lines over a common x axis, each named at its end.

    Args:
        series: name to values, all of the same length; None and NaN leave a gap.
        title: heading inside the picture.
        x_label: name of the x axis.
        y_label: name of the y axis, with its unit.
        x: position of each value; 1, 2, 3, ... when absent.
        errors: name to half-lengths of whiskers, one for each value; None for none.
        y_range: ends of the y axis; the data's, rounded outwards, when absent.
        log: a y axis on which equal factors are equally long, for values above zero.
        marks: name to an x position at which its line gets a ring.
        colours: palette names, in the order of the series.
        show: writes a value in tooltips and in the description.
        size: width and height in pixels.
    """
    lines = {name: [known(v) for v in values] for name, values in series.items()}
    length = max((len(values) for values in lines.values()), default=0)
    places = list(range(1, length + 1)) if x is None else list(x)
    for name, values in lines.items():
        if len(values) != len(places):
            raise DataError(
                f"chart {title!r}: {name} has {len(values)} values for {len(places)} positions on the x axis"
            )
    whiskers = {name: [known(e) for e in (errors or {}).get(name, [None] * len(places))] for name in lines}
    for name, own in whiskers.items():
        if len(own) != len(places):
            raise DataError(f"chart {title!r}: {name} has {len(own)} errors for {len(places)} positions on the x axis")
    ends = _ends(lines, whiskers)
    if log and min(ends, default=1.0) <= 0:
        raise DataError(f"chart {title!r}: {min(ends):g} cannot be drawn on a logarithmic axis; leave log out")
    width, height = size
    room = 14 + LETTER * max((len(name) for name in lines), default=0)
    frame = Frame(
        44,
        44,
        width - room,
        height - 40,
        span(places),
        y_range or (stepped(ends) if log else rounded(ends)),
        log,
    )
    parts = axes(frame, whole_ticks(frame.x_range), y_label, x_label)
    for place, (name, values) in enumerate(lines.items()):
        look = colours[place % len(colours)], DASHES[place // len(colours) % len(DASHES)]
        points = Points(name, places, values, whiskers[name])
        parts += _line(points, frame, look, x_label, show, (marks or {}).get(name))
    parts += _end_labels(lines, frame, colours)
    said = [f"{name} ends at {show(last)}" for name, values in lines.items() if (last := _last(values)) is not None]
    return chart(title, "; ".join(said), parts, size)


def bar_chart(
    groups: Sequence[str],
    series: Mapping[str, Values],
    *,
    title: str,
    y_label: str,
    errors: Mapping[str, Values] | None = None,
    y_range: Range | None = None,
    reference: tuple[str, float] | None = None,
    colours: Sequence[str] = SERIES,
    show: Show = number,
    size: tuple[int, int] = (360, 250),
) -> Markup:
    """Bars in groups, with the value on each and an optional whisker of plus and minus its error.

    Args:
        groups: names along the x axis.
        series: name to one value per group; None and NaN leave the place empty.
        title: heading inside the picture.
        y_label: name of the y axis, with its unit.
        errors: name to one half-length per group.
        y_range: ends of the y axis; zero to the largest value when absent.
        reference: name and height of a dashed line across, for example the score of guessing.
        colours: palette names, in the order of the series.
        show: writes a value on its bar, in tooltips and in the description.
        size: width and height in pixels.
    """
    bars = {name: [known(v) for v in values] for name, values in series.items()}
    whiskers = {name: [known(v) for v in (errors or {}).get(name, [None] * len(groups))] for name in bars}
    for name in bars:
        if not len(bars[name]) == len(whiskers[name]) == len(groups):
            raise DataError(f"chart {title!r}: {name} needs one value and one error for each of {len(groups)} groups")
    width, height = size
    ends = _ends(bars, whiskers)
    room = 8 + (LETTER * len(reference[0]) if reference else 0)
    frame = Frame(44, 74, width - room, height - 26, (0, max(len(groups), 1)), y_range or rounded([0.0, *ends]))
    parts = axes(frame, [], y_label) + legend(list(bars), frame, colours)
    for i, group in enumerate(groups):
        parts.append(label(frame.x(i + 0.5), frame.bottom + 17, group, anchor="middle"))
    thickness = min(0.72 / max(len(bars), 1), 0.34)
    for s, ((name, values), colour) in enumerate(zip(bars.items(), _cycle(colours, len(bars)), strict=True)):
        for g, (value, error) in enumerate(zip(values, whiskers[name], strict=True)):
            if value is not None:
                centre = g + 0.5 + (s - (len(bars) - 1) / 2) * thickness
                parts.append(_bar(frame, centre, thickness * 0.9, value, error, colour, f"{name}, {groups[g]}", show))
    if reference is not None:
        name, level = reference
        parts.append(stroke(level_line(frame, level), "ink", stroke_dasharray="3 3"))
        parts.append(label(frame.right + 4, frame.y(level) + 4, name))
    said = [f"{n}, {g}: {show(v)}" for n in bars for g, v in zip(groups, bars[n], strict=True) if v is not None]
    return chart(title, "; ".join(said), parts, size)


def chart(title: str, summary: str, parts: Sequence[Markup], size: tuple[int, int]) -> Markup:
    """A picture with its title; the summary is what a screen reader adds to it."""
    return picture(heading(title), *parts, size=size, said=f"{title}. {summary}" if summary else title)


def axes(frame: Frame, x_ticks: Sequence[float], y_label: str, x_label: str = "") -> list[Markup]:
    """Rules, ticks and their numbers, and the names of the axes."""
    y_ticks = frame.y_ticks
    digits = max((len(number(t, 6).partition(".")[2]) for t in y_ticks), default=0)
    rows = "".join(f"M{number(frame.left)} {number(frame.y(t))}H{number(frame.right)}" for t in y_ticks)
    stubs = "".join(f"M{number(frame.x(t))} {number(frame.bottom)}v4" for t in x_ticks)
    return [
        stroke(rows, "rule"),
        stroke(f"M{number(frame.left)} {number(frame.bottom)}H{number(frame.right)}{stubs}", "muted"),
        *(label(frame.left - 6, frame.y(t) + 4, f"{t:.{digits}f}", anchor="end") for t in y_ticks),
        *(label(frame.x(t), frame.bottom + 17, number(t), anchor="middle") for t in x_ticks),
        label(0, 31, y_label),
        *([label((frame.left + frame.right) / 2, frame.bottom + 34, x_label, anchor="middle")] if x_label else []),
    ]


@dataclass(frozen=True)
class Points:
    """The values of a line, where they stand, and their whiskers."""

    name: str
    places: Sequence[float]
    values: Values
    errors: Values

    def __iter__(self) -> Iterator[tuple[float, float, float | None]]:
        for place, value, error in zip(self.places, self.values, self.errors, strict=True):
            if value is not None:
                yield place, value, error


def _line(
    points: Points, frame: Frame, look: tuple[str, str], x_label: str, show: Show, mark: float | None
) -> list[Markup]:
    colour, dash = look
    runs = _runs(points.places, points.values, frame)
    path = "".join(f"M{run}" if " " in run else f"M{run}h0" for run in runs)
    whiskers = [_whisker(frame.x(p), frame.y(v - e), frame.y(v + e), colour) for p, v, e in points if e is not None]
    # With whiskers at some values, those without are values too; a value without neighbours has no line to be seen by.
    seen = " ".join(runs).split() if whiskers else [run for run in runs if " " not in run]
    dots = [element("circle", cx=x, cy=y, r=3.5) for x, _, y in (place.partition(",") for place in seen)]
    ring = paint(fill="paper", stroke=colour)
    rings = [
        element("circle", cx=frame.x(p), cy=frame.y(v), r=4.5, stroke_width=2, **ring)
        for p, v, _ in points
        if p == mark
    ]
    targets = [
        element(
            "circle",
            tooltip(f"{points.name}, {x_label} {number(p)}: {_plus_minus(v, e, show)}"),
            class_="hit",
            cx=frame.x(p),
            cy=frame.y(v),
            r=7,
            fill_opacity=0,
        )
        for p, v, e in points
    ]
    ends = {"stroke_linecap": "round", "stroke_linejoin": "round"} | ({"stroke_dasharray": dash} if dash else {})
    marks = element("g", *dots, *targets, **paint(fill=colour))
    return [stroke(path, colour, 2, **ends), *whiskers, *rings, marks]


def _runs(places: Sequence[float], values: Values, frame: Frame) -> list[str]:
    """Stretches of a line without a gap, as path coordinates."""
    runs: list[list[str]] = [[]]
    for place, value in zip(places, values, strict=True):
        if value is None:
            runs.append([])
        else:
            runs[-1].append(f"{number(frame.x(place), 1)},{number(frame.y(value), 1)}")
    return [" ".join(run) for run in runs if run]


def _end_labels(lines: Mapping[str, Values], frame: Frame, colours: Sequence[str]) -> list[Markup]:
    """Names at the line ends, pushed apart where the ends meet; a thin line leads to a name that was pushed far."""
    ends = [
        (frame.y(last), name, colour)
        for (name, values), colour in zip(lines.items(), _cycle(colours, len(lines)), strict=True)
        if (last := _last(values)) is not None
    ]
    ends.sort()
    heights: list[float] = []
    for wanted, _, _ in ends:
        heights.append(max(wanted, heights[-1] + LINE) if heights else wanted)
    lowest = frame.bottom
    for place in reversed(range(len(heights))):
        heights[place] = min(heights[place], lowest)
        lowest = heights[place] - LINE
    parts = []
    for height, (wanted, name, colour) in zip(heights, ends, strict=True):
        if abs(height - wanted) > LINE:
            leader = f"M{number(frame.right, 1)} {number(wanted, 1)}l7 {number(height - wanted, 1)}"
            parts.append(stroke(leader, colour, 0.8))
        parts.append(label(frame.right + 8, height + 4, name, colour, weight=600))
    return parts


def legend(names: Sequence[str], frame: Frame, colours: Sequence[str]) -> list[Markup]:
    """A coloured square and a name for each series, above the plotting area."""
    parts, x = [], frame.left
    for name, colour in zip(names, _cycle(colours, len(names)), strict=True):
        parts.append(element("rect", x=x, y=39, width=9, height=9, rx=1.5, **paint(fill=colour)))
        parts.append(label(x + 14, 47, name, colour, weight=600))
        x += 30 + LETTER * len(name)
    return parts


def _bar(
    frame: Frame, centre: float, width: float, value: float, error: float | None, colour: str, name: str, show: Show
) -> Markup:
    base = frame.y(min(max(0.0, frame.y_range[0]), frame.y_range[1]))
    left, right, tip = frame.x(centre - width / 2), frame.x(centre + width / 2), frame.y(value)
    middle, top = frame.x(centre), min(tip, base)
    box = {"x": left, "y": top, "width": right - left, "height": abs(base - tip), "rx": 1.5}
    parts = [tooltip(f"{name}: {_plus_minus(value, error, show)}"), element("rect", **box, **paint(fill=colour))]
    if error is not None:
        low, high = frame.y(value - error), frame.y(value + error)
        parts.append(_whisker(middle, low, high, "ink"))
        top = min(top, high)
    return element("g", *parts, label(middle, top - 5, show(value), "ink", anchor="middle"))


def _whisker(x: float, low: float, high: float, colour: str) -> Markup:
    caps = "".join(f"M{number(x - 4, 1)} {number(y, 1)}h8" for y in (low, high))
    return stroke(f"M{number(x, 1)} {number(low, 1)}V{number(high, 1)}{caps}", colour, 1.3)


def level_line(frame: Frame, level: float) -> str:
    """The path of a level line."""
    return f"M{number(frame.left)} {number(frame.y(level), 1)}H{number(frame.right)}"


def _plus_minus(value: float, error: float | None, show: Show) -> str:
    return show(value) if error is None else f"{show(value)} ± {show(error)}"


def _ends(lines: Mapping[str, Values], whiskers: Mapping[str, Values]) -> list[float]:
    """How far down and up the values reach with their whiskers."""
    return [
        v + sign * (e or 0.0)
        for name in lines
        for v, e in zip(lines[name], whiskers[name], strict=True)
        if v is not None
        for sign in (-1, 1)
    ]


def _last(values: Values) -> float | None:
    return next((v for v in reversed(values) if v is not None), None)


def _cycle(colours: Sequence[str], count: int) -> list[str]:
    return [colours[i % len(colours)] for i in range(count)]
