"""A report as HTML pages: an index, one a suite and one a method; each needs nothing but itself."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from mphil.lab.report.document import Chapter, Document, Drawn, Molecules, Table
from mphil.lab.report.pictures import drawings, svg
from mphil.pages.document import Cell, RowGroup, command, details, page, resource, section, table
from mphil.pages.text import escape

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
    return {
        f"{name}.html": _page("Report", [*map(_chapter, own), *_contents(document)])
        if name == INDEX
        else _page(own[0].title, [*map(_chapter, own)], back=True)
        for name, own in pages.items()
    }


def _page(title: str, parts: Sequence[str], *, back: bool = False) -> str:
    top = f'<nav><a href="{INDEX}.html">Report</a></nav>' if back else "<h1>Report</h1>"
    body = f"<main>{top}{''.join(parts)}</main>"
    return page(title, body, styles=[resource("report.css")], scripts=[resource("sort.js")])


def _contents(document: Document) -> list[str]:
    """The lists of suites and methods, and of what was left out."""
    suites = [chapter for chapter in document.chapters if chapter.page != INDEX]
    parts = []
    for identifier, title, chapters in (("suites", "Suites", suites), ("methods", "Methods", document.cards)):
        links = "".join(
            f'<li><a href="{quote(c.page)}.html#{quote(c.name)}">{escape(c.title)}</a></li>' for c in chapters
        )
        parts += [section(identifier, title, f'<ul class="links">{links}</ul>')] if chapters else []
    if document.problems:
        items = "".join(f"<li>{escape(problem)}</li>" for problem in document.problems)
        parts.append(section("left-out", "Left out", f"<ul>{items}</ul>"))
    return parts


def _chapter(chapter: Chapter) -> str:
    intro = "".join(f"<p>{escape(text)}</p>" for text in chapter.intro)
    runs = "".join(f"<li><p>{escape(what)}</p>{command(line)}</li>" for what, line in chapter.commands)
    unfold = details(f"Commands of {len(chapter.commands)} runs", f'<ul class="commands">{runs}</ul>') if runs else ""
    drawn = [block for block in chapter.blocks if not isinstance(block, Table | Molecules)]
    figures = f'<div class="figures">{"".join(map(_figure, drawn))}</div>' if drawn else ""
    others = [_block(block) for block in chapter.blocks if isinstance(block, Table | Molecules)]
    return section(chapter.name, chapter.title, intro, figures, *others, unfold)


def _figure(block: Drawn) -> str:
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
    size = ("wide" if running else "wide tight") if len(block.header) >= WIDE else ""
    shown = table(what, block.header, [RowGroup(rows)], running=running, kind=f"sortable {size}".strip())
    return details(what, above + shown + notes) if block.folded else above + shown + notes
