"""Figures as SVG."""

from __future__ import annotations

from mphil.lab.report.document import Bars, Curves, Dots, Drawn, RankDiagram
from mphil.pages.charts import line_chart
from mphil.pages.score_charts import WIDTH, class_chart, dot_chart, rank_chart, row_chart
from mphil.pages.text import Markup

LINE, LEAST = 22, 300
MARGINS = 110
"""Height of a chart that its lines cannot use."""


def svg(figure: Drawn) -> Markup:
    """A figure as the text of an SVG file."""
    title = figure.title
    if isinstance(figure, Curves):
        return line_chart(
            figure.series,
            title=title,
            x_label=figure.x_label,
            y_label=figure.y_label,
            x=figure.x,
            errors=figure.errors,
            log=figure.log,
            size=(WIDTH, max(LEAST, MARGINS + LINE * len(figure.series))),
        )
    if isinstance(figure, Dots):
        return dot_chart(figure.values, title=title, unit=figure.unit, intervals=figure.intervals, marks=figure.marks)
    if isinstance(figure, RankDiagram):
        return rank_chart(figure.ranks, title=title, difference=figure.difference, groups=figure.groups)
    if isinstance(figure, Bars):
        return row_chart(figure.values, title=title, unit=figure.unit, errors=figure.errors)
    return class_chart(figure.points, figure.labels, title=title)
