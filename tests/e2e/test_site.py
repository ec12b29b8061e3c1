"""The site in a real browser, opened from the disk: every page fits, light and dark, and the search finds something."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.documents import ROOT

from .browser import address
from .test_demo_page import pixels

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FOUND = "[...document.querySelectorAll('#search-results li > a')].map(a => a.textContent)"
TOO_WIDE = """(() => {
  const scrolls = e => ['auto', 'scroll'].includes(getComputedStyle(e).overflowX);
  const inside = e => e.tagName !== 'ARTICLE' && (scrolls(e) || inside(e.parentElement));
  return [...document.querySelectorAll('article *')]
    .filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !inside(e.parentElement))
    .map(e => e.outerHTML.slice(0, 80));
})()"""
"""What goes beyond the window and cannot be scrolled to."""
FAINT = """(() => {
  const colour = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground = e => {
    if (!e) return [255, 255, 255];
    const found = colour(getComputedStyle(e).backgroundColor);
    return found.length === 3 || found[3] === 1 ? found : ground(e.parentElement);
  };
  const faint = new Set();
  for (const e of document.querySelectorAll('article *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.closest('svg, math, .headerlink, .copybtn') || !e.getClientRects().length) continue;
    const pair = [light(colour(getComputedStyle(e).color)), light(ground(e))].sort((a, b) => b - a);
    const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (contrast < 4.5) faint.add(`${e.tagName}.${e.className} ${e.textContent.slice(0, 30)}: ${contrast.toFixed(1)}`);
  }
  return [...faint].slice(0, 10);
})()"""
"""Text whose contrast to its ground is below 4.5, the least that WCAG asks for."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", ROOT / "docs", out]
    subprocess.run(command, check=True)
    return out


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_every_page_fits_and_can_be_read(browser, site, width, dark):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        browser.open(address(page), width=width, dark=dark)
        assert browser.seen.complaints == [], page
        assert all(request.startswith("file://") for request in browser.seen.requests), page
        assert browser.run("document.documentElement.scrollWidth") == width, page
        assert browser.run(TOO_WIDE) == [], page
        assert browser.run(FAINT) == [], page
        assert browser.run("[...document.images].every(i => i.complete && i.naturalWidth > 0)"), page
    assert (pixels(browser.screenshot(whole=False))[0, 0].mean() < 60) == dark


def test_links_of_the_site_lead_somewhere(browser, site):
    for page in sorted(site.rglob("*.html")):
        browser.open(address(page), script=False)
        for target in browser.run("[...document.querySelectorAll('a[href]')].map(a => a.href)"):
            file, _, part = target.partition("#")
            if file.startswith("file://"):
                found = site / file.removeprefix(f"{address(site)}/").partition("?")[0]
                assert found.exists(), f"{page}: {target}"
                assert not part or f'id="{part}"' in found.read_text(encoding="utf-8"), f"{page}: {target}"


def test_search_works_from_the_disk(browser, site):
    browser.open(f"{address(site / 'search.html')}?q=scaffold")
    for _ in range(50):
        if browser.run("document.querySelector('#search-results .search-summary')?.textContent || ''").strip():
            break
        browser.settle()
    assert "Splits: which question the test part asks" in browser.run(FOUND)
    assert browser.seen.complaints == []
