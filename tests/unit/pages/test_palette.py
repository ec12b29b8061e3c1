from __future__ import annotations

import re

import pytest

from mphil.pages.elements import CLASSES, DARK, LIGHT, SERIES, paint, stylesheet
from mphil.pages.template import resource


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    bright, dim = sorted((luminance(first), luminance(second)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("name", sorted({"ink", "muted", *SERIES, *CLASSES}))
def test_every_colour_that_carries_text_can_be_read(theme, name):
    assert contrast(theme[name], theme["paper"]) >= 4.5
    if name in ("ink", "muted"):
        assert contrast(theme[name], theme["surface"]) >= 4.5


def test_both_themes_name_the_same_colours():
    assert list(LIGHT) == list(DARK)


@pytest.mark.parametrize("file", ["style.css", "sphere.js"])
def test_files_use_only_colours_that_exist(file):
    text = resource(file)
    used = set(re.findall(r"var\(--(\w+)\)", text)) | set(re.findall(r'colour\("(\w+)"\)', text))
    assert used
    assert used <= set(LIGHT)


def test_paint_works_with_and_without_css():
    blue = LIGHT["blue"]
    assert paint(fill="blue", stroke="none") == {"fill": blue, "stroke": "none", "style": f"fill:var(--blue,{blue})"}


def test_dark_is_for_screens_only():
    light, dark = stylesheet().split("@media")
    assert LIGHT["ink"] in light
    assert dark.strip().startswith("screen and (prefers-color-scheme:dark)")
    assert DARK["ink"] in dark
