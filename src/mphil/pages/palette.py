"""The colours of every picture, once: light and dark, safe for colour-blind readers."""

from __future__ import annotations

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
