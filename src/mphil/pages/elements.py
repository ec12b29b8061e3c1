"""What every page and picture is made of: text on its way into HTML and SVG, colours, elements and axes."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

# What XML 1.0 cannot hold, escaped or not: most control characters, halves of surrogate pairs, two non-characters.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")

MISSING = "–"


def printable(text: str) -> str:
    """Text without control characters: they steer a terminal, and most file formats cannot hold them."""
    return _FORBIDDEN.sub("\ufffd", text)


def escape(text: object) -> str:
    """Make text from outside harmless inside an element or a quoted attribute, in HTML and in XML."""
    return html.escape(printable(str(text)), quote=True)


class Markup(str):
    """Text that is HTML or SVG already: templates and `element` take it as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


def number(value: float, digits: int = 3) -> str:
    """At most `digits` decimals, without trailing zeros or a negative zero: 0.5, 12, -3.25."""
    text = f"{value:.{digits}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def known(value: float | None) -> float | None:
    """A finite number, or None for everything that means "there is none"."""
    return float(value) if value is not None and math.isfinite(value) else None


def listing(words: list[str]) -> str:
    """Words as one would say them: "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


LIGHT = {
    "paper": "#ffffff",
    "surface": "#f5f6f8",
    "ink": "#1a1d21",
    "muted": "#59616a",
    "rule": "#dadee3",
    "blue": "#0068a8",
    "slate": "#6a7581",
    "vermillion": "#bd4b00",
    "green": "#007f60",
    "purple": "#8a4a9c",
    "amber": "#8f6200",
}
DARK = {
    "paper": "#131619",
    "surface": "#1b1f24",
    "ink": "#e7eaee",
    "muted": "#a2abb5",
    "rule": "#343b43",
    "blue": "#5cb8f0",
    "slate": "#9aa6b3",
    "vermillion": "#f58d4e",
    "green": "#3fc69f",
    "purple": "#d59be4",
    "amber": "#e8b84a",
}
SERIES = ("blue", "slate", "vermillion", "green", "purple", "amber")
"""Colours of lines and bars, in the order they are handed out."""
CLASSES = ("vermillion", "green", "purple", "amber", "blue", "slate")
"""Colours of classes, apart from those of the first two methods."""


def paint(**roles: str) -> dict[str, str]:
    """SVG attributes that colour an element: `paint(fill="blue", stroke="none")`.

    The colour is written twice, as a plain attribute for programs that only read SVG and as a CSS variable, which
    follows the theme of the page the picture stands in.
    """
    plain = {role: LIGHT.get(name, name) for role, name in roles.items()}
    themed = ";".join(f"{role}:var(--{name},{LIGHT[name]})" for role, name in roles.items() if name in LIGHT)
    return {**plain, "style": themed} if themed else plain


def stylesheet() -> str:
    """CSS variables of both themes; paper is always light."""
    return (
        f":root{{{_variables(LIGHT)}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{color-scheme:dark;{_variables(DARK)}}}}}"
    )


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


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


def on_white(svg: str) -> str:
    """The picture on a white ground: a file of its own is also shown on dark pages, where its ink could not be read.

    Example:
        >>> on_white('<svg width="1"/>')
        '<svg style="background: #fff" width="1"/>'
    """
    return str(svg).replace(" ", ' style="background: #fff" ', 1)  # behind the name of its first element


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


Values = Sequence[float | None]
Range = tuple[float, float]


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten) inside [low, high], about `count` and at least two.

    Example:
        >>> nice_ticks(0, 1)
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not low < high:
        return [low]
    raw = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = power * next(m for m in (1, 2, 5, 10) if m * power >= raw * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    if last <= first:  # an axis with one number on it has no scale
        return nice_ticks(low, high, 2 * max(count, 1))
    digits = max(0, -math.floor(math.log10(step)))
    return [round(i * step, digits) for i in range(first, last + 1)]


@dataclass(frozen=True)
class Frame:
    """The plotting area in pixels and the numbers its edges stand for; with `log`, equal factors are equal heights."""

    left: float
    top: float
    right: float
    bottom: float
    x_range: Range
    y_range: Range
    log: bool = False

    def x(self, value: float) -> float:
        return _scale(value, self.x_range, (self.left, self.right))

    def y(self, value: float) -> float:
        if self.log:
            low, high = map(math.log, self.y_range)
            return _scale(math.log(max(value, self.y_range[0])), (low, high), (self.bottom, self.top))
        return _scale(value, self.y_range, (self.bottom, self.top))

    @property
    def y_ticks(self) -> list[float]:
        if not self.log:
            return nice_ticks(*self.y_range)
        return [step for step in steps(*self.y_range) if self.y_range[0] <= step <= self.y_range[1]]


def _scale(value: float, source: Range, target: Range) -> float:
    length = source[1] - source[0]
    return target[0] + (target[1] - target[0]) * ((value - source[0]) / length if length else 0.5)


def span(places: Sequence[float]) -> Range:
    """From the first place to the last."""
    return (min(places), max(places)) if places else (0.0, 1.0)


def steps(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten, from not above `low` to not below `high`."""
    powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 2)
    every = [round(m * 10.0**power, max(0, -power)) for power in powers for m in (1, 2, 5)]
    first = max(step for step in every if step <= low)
    return [step for step in every if first <= step <= min(s for s in every if s >= high)]


def stepped(values: Sequence[float]) -> Range:
    """The range of the values, widened to steps of a logarithmic axis."""
    found = steps(min(values, default=1.0), max(values, default=1.0))
    return (found[0], found[-1]) if len(found) > 1 else (found[0] / 2, found[0] * 2)


def rounded(values: Values) -> Range:
    """The range of the values, widened to round numbers."""
    numbers = [v for v in values if v is not None]
    low, high = (min(numbers), max(numbers)) if numbers else (0.0, 1.0)
    if low == high:
        low, high = low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
    ticks = nice_ticks(low, high)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else high - low
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step


def whole_ticks(ends: Range) -> list[float]:
    """Whole numbers where there are at least two: an axis with one number on it has no scale."""
    ticks = nice_ticks(*ends)
    whole = [tick for tick in ticks if tick == int(tick)]
    return whole if len(whole) > 1 else ticks
