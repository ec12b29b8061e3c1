"""Points over two measured axes, with the line on which they should lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mphil.pages.axes import Frame, nice_ticks, rounded
from mphil.pages.charts import axes, chart, legend, level_line
from mphil.pages.palette import SERIES, paint
from mphil.pages.svg import element, stroke
from mphil.pages.text import Markup, number

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
