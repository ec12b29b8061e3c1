"""The HTML around the pictures: one file, no request to anywhere, readable by eye, keyboard and screen reader."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib.resources import files

from mphil.pages.palette import stylesheet
from mphil.pages.text import escape


def page(title: str, body: str, *, scripts: Sequence[str] = (), styles: Sequence[str] = ()) -> str:
    """A whole HTML document.

    Its content security policy lists the scripts by their hash and allows nothing else to run or to be fetched, so a
    mistake in a text cannot become a script and the page cannot call home.

    Args:
        title: text of the window title.
        body: HTML of the page.
        scripts: JavaScript run after the body is there.
        styles: CSS of this page, after what all pages share.
    """
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts) or "'none'"
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {hashes}"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>{stylesheet()}\n{resource('style.css')}{''.join(styles)}</style>\n</head>\n<body>\n{body}\n"
        + "".join(f"<script>{script}</script>\n" for script in scripts)
        + "</body>\n</html>\n"
    )


def resource(name: str) -> str:
    """Text of a file that lies beside this module in the package."""
    return files("mphil.pages").joinpath(name).read_text(encoding="utf-8")


def section(identifier: str, heading: str, *content: str) -> str:
    """A part of the page under a second-level heading. `content` is HTML, `heading` is text."""
    return (
        f'<section aria-labelledby="{escape(identifier)}">\n<h2 id="{escape(identifier)}">{escape(heading)}</h2>\n'
        + "\n".join(content)
        + "\n</section>"
    )


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of text; `backquotes` mark code, and one that has no partner is a character like any other."""
    pieces = escape(text).split("`")
    if len(pieces) % 2 == 0:
        last = pieces.pop()
        pieces[-1] += f"`{last}"
    marked = "".join(f"<code>{piece}</code>" if i % 2 else piece for i, piece in enumerate(pieces))
    return f'<p class="{kind}">{marked}</p>' if kind else f"<p>{marked}</p>"


@dataclass(frozen=True)
class Cell:
    """A cell of a table: text, the palette colour of the dot before it, whether it stands out, and a drawing above."""

    text: str
    dot: str = ""
    strong: bool = False
    svg: str = ""


@dataclass(frozen=True)
class RowGroup:
    """Rows that belong together under a heading of their own; the first cell of a row names the row."""

    rows: Sequence[Sequence[str | Cell]]
    heading: str = ""


def table(
    caption: str,
    header: Sequence[str],
    groups: Sequence[RowGroup],
    *,
    numeric_from: int = 1,
    running: Collection[int] = (),
    kind: str = "",
) -> str:
    """A table that scrolls inside itself on a narrow screen.

    Args:
        caption: text above the table, also its name for a screen reader.
        header: column names.
        groups: the rows.
        numeric_from: columns from this one on are set flush right.
        running: columns of running text, which is set flush left and wraps between words, not at a hyphen.
        kind: class of the table for the stylesheet.
    """
    kinds = ["running" if i in running else "number" if i >= numeric_from else "" for i in range(len(header))]
    heads = "".join(f'<th scope="col"{_class(own)}>{escape(n)}</th>' for n, own in zip(header, kinds, strict=True))
    bodies = "".join(_body(group, kinds) for group in groups)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table{_class(kind)}>'
        f"<caption>{escape(caption)}</caption><thead><tr>{heads}</tr></thead>{bodies}</table></div>"
    )


def image(svg: str, alt: str) -> str:
    """An SVG made elsewhere, embedded as an image: nothing in it can run, load, or clash with the page."""
    # ASCII with character references means the same under any encoding the SVG may declare.
    data = base64.b64encode(svg.encode("ascii", "xmlcharrefreplace")).decode()
    return f'<img alt="{escape(alt)}" src="data:image/svg+xml;base64,{data}">'


def facts(entries: Sequence[tuple[str, str]]) -> str:
    """Names and values, one pair a line."""
    return "<dl>" + "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in entries) + "</dl>"


def command(line: str) -> str:
    """A shell command that one click selects."""
    return f'<pre class="command" tabindex="0"><code>{escape(line)}</code></pre>'


def details(summary: str, content: str) -> str:
    """Something to unfold. `content` is HTML."""
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def dot(colour: str) -> str:
    """A coloured disc that ties a name to its lines and bars."""
    return f'<span class="dot" style="background:var(--{colour})" aria-hidden="true"></span>'


def _body(group: RowGroup, kinds: Sequence[str]) -> str:
    rows = []
    if group.heading:
        rows.append(f'<tr><th class="group" scope="rowgroup" colspan="{len(kinds)}">{escape(group.heading)}</th></tr>')
    for row in group.rows:
        cells = [_cell(cell, i, kinds[i]) for i, cell in enumerate(row)]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"<tbody>{''.join(rows)}</tbody>"


def _cell(cell: str | Cell, column: int, kind: str) -> str:
    cell = Cell(cell) if isinstance(cell, str) else cell
    text = _whole_words(cell.text) if kind == "running" else escape(cell.text)
    text = f"<strong>{text}</strong>" if cell.strong else text
    content = (image(cell.svg, cell.text) if cell.svg else "") + (dot(cell.dot) if cell.dot else "") + text
    tag, scope = ("td", "") if column else ("th", ' scope="row"')
    return f"<{tag}{scope}{_class(kind)}>{content}</{tag}>"


def _whole_words(text: str) -> str:
    words = [f"<span>{escape(word)}</span>" if "-" in word else escape(word) for word in text.split(" ")]
    return " ".join(words)


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
