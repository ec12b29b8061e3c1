"""Charts as SVG: scores of methods with a dot per seed, ranks with their critical difference, points over two axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import mean

from mphil.pages.charts import axes, chart, legend, level_line
from mphil.pages.elements import (
    CLASSES,
    SERIES,
    Frame,
    Markup,
    Range,
    element,
    heading,
    label,
    nice_ticks,
    number,
    paint,
    picture,
    rounded,
    stroke,
    tooltip,
)

WIDTH, ROW, TOP = 560, 20, 62
LETTER = 6.3
"""Width of a letter of a label; there is no font to measure here."""
MOST_LETTERS = 24
MARKS = ("vermillion", "purple", "green", "amber")
PARTS = ("blue", "vermillion")
RADIUS = 3.4
BAR = 7
"""Distance of two bars over rows that are not told apart."""
SIDE = 300
LEGEND, PER_LINE = 70, 4
"""Room of a class in a legend, and how many stand in a line."""


def dot_chart(
    values: Mapping[str, Sequence[float]],
    *,
    title: str,
    unit: str,
    intervals: Mapping[str, Range],
    marks: Mapping[str, Mapping[str, float]],
) -> Markup:
    """A line of dots for each row.

    Args:
        values: row to its values.
        title: heading inside the picture.
        unit: of the values.
        intervals: row to the ends of the interval of its mean.
        marks: who reports to row to figure; diamonds in the colour of who reports them.
    """
    every = [value for own in values.values() for value in own]
    every += [value for own in marks.values() for value in own.values()]
    low, high = min(every), max(every)
    margin = 0.06 * (high - low) or 1.0
    left = _room(values)
    bottom = TOP + ROW * len(values)
    frame = Frame(left, TOP, WIDTH - 44, bottom, (low - margin, high + margin), (0.0, 1.0))
    parts = [heading(title), label(0, 31, unit), *_legend(marks), *_grid(frame)]
    for place, (row, own) in enumerate(values.items()):
        y = TOP + ROW * (place + 0.5)
        parts.append(label(0, y + 4, _short(row), "ink"))
        if row in intervals:
            ends = [frame.x(min(max(end, frame.x_range[0]), frame.x_range[1])) for end in intervals[row]]
            parts.append(stroke(f"M{ends[0]:.1f} {y:.1f}H{ends[1]:.1f}", "slate"))
        parts += [_dot(frame.x(value), y, f"{row}: {value:.2f}") for value in own]
        parts.append(stroke(f"M{frame.x(mean(own)):.1f} {y - 6:.1f}v12", "ink", 2))
        for (who, told), colour in zip(marks.items(), _colours(marks), strict=True):
            if row in told:
                parts.append(_diamond(frame.x(told[row]), y, colour, f"{row}, {who}: {told[row]:.2f}"))
        parts.append(label(WIDTH, y + 4, f"{mean(own):.1f}", "ink", anchor="end"))
    said = "; ".join(f"{row} {mean(own):.1f}" for row, own in values.items())
    return picture(*parts, size=(WIDTH, bottom + 24), said=f"{title}. {said}")


def part_chart(
    values: Mapping[str, Sequence[float | None]], parts: Sequence[str], *, title: str, unit: str, width: int = 380
) -> Markup:
    """A row for each model, with a dot for its score on every part.

    Args:
        values: model to its scores, one a part; None leaves the dot out.
        parts: their names.
        title: heading inside the picture.
        unit: of the scores.
        width: in pixels.
    """
    every = [value for own in values.values() for value in own if value is not None] or [0.0, 1.0]
    margin = 0.06 * (max(every) - min(every)) or 0.05
    bottom = TOP + ROW * len(values)
    frame = Frame(_room(values), TOP, width - 8, bottom, (min(every) - margin, max(every) + margin), (0.0, 1.0))
    drawn, x, said = [heading(title), label(0, 31, unit), *_grid(frame)], 0.0, []
    for part, colour in zip(parts, PARTS, strict=False):
        drawn += [_dot(x + 5, 45, part, colour), label(x + 14, 49, part)]
        x += 30 + LETTER * len(part)
    for place, (name, own) in enumerate(values.items()):
        y = TOP + ROW * (place + 0.5)
        drawn.append(label(0, y + 4, _short(name), "ink"))
        for part, value, colour in zip(parts, own, PARTS, strict=False):
            if value is not None:
                said.append(f"{name}, {part}: {value:.2f}")
                drawn.append(_dot(frame.x(value), y, said[-1], colour))
    return picture(*drawn, size=(width, bottom + 24), said=f"{title}. {'; '.join(said)}")


def rank_chart(ranks: Mapping[str, float], *, title: str, difference: float, groups: Sequence[Sequence[str]]) -> Markup:
    """The axis above, names at both sides below, bars over rows that are not told apart.

    Args:
        ranks: row to mean rank, the best first.
        title: heading inside the picture.
        difference: the critical difference.
        groups: rows that lie within it.
    """
    names, worst = list(ranks), math.ceil(max(ranks.values()))
    half = math.ceil(len(names) / 2)
    axis, first = 66, 66 + 12 + BAR * len(groups) + 14
    side = _room(names) + 16 + LETTER * 5  # the name, the gap to the line, and the rank
    frame = Frame(side, axis, WIDTH - side, axis, (1.0, float(max(worst, 2))), (0.0, 1.0))
    ticks = [tick for tick in nice_ticks(*frame.x_range, 8) if tick == int(tick)]
    stubs = "".join(f"M{number(frame.x(tick), 1)} {axis}v-5" for tick in ticks)
    parts = [heading(title), stroke(f"M{frame.left:.1f} {axis}H{frame.right:.1f}{stubs}", "muted")]
    parts += [label(frame.x(tick), axis - 9, number(tick), anchor="middle") for tick in ticks]
    length = min(difference * (frame.right - frame.left) / (frame.x_range[1] - 1), frame.right - frame.left)
    parts.append(stroke(f"M{frame.left:.1f} 38h{length:.1f}M{frame.left:.1f} 35v6m{length:.1f} -6v6", "ink"))
    cut = ", cut" if difference > frame.x_range[1] - 1 else ""
    told = f"critical difference {difference:.1f}{cut}; a bar joins rows that are not told apart"
    parts.append(label(frame.left, 31, told))
    for place, name in enumerate(names):
        rank, on_left = ranks[name], place < half
        y = first + ROW * (place if on_left else len(names) - 1 - place)
        end = frame.left - 12 if on_left else frame.right + 12
        parts.append(stroke(f"M{frame.x(rank):.1f} {axis}V{y}H{end:.1f}", "muted", 0.8))
        x, anchor = (end - 4, "end") if on_left else (end + 4, "start")
        parts.append(label(x, y + 4, f"{_short(name)} {rank:.1f}", "ink", anchor=anchor))
    for place, group in enumerate(groups):
        start, end = frame.x(ranks[group[0]]), frame.x(ranks[group[-1]])
        parts.append(stroke(f"M{start - 3:.1f} {axis + 10 + BAR * place}H{end + 3:.1f}", "blue", 3.5))
    said = "; ".join(f"{name} {rank:.1f}" for name, rank in ranks.items())
    return picture(*parts, size=(WIDTH, first + ROW * half), said=f"{title}. {said}")


def row_chart(values: Mapping[str, float], *, title: str, unit: str, errors: Mapping[str, float]) -> Markup:
    """A bar across for each name.

    Args:
        values: name to length.
        title: heading inside the picture.
        unit: of the values.
        errors: name to half-length of a whisker, for those that have one.
    """
    left, right, top, step = _room(values), WIDTH - 90, 44, ROW + 2
    scale = (right - left) / (max(value + errors.get(name, 0.0) for name, value in values.items()) or 1.0)
    parts = [heading(title), label(0, 31, unit)]
    for row, (name, value) in enumerate(values.items()):
        y, error = top + step * row, errors.get(name)
        length = max(0.0, value) * scale
        told = number(value, 2) + (f" ± {number(error, 2)}" if error is not None else "")
        box = {"x": left, "y": y, "width": length, "height": step - 6, "rx": 1.5}
        parts.append(label(0, y + 12, _short(name)))
        parts.append(element("g", tooltip(f"{name}: {told}"), element("rect", **box, **paint(fill="blue"))))
        tip = left + length
        if error is not None:
            start, tip = left + max(0.0, value - error) * scale, left + (value + error) * scale
            parts.append(stroke(f"M{number(start, 1)} {y + 8}H{number(tip, 1)}", "ink", 1.3))
        parts.append(label(tip + 6, y + 12, told, "ink"))
    return picture(*parts, size=(WIDTH, top + step * len(values)), said=title)


def class_chart(points: Sequence[Sequence[float]], labels: Sequence[int], *, title: str) -> Markup:
    """Points in the plane in the colours of their classes.

    Args:
        points: (n, 2) places, of any scale.
        labels: (n,) class numbers.
        title: heading inside the picture.
    """
    columns = list(zip(*points, strict=True))
    spans = [(min(column), (max(column) - min(column)) or 1.0) for column in columns]
    classes = sorted(set(labels))
    parts, step = [heading(title)], ROW + 2
    for place, own_class in enumerate(classes):
        x, y = LEGEND * (place % PER_LINE), 31 + step * (place // PER_LINE)
        parts += [_point(5 + x, y - 4, own_class, 4), label(13 + x, y, f"class {own_class}", "ink")]
    top = 24 + step * math.ceil(len(classes) / PER_LINE)
    for point, own_class in zip(points, labels, strict=True):
        x, y = (10 + (SIDE - 20) * (value - low) / span for value, (low, span) in zip(point, spans, strict=True))
        parts.append(_point(x, y + top, own_class, 2.4))
    return picture(*parts, size=(SIDE, SIDE + top), said=title)


def _legend(marks: Mapping[str, object]) -> list[Markup]:
    parts, x = [], 0.0
    for who, colour in zip(marks, _colours(marks), strict=True):
        parts += [_diamond(x + 5, 45, colour, who), label(x + 14, 49, who)]
        x += 30 + LETTER * len(who)
    return parts


def _colours(marks: Iterable[str]) -> list[str]:
    return [MARKS[place % len(MARKS)] for place, _ in enumerate(marks)]


def _grid(frame: Frame) -> list[Markup]:
    ticks = nice_ticks(*frame.x_range, 6)
    lines = "".join(f"M{number(frame.x(tick), 1)} {frame.top}V{frame.bottom}" for tick in ticks)
    return [
        stroke(lines, "rule"),
        *(label(frame.x(tick), frame.bottom + 15, number(tick), anchor="middle") for tick in ticks),
    ]


def _dot(x: float, y: float, told: str, colour: str = "blue") -> Markup:
    return element("circle", tooltip(told), cx=x, cy=y, r=RADIUS, fill_opacity=0.55, **paint(fill=colour))


def _point(x: float, y: float, class_number: int, radius: float) -> Markup:
    """A point of a class; classes beyond the colours are rings."""
    colour = CLASSES[class_number % len(CLASSES)]
    look = paint(fill=colour) if class_number < len(CLASSES) else paint(fill="none", stroke=colour)
    return element("circle", cx=x, cy=y, r=radius, **look)


def _diamond(x: float, y: float, colour: str, told: str) -> Markup:
    path = f"M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z"
    look = paint(fill="none", stroke=colour)
    return element("path", tooltip(told), d=path, stroke_width=1.8, pointer_events="all", **look)


def _room(names: Iterable[str]) -> float:
    """Width of a column of names."""
    return 8 + LETTER * max(min(MOST_LETTERS, len(name)) for name in names)


def _short(name: str) -> str:
    return name if len(name) <= MOST_LETTERS else name[: MOST_LETTERS - 1] + "…"


Pairs = tuple[Sequence[float], Sequence[float]]
"""The places of points on the x axis, and on the y axis."""


def scatter_chart(
    series: Mapping[str, Pairs],
    *,
    title: str,
    x_label: str,
    y_label: str,
    diagonal: bool = False,
    level: float | None = None,
    colours: Sequence[str] = SERIES,
    size: tuple[int, int] = (400, 320),
) -> Markup:
    """Small circles, a colour for each series.

    Args:
        series: name to its points.
        title: heading inside the picture.
        x_label: name of the x axis.
        y_label: name of the y axis.
        diagonal: both axes have the same range, and a line shows where both numbers are equal.
        level: height of a line across.
        colours: palette names, in the order of the series.
        size: width and height in pixels.
    """
    across = [value for x, _ in series.values() for value in x]
    up = [value for _, y in series.values() for value in y] + ([] if level is None else [level])
    x_range, y_range = rounded(across), rounded(up)
    if diagonal:
        x_range = y_range = rounded([*across, *up])
    width, height = size
    frame = Frame(44, 74, width - 14, height - 40, x_range, y_range)
    parts = axes(frame, nice_ticks(*x_range), y_label, x_label) + legend(list(series), frame, colours)
    if diagonal:
        parts.append(_dashed(f"M{frame.left} {frame.bottom}L{frame.right} {frame.top}"))
    if level is not None:
        parts.append(_dashed(level_line(frame, level)))
    for place, (x, y) in enumerate(series.values()):
        dots = "".join(
            f"M{number(frame.x(a) - 2, 1)} {number(frame.y(b), 1)}a2 2 0 1 0 4 0a2 2 0 1 0 -4 0"
            for a, b in zip(x, y, strict=True)
        )
        parts.append(element("path", d=dots, fill_opacity=0.6, **paint(fill=colours[place % len(colours)])))
    said = "; ".join(f"{name}: {len(x):,} points" for name, (x, _) in series.items())
    return chart(title, said, parts, size)


def _dashed(path: str) -> Markup:
    return stroke(path, "ink", stroke_dasharray="3 3")
