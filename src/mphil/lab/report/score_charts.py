"""Scores as SVG: every seed of every row, and the critical-difference diagram of mean ranks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import mean

from mphil.lab.report.document import Dots, RankDiagram
from mphil.pages.axes import Frame, nice_ticks
from mphil.pages.palette import paint
from mphil.pages.svg import picture
from mphil.pages.text import escape, number

WIDTH, ROW, TOP = 560, 20, 62
LETTER = 6.3
"""Width of a letter of a label; there is no font to measure here."""
MOST_LETTERS = 24
MARKS = ("vermillion", "purple", "green", "amber")
RADIUS = 3.4
BAR = 7
"""Distance of two bars over rows that are not told apart."""


def dots_svg(figure: Dots) -> str:
    """A line of dots for each row; marks are diamonds in the colour of who reports them."""
    every = [value for values in figure.values.values() for value in values]
    every += [value for own in figure.marks.values() for value in own.values()]
    low, high = min(every), max(every)
    margin = 0.06 * (high - low) or 1.0
    left = 8 + LETTER * max(min(MOST_LETTERS, len(row)) for row in figure.values)
    bottom = TOP + ROW * len(figure.values)
    frame = Frame(left, TOP, WIDTH - 44, bottom, (low - margin, high + margin), (0.0, 1.0))
    parts = [text(0, 13, figure.title, "ink", 600, 13), text(0, 31, figure.unit), _legend(figure.marks), _grid(frame)]
    for place, (row, values) in enumerate(figure.values.items()):
        y = TOP + ROW * (place + 0.5)
        parts.append(text(0, y + 4, _short(row), "ink"))
        parts.append(_row(figure, row, frame, y))
        parts.append(text(WIDTH, y + 4, f"{mean(values):.1f}", "ink", anchor="end"))
    said = "; ".join(f"{row} {mean(values):.1f}" for row, values in figure.values.items())
    return picture("".join(parts), (WIDTH, bottom + 24), f"{figure.title}. {said}")


def rank_svg(figure: RankDiagram) -> str:
    """The axis above, names at both sides below, bars over rows that are not told apart."""
    names, worst = list(figure.ranks), math.ceil(max(figure.ranks.values()))
    half = math.ceil(len(names) / 2)
    axis, first = 66, 66 + 12 + BAR * len(figure.groups) + 14
    side = 8 + LETTER * max(min(MOST_LETTERS, len(name)) for name in names) + 30
    frame = Frame(side, axis, WIDTH - side, axis, (1.0, float(max(worst, 2))), (0.0, 1.0))
    ticks = [tick for tick in nice_ticks(*frame.x_range, 8) if tick == int(tick)]
    stubs = "".join(f"M{number(frame.x(tick), 1)} {axis}v-5" for tick in ticks)
    parts = [
        text(0, 13, figure.title, "ink", 600, 13),
        _line(f"M{frame.left:.1f} {axis}H{frame.right:.1f}{stubs}", "muted"),
    ]
    parts += [text(frame.x(tick), axis - 9, number(tick), anchor="middle") for tick in ticks]
    length = min(figure.difference * (frame.right - frame.left) / (frame.x_range[1] - 1), frame.right - frame.left)
    parts.append(_line(f"M{frame.left:.1f} 38h{length:.1f}M{frame.left:.1f} 35v6m{length:.1f} -6v6", "ink"))
    cut = ", cut" if figure.difference > frame.x_range[1] - 1 else ""
    parts.append(
        text(
            frame.left,
            31,
            f"critical difference {figure.difference:.1f}{cut}; a bar joins rows that are not told apart",
        )
    )
    for place, name in enumerate(names):
        rank, on_left = figure.ranks[name], place < half
        y = first + ROW * (place if on_left else len(names) - 1 - place)
        end = frame.left - 12 if on_left else frame.right + 12
        parts.append(_line(f"M{frame.x(rank):.1f} {axis}V{y}H{end:.1f}", "muted", 0.8))
        label = f"{_short(name)} {rank:.1f}"
        parts.append(text(end - 4 if on_left else end + 4, y + 4, label, "ink", anchor="end" if on_left else "start"))
    for place, group in enumerate(figure.groups):
        start, end = frame.x(figure.ranks[group[0]]), frame.x(figure.ranks[group[-1]])
        parts.append(_line(f"M{start - 3:.1f} {axis + 10 + BAR * place}H{end + 3:.1f}", "blue", 3.5))
    said = "; ".join(f"{name} {rank:.1f}" for name, rank in figure.ranks.items())
    return picture("".join(parts), (WIDTH, first + ROW * half), f"{figure.title}. {said}")


def text(
    x: float, y: float, words: str, colour: str = "muted", weight: int = 400, size: int = 11, anchor: str = "start"
) -> str:
    """A label."""
    return (
        f'<text x="{number(x, 1)}" y="{number(y, 1)}" text-anchor="{anchor}" font-weight="{weight}" '
        f'font-size="{size}" {paint(fill=colour)}>{escape(words)}</text>'
    )


def _row(figure: Dots, row: str, frame: Frame, y: float) -> str:
    """The interval, cut at the frame, the seeds, their mean, and the marks, of one row."""
    parts, values = [], figure.values[row]
    if row in figure.intervals:
        ends = [min(max(end, frame.x_range[0]), frame.x_range[1]) for end in figure.intervals[row]]
        parts.append(_line(f"M{frame.x(ends[0]):.1f} {y:.1f}H{frame.x(ends[1]):.1f}", "slate"))
    parts += [
        f'<circle cx="{number(frame.x(value), 1)}" cy="{number(y, 1)}" r="{RADIUS}" fill-opacity="0.55" '
        f"{paint(fill='blue')}><title>{escape(f'{row}: {value:.2f}')}</title></circle>"
        for value in values
    ]
    parts.append(_line(f"M{frame.x(mean(values)):.1f} {y - 6:.1f}v12", "ink", 2))
    for (who, own), colour in zip(figure.marks.items(), _colours(figure.marks), strict=True):
        if row in own:
            parts.append(_diamond(frame.x(own[row]), y, colour, f"{row}, {who}: {own[row]:.2f}"))
    return "".join(parts)


def _legend(marks: Mapping[str, object]) -> str:
    parts, x = [], 0.0
    for who, colour in zip(marks, _colours(marks), strict=True):
        parts.append(_diamond(x + 5, 45, colour, who) + text(x + 14, 49, who))
        x += 30 + LETTER * len(who)
    return "".join(parts)


def _colours(marks: Iterable[str]) -> list[str]:
    return [MARKS[place % len(MARKS)] for place, _ in enumerate(marks)]


def _grid(frame: Frame) -> str:
    ticks = nice_ticks(*frame.x_range, 6)
    lines = "".join(f"M{number(frame.x(tick), 1)} {frame.top}V{frame.bottom}" for tick in ticks)
    labels = "".join(text(frame.x(tick), frame.bottom + 15, number(tick), anchor="middle") for tick in ticks)
    return _line(lines, "rule") + labels


def _diamond(x: float, y: float, colour: str, told: str) -> str:
    path = f"M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z"
    look = f'stroke-width="1.8" {paint(fill="none", stroke=colour)}'
    return f'<path d="{path}" pointer-events="all" {look}><title>{escape(told)}</title></path>'


def _line(path: str, colour: str, width: float = 1.0) -> str:
    return f'<path d="{path}" stroke-width="{width}" {paint(stroke=colour, fill="none")}/>'


def _short(name: str) -> str:
    return name if len(name) <= MOST_LETTERS else name[: MOST_LETTERS - 1] + "…"
