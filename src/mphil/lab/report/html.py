"""A report as HTML pages: an index, one a suite and one a method; each needs nothing but itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mphil.chem.draw import molecule_svg
from mphil.lab.report.document import Chapter, Document, DrawnMolecules, ReportTable
from mphil.lab.report.pictures import svg
from mphil.pages.template import Grid, TableCell, page

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
