"""The model card in a real browser."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from .browser import address

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_is_quiet_complete_and_fits(browser, product, width, dark):
    page = address(product.path / "card.html")
    browser.open(page, width=width, dark=dark)
    picture = np.asarray(Image.open(io.BytesIO(browser.screenshot())).convert("RGB"), dtype=np.int64)
    assert browser.seen.complaints == []
    assert browser.seen.requests == [page]
    assert browser.run("document.documentElement.scrollWidth") == width
    assert (picture[0, 0].mean() < 60) == dark
    assert len(np.unique(picture[::3] @ [65536, 256, 1])) > 100


def test_charts_have_names_and_tables_have_captions(browser, product):
    browser.open(address(product.path / "card.html"))
    charts = browser.run("[...document.querySelectorAll('svg')].map(s => s.getAttribute('aria-label'))")
    assert [name.partition(".")[0] for name in charts] == [
        "Without and with the shift",
        "Reliability",
        "Distance from training",
    ]
    assert browser.run("[...document.querySelectorAll('table')].every(t => t.caption.textContent.trim())")
    assert browser.run("document.querySelectorAll('h1').length") == 1
