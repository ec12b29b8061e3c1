"""SVG elements: text is escaped, numbers are short, colours follow the theme of the page."""

from __future__ import annotations

from mphil.pages.palette import paint
from mphil.pages.text import Markup, escape, number

FONT = "system-ui,-apple-system,'Segoe UI','Helvetica Neue',Arial,sans-serif"


def element(name: str, *content: str, **attributes: str | float) -> Markup:
    """An element; underscores in the names of attributes are hyphens, and a last one is left out.

    Example:
        >>> element("text", "a < b", x=0.123456, text_anchor="end", class_="name")
        '<text x="0.12" text-anchor="end" class="name">a &lt; b</text>'
    """
    inside = "".join(one if isinstance(one, Markup) else escape(one) for one in content)
    written = "".join(f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"' for key, value in attributes.items())
    return Markup(f"<{name}{written}>{inside}</{name}>" if content else f"<{name}{written}/>")


def picture(*content: str, size: tuple[float, float], said: str, kind: str = "chart") -> Markup:
    """An SVG root with the house font; `said` is what a screen reader says in its place."""
    width, height = number(size[0], 1), number(size[1], 1)
    return element(
        "svg",
        *content,
        xmlns="http://www.w3.org/2000/svg",
        class_=kind,
        role="img",
        aria_label=said,
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        font_family=FONT,
        font_size=11,
    )


def label(
    x: float,
    y: float,
    words: str,
    colour: str = "muted",
    *,
    anchor: str = "start",
    weight: int = 400,
    size: int = 11,
) -> Markup:
    """A line of text."""
    look = paint(fill=colour)
    return element("text", words, x=x, y=y, text_anchor=anchor, font_weight=weight, font_size=size, **look)


def heading(words: str) -> Markup:
    """The heading of a picture."""
    return label(0, 13, words, "ink", weight=600, size=13)


def tooltip(words: str) -> Markup:
    """What an element says when it is pointed at; its first child."""
    return element("title", words)


def stroke(path: str, colour: str, width: float = 1.0, **attributes: str) -> Markup:
    """A line along a path."""
    return element("path", d=path, stroke_width=width, **attributes, **paint(stroke=colour, fill="none"))


def _value(value: str | float) -> str:
    return escape(value) if isinstance(value, str) else number(value, 2)
