"""A report in Markdown; figures are files beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote

from mphil.lab.report.document import Block, Chapter, Document, DrawnMolecules, ReportTable
from mphil.pages.text import printable


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
