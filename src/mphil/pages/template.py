"""Pages from the templates of this folder: one file each, no request to anywhere, all text escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from mphil.pages.elements import Markup, printable, stylesheet

if TYPE_CHECKING:
    from jinja2 import Environment


def page(template: str, title: str, *, scripts: Sequence[str] = (), styles: Sequence[str] = (), **values: Any) -> str:
    """A whole HTML document.

    Its content security policy lists the scripts by their hash and allows nothing else to run or to be fetched, so a
    mistake in a text cannot become a script and the page cannot call home.

    Args:
        template: name of a template that extends `layout.html`, without its ending.
        title: text of the window title.
        scripts: files of this folder that run after the body is there.
        styles: files of this folder with the CSS of this page, after what all pages share.
        values: what the template shows.
    """
    run = [resource(name) for name in scripts]
    style = "".join([stylesheet(), "\n", *(resource(name) for name in ("style.css", *styles))])
    shared = {"title": title, "style": Markup(style), "scripts": run, "digests": [_digest(script) for script in run]}
    return _environment().get_template(f"{template}.html").render(shared, **values)


def fragment(template: str, **values: Any) -> Markup:
    """A piece of HTML for another template."""
    return Markup(_environment().get_template(f"{template}.html").render(**values))


def resource(name: str) -> Markup:
    """Text of a script or style sheet of this folder."""
    return Markup(files("mphil.pages").joinpath(name).read_text(encoding="utf-8"))


@dataclass(frozen=True)
class TableCell:
    """A cell of a table: text, the palette colour of the dot before it, whether it stands out, and a drawing above."""

    text: str
    dot: str = ""
    strong: bool = False
    svg: str = ""

    def __str__(self) -> str:
        return self.text


Rows = Sequence[Sequence[str | TableCell]]


@dataclass(frozen=True)
class Grid:
    """A table that scrolls inside itself on a narrow screen.

    Attributes:
        caption: text above the table, also its name for a screen reader.
        header: column names.
        rows: the rows, the first cell of which names the row; or heading to rows, where they stand in groups.
        numeric_from: columns from this one on are set flush right.
        running: columns of running text, which is set flush left and wraps between words, not at a hyphen.
        kind: class of the table for the stylesheet.
    """

    caption: str
    header: Sequence[str]
    rows: Rows | Mapping[str, Rows]
    numeric_from: int = 1
    running: Collection[int] = ()
    kind: str = ""

    @property
    def groups(self) -> Mapping[str, Rows]:
        return self.rows if isinstance(self.rows, Mapping) else {"": self.rows}

    @property
    def kinds(self) -> list[str]:
        """The class of the cells of each column."""
        numeric = ["number" if column >= self.numeric_from else "" for column in range(len(self.header))]
        return ["running" if column in self.running else kind for column, kind in enumerate(numeric)]


@dataclass(frozen=True)
class Section:
    """A part of a page that is made of text, numbers and charts.

    Attributes:
        name: unique on the page.
        heading: of the second level.
        texts: paragraphs.
        facts: names and values.
        beside: a table with a chart next to it.
        tables: tables by themselves.
        charts: charts side by side.
        notes: paragraphs in small print.
        settings: names and values to unfold.
        commands: shell commands.
    """

    name: str
    heading: str
    texts: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    beside: tuple[Grid, Markup] | None = None
    tables: Sequence[Grid] = ()
    charts: Sequence[Markup] = ()
    notes: Sequence[str] = ()
    settings: Sequence[tuple[str, str]] = ()
    commands: Sequence[str] = ()


@cache
def _environment() -> Environment:
    # Only when there is a page to write: it takes a twentieth of a second.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("mphil.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"data_url": data_url, "code_pieces": code_pieces, "thousands": "{:,}".format}
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return made


def data_url(svg: str) -> str:
    """The address of an SVG made elsewhere, as an image: nothing in it can run, load, or clash with the page."""
    # ASCII with character references means the same under any encoding the SVG may declare.
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode("ascii", "xmlcharrefreplace")).decode()


def code_pieces(text: str) -> list[str]:
    """Text between backquotes, which mark code, at odd places; one without a partner is a character like any other.

    Example:
        >>> code_pieces("use `a` or ` here")
        ['use ', 'a', ' or ` here']
    """
    pieces = text.split("`")
    return pieces if len(pieces) % 2 else [*pieces[:-2], "`".join(pieces[-2:])]


def _shown(value: object) -> object:
    """Text without control characters; markup and numbers as they are."""
    return printable(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
