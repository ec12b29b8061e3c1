"""Text on its way into HTML and SVG."""

from __future__ import annotations

import html
import math
import re

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
