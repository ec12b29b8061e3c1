"""A report as one HTML page that needs nothing else."""

from __future__ import annotations

from mphil.lab.report.document import Bars, Chapter, Curves, Document, Molecules, Scatter, Table
from mphil.lab.report.pictures import drawings, svg
from mphil.page.document import Cell, RowGroup, command, details, page, resource, section, table
from mphil.page.text import escape

LONG = 32
"""Letters from which on a cell is running text and may wrap."""
WIDE = 9
"""Columns from which on a table is set smaller, to be seen without scrolling."""


def html(document: Document) -> str:
    """The whole report."""
    links = "".join(f'<li><a href="#{c.name}">{escape(c.title)}</a></li>' for c in document.chapters)
    parts = [f"<h1>Report</h1><nav><ul>{links}</ul></nav>", *map(_chapter, document.chapters)]
    if document.problems:
        items = "".join(f"<li>{escape(problem)}</li>" for problem in document.problems)
        parts.append(section("left-out", "Left out", f"<ul>{items}</ul>"))
    return page("Report", f"<main>{''.join(parts)}</main>", styles=[resource("report.css")])


def _chapter(chapter: Chapter) -> str:
    intro = "".join(f"<p>{escape(text)}</p>" for text in chapter.intro)
    runs = "".join(f"<li><p>{escape(what)}</p>{command(line)}</li>" for what, line in chapter.commands)
    unfold = details(f"Commands of {len(chapter.commands)} runs", f'<ul class="commands">{runs}</ul>') if runs else ""
    drawn = [block for block in chapter.blocks if not isinstance(block, Table | Molecules)]
    figures = f'<div class="figures">{"".join(map(_figure, drawn))}</div>' if drawn else ""
    others = [_block(block) for block in chapter.blocks if isinstance(block, Table | Molecules)]
    return section(chapter.name, chapter.title, intro, *others, figures, unfold)


def _figure(block: Curves | Bars | Scatter) -> str:
    told = f"<figcaption>{escape(block.caption)}</figcaption>" if block.caption else ""
    return f"<figure>{svg(block)}{told}</figure>"


def _block(block: Table | Molecules) -> str:
    if isinstance(block, Molecules):
        return drawings(block)
    # A caption is as wide as its table, which may be wider than the screen: the conditions stand above it.
    what, _, conditions = block.caption.partition("; ")
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in block.notes)
    above = f'<p class="note">{escape(conditions)}</p>' if conditions else ""
    rows = [
        [Cell(text, strong=(number, column) in block.strong) for column, text in enumerate(cells)]
        for number, cells in enumerate(block.rows)
    ]
    running = {column for cells in block.rows for column, text in enumerate(cells) if column and len(text) > LONG}
    # Where there is running text it gives way; where there is none, numbers have to.
    kind = ("wide" if running else "wide tight") if len(block.header) >= WIDE else ""
    return above + table(what, block.header, [RowGroup(rows)], running=running, kind=kind) + notes
