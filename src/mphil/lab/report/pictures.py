"""Figures as SVG."""

from __future__ import annotations

import math

from mphil.chem.draw import molecule_svg
from mphil.lab.report.document import Bars, Curves, Dots, Drawn, Molecules, RankDiagram, Scatter
from mphil.lab.report.score_charts import dots_svg, rank_svg, text
from mphil.pages.document import image
from mphil.pages.palette import CLASSES, paint
from mphil.pages.svg import LETTER, line_chart, picture
from mphil.pages.text import escape, number

ROW, WIDTH, SIDE = 22, 560, 300
MARGINS = 110
"""Height of a chart that its lines cannot use."""
MOST_LETTERS = 22
LEGEND, PER_LINE = 70, 4
"""Room of a class in a legend, and how many stand in a line."""


def svg(figure: Drawn) -> str:
    """A figure as the text of an SVG file."""
    if isinstance(figure, Curves):
        return line_chart(
            figure.series,
            title=figure.title,
            x_label=figure.x_label,
            y_label=figure.y_label,
            x=figure.x,
            errors=figure.errors,
            log=figure.log,
            size=(WIDTH, max(SIDE, MARGINS + ROW * len(figure.series))),
        )
    if isinstance(figure, Dots):
        return dots_svg(figure)
    if isinstance(figure, RankDiagram):
        return rank_svg(figure)
    return _bars(figure) if isinstance(figure, Bars) else _scatter(figure)


def drawings(figure: Molecules) -> str:
    """Molecules as HTML, each with its caption; atoms are shaded from the least to the most important."""
    figures = []
    for smiles, weights, words in figure.drawings:
        low, high = min(weights, default=0.0), max(weights, default=0.0)
        relative = [(weight - low) / (high - low) if high > low else 0.0 for weight in weights]
        drawing = image(molecule_svg(smiles, weights=relative), smiles)
        figures.append(f"<figure>{drawing}<figcaption>{escape(words)}</figcaption></figure>")
    told = f'<p class="note">{escape(figure.caption)}</p>' if figure.caption else ""
    return f'<h3>{escape(figure.title)}</h3>{told}<div class="trio">{"".join(figures)}</div>'


def _bars(figure: Bars) -> str:
    left = LETTER * min(MOST_LETTERS, max(map(len, figure.values)))
    right, top = WIDTH - 90, 44
    ends = [value + figure.errors.get(name, 0.0) for name, value in figure.values.items()]
    scale = (right - left) / (max(ends) or 1.0)
    parts = [text(0, 13, figure.title, "ink", 600), text(0, 31, figure.unit)]
    for row, (name, value) in enumerate(figure.values.items()):
        y, error = top + ROW * row, figure.errors.get(name)
        length = max(0.0, value) * scale
        told = number(value, 2) + (f" ± {number(error, 2)}" if error is not None else "")
        parts.append(text(0, y + 12, name[:MOST_LETTERS]))
        parts.append(
            f'<g><title>{escape(f"{name}: {told}")}</title><rect x="{number(left)}" y="{y}" '
            f'width="{number(length, 1)}" height="{ROW - 6}" rx="1.5" {paint(fill="blue")}/></g>'
        )
        tip = left + length
        if error is not None:
            start, tip = left + max(0.0, value - error) * scale, left + (value + error) * scale
            parts.append(
                f'<path d="M{number(start, 1)} {y + 8}H{number(tip, 1)}" stroke-width="1.3" '
                f"{paint(stroke='ink', fill='none')}/>"
            )
        parts.append(text(tip + 6, y + 12, told, "ink"))
    return picture("".join(parts), (WIDTH, top + ROW * len(figure.values)), figure.title)


def _scatter(figure: Scatter) -> str:
    columns = list(zip(*figure.points, strict=True))
    spans = [(min(column), (max(column) - min(column)) or 1.0) for column in columns]
    classes = sorted(set(figure.labels))
    parts = [text(0, 13, figure.title, "ink", 600)]
    for place, label in enumerate(classes):
        x, y = LEGEND * (place % PER_LINE), 31 + ROW * (place // PER_LINE)
        parts.append(_dot(5 + x, y - 4, label, 4) + text(13 + x, y, f"class {label}", "ink"))
    top = 24 + ROW * math.ceil(len(classes) / PER_LINE)
    for point, label in zip(figure.points, figure.labels, strict=True):
        x, y = (10 + (SIDE - 20) * (value - low) / span for value, (low, span) in zip(point, spans, strict=True))
        parts.append(_dot(x, y + top, label, 2.4))
    return picture("".join(parts), (SIDE, SIDE + top), figure.title)


def _dot(x: float, y: float, label: int, radius: float) -> str:
    """A point of a class; classes beyond the colours are rings."""
    colour = CLASSES[label % len(CLASSES)]
    look = paint(fill=colour) if label < len(CLASSES) else paint(fill="none", stroke=colour)
    return f'<circle cx="{number(x, 1)}" cy="{number(y, 1)}" r="{radius}" {look}/>'
