"""A report in Markdown with figures beside it, and as HTML pages that need nothing but themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from mphil.chem.draw import molecule_svg
from mphil.lab.report.document import (
    Bars,
    Block,
    Chapter,
    Curves,
    Document,
    Dots,
    Drawn,
    DrawnMolecules,
    RankDiagram,
    ReportTable,
)
from mphil.pages.charts import line_chart
from mphil.pages.elements import Markup, printable
from mphil.pages.score_charts import WIDTH, class_chart, dot_chart, rank_chart, row_chart
from mphil.pages.template import Grid, TableCell, page

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


def markdown(document: Document) -> str:
    """The whole report."""
    parts = ["# Report", *(chapter_text(chapter) for chapter in document.chapters)]
    if document.problems:
        parts.append("## Left out")
        parts.append("\n".join(f"- {escape(problem)}" for problem in document.problems))
    return "\n\n".join(parts) + "\n"


def chapter_text(chapter: Chapter) -> str:
    parts = [f"## {escape(chapter.title)}", *map(escape, chapter.intro)]
    parts += [_block(block, chapter.name, number) for number, block in enumerate(chapter.blocks)]
    if chapter.commands:
        parts += [
            "Commands of the runs:",
            "\n".join(f"    {printable(' '.join(line.split()))}" for _, line in chapter.commands),
        ]
    return "\n\n".join(parts)


def table_text(table: ReportTable) -> str:
    """A table with its caption above and its notes below."""
    lines = [_row(map(escape, table.header)), _row(["---"] * len(table.header))]
    for number, cells in enumerate(table.rows):
        marked = [
            f"**{escape(cell)}**" if (number, column) in table.strong else escape(cell)
            for column, cell in enumerate(cells)
        ]
        lines.append(_row(marked))
    notes = "".join(f"\n\n{escape(note)}" for note in table.notes)
    return f"{escape(table.caption)}.\n\n" + "\n".join(lines) + notes


def figure_file(chapter: str, number: int) -> str:
    """Where the figure of a chapter lies, relative to the report."""
    return f"figures/{chapter}-{number}.svg"


def escape(text: str) -> str:
    """Text that Markdown takes as it stands, also in a cell of a table."""
    return re.sub(r"([\\`*_|<>#\[\]])", r"\\\1", printable(" ".join(text.split())))


def _block(block: Block, chapter: str, number: int) -> str:
    if isinstance(block, ReportTable):
        return table_text(block)
    if isinstance(block, DrawnMolecules):
        lines = [f"- `{smiles}`: {escape(text)}" for smiles, _, text in block.drawings]
        return f"{escape(block.title)} (drawn on the HTML page):\n\n" + "\n".join(lines) + _told(block.caption)
    return f"![{escape(block.title)}]({quote(figure_file(chapter, number))})" + _told(block.caption)


def _told(caption: str) -> str:
    return f"\n\n{escape(caption)}." if caption else ""


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


INDEX = "index"
LONG = 32
"""Letters from which on a cell is running text and may wrap."""
WIDE = 9
"""Columns from which on a table is set smaller, to be seen without scrolling."""


def html(document: Document) -> dict[str, str]:
    """Name of a file to its text."""
    pages: dict[str, list[Chapter]] = {INDEX: []}
    for chapter in (*document.chapters, *document.cards):
        pages.setdefault(chapter.page, []).append(chapter)
    suites = [chapter for chapter in document.chapters if chapter.page != INDEX]
    contents = {"suites": suites, "methods": document.cards, "problems": document.problems}
    return {f"{name}.html": _page(name, own, contents) for name, own in pages.items()}


def _page(name: str, chapters: Sequence[Chapter], contents: Mapping[str, Any]) -> str:
    return page(
        "report",
        "Report" if name == INDEX else chapters[0].title,
        scripts=["sort.js"],
        styles=["report.css"],
        is_index=name == INDEX,
        index=f"{INDEX}.html",
        chapters=[_shown(chapter) for chapter in chapters],
        **contents,
    )


def _shown(chapter: Chapter) -> dict[str, Any]:
    """A chapter for the template: figures first, then everything else in its order."""
    figures = [
        (svg(block), block.caption) for block in chapter.blocks if not isinstance(block, ReportTable | DrawnMolecules)
    ]
    others = [block for block in chapter.blocks if isinstance(block, ReportTable | DrawnMolecules)]
    blocks = [_drawings(one) if isinstance(one, DrawnMolecules) else _table(one) for one in others]
    return {"chapter": chapter, "figures": figures, "blocks": blocks}


def _drawings(block: DrawnMolecules) -> dict[str, Any]:
    """Molecules, each with its caption; atoms are shaded from the least to the most important."""
    drawn = []
    for smiles, weights, words in block.drawings:
        low, high = min(weights, default=0.0), max(weights, default=0.0)
        relative = [(weight - low) / (high - low) if high > low else 0.0 for weight in weights]
        drawn.append((molecule_svg(smiles, weights=relative), smiles, words))
    return {"title": block.title, "caption": block.caption, "drawings": drawn}


def _table(block: ReportTable) -> dict[str, Any]:
    # A caption is as wide as its table, which may be wider than the screen: the conditions stand above it.
    what, _, conditions = block.caption.partition("; ")
    rows = [
        [TableCell(text, strong=(number, column) in block.strong) for column, text in enumerate(cells)]
        for number, cells in enumerate(block.rows)
    ]
    running = {column for cells in block.rows for column, text in enumerate(cells) if column and len(text) > LONG}
    # Where there is running text it gives way; where there is none, numbers have to.
    size = ("wide" if running else "wide tight") if len(block.header) >= WIDE else ""
    grid = Grid(what, block.header, rows, running=running, kind=f"sortable {size}".strip())
    return {"grid": grid, "conditions": conditions, "notes": block.notes, "folded": block.folded}
