"""The gallery in a real browser: the map is pointed at, walked through and turned, read without scripts, printed."""

from __future__ import annotations

import numpy as np
import pytest

from mphil.explain.report import RowsToExplain, write_report
from mphil.model.predictor import Predictor
from tests.bundles import bundle_of, trained

from .browser import address
from .test_demo_page import pixels

pytestmark = pytest.mark.browser
CANVAS = "document.querySelector('.sphere canvas')"
PICTURE = f"{CANVAS}.toDataURL()"
SAID = "document.querySelector('.sphere output').textContent"
SEEN = """(() => {
  const card = document.querySelector(".looked-at"), image = card.querySelector("img");
  return {
    smiles: card.querySelector("code").textContent,
    detail: card.querySelector(".detail").textContent,
    alt: image.alt,
    shown: !image.hidden && image.offsetWidth > 0,
    svg: decodeURIComponent(image.src),
  };
})()"""
MINE = ["CC(=O)NCc1ccc2ncccc2c1", "OC(=O)c1ccccc1", "CCCCCCCCCCCCCCCCCCCC"]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    out = tmp_path_factory.mktemp("gallery") / "why"
    write_report(Predictor(bundle_of(trained(epochs=1))), RowsToExplain(MINE, "mine.csv"), out, progress=False)
    return address(out / "index.html")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_page_is_quiet_complete_and_fits(browser, page, width, dark):
    browser.open(page, width=width, dark=dark)
    picture = pixels(browser.screenshot())
    assert browser.seen.complaints == []
    assert browser.seen.requests == [page]
    assert browser.run("document.documentElement.scrollWidth") == width
    assert (picture[0, 0].mean() < 60) == dark
    assert len(np.unique(picture[::3] @ [65536, 256, 1])) > 200
    assert browser.run("[...document.images].every(i => i.hidden || (i.complete && i.naturalWidth > 0))")


def test_every_image_and_control_has_a_name(browser, page):
    browser.open(page)
    nameless = browser.run(
        "[...document.querySelectorAll('img,svg,canvas,input,[tabindex]')].filter(e => !e.closest('[aria-hidden=true]')"
        " && !e.hidden && !(e.alt || e.ariaLabel || e.labels?.[0]?.textContent || e.textContent.trim()))"
        ".map(e => e.outerHTML)"
    )
    assert nameless == []


def test_page_down_walks_from_molecule_to_molecule(browser, page):
    browser.open(page)
    browser.run(f"{CANVAS}.focus()")
    seen = []
    for _ in range(43):
        browser.press("PageDown")
        seen.append(browser.run(SEEN))
    assert len({one["smiles"] for one in seen}) == 43
    assert set(MINE) <= {one["smiles"] for one in seen}
    for one in seen:
        assert one["alt"] == one["smiles"]
        assert one["shown"]
        assert f"<title>{one['smiles']}</title>" in one["svg"]
        assert one["detail"].startswith("yours: " if one["smiles"] in MINE else "training molecule, ")


def test_page_up_goes_back_and_the_sphere_says_what_is_drawn(browser, page):
    browser.open(page)
    browser.run(f"{CANVAS}.focus()")
    for key in ("PageDown", "PageDown", "PageUp"):
        browser.press(key)
    first = browser.run(SEEN)["smiles"]
    assert browser.run(SAID).startswith(f"{first}: ")
    browser.press("PageUp")
    assert browser.run(SEEN)["smiles"] != first


def test_pointing_at_the_middle_draws_the_molecule_there(browser, page):
    browser.open(page)
    browser.run(f"{CANVAS}.focus()")
    browser.press("PageDown")
    wanted = browser.run(SEEN)["smiles"]
    browser.run("document.activeElement.blur()")
    box = browser.run(
        f"(() => {{ const c = {CANVAS}; c.scrollIntoView({{block: 'center'}}); const b = c.getBoundingClientRect(); "
        "return {x: b.x + b.width / 2, y: b.y + b.height / 2} })()"
    )
    browser.mouse("mouseMoved", box["x"] + 150, box["y"] + 150)
    browser.mouse("mouseMoved", box["x"], box["y"])
    said = browser.run(SAID)
    assert said.startswith(wanted) or said.startswith("prototype")
    assert browser.run(SEEN)["shown"]


def test_enter_shows_what_a_prototype_is_near_to(browser, page):
    browser.open(page)
    browser.run(f"{CANVAS}.focus()")
    browser.press("Enter")
    assert browser.run(SAID) == "prototype 1 of 6, reversed"
    seen = browser.run(SEEN)
    assert seen["detail"].startswith("the nearest training molecule: ")
    assert seen["shown"]


def test_parts_can_be_hidden(browser, page):
    browser.open(page)
    before = browser.run(PICTURE)
    count = browser.run("document.querySelectorAll('[data-sphere-part]').length")
    assert count >= 2
    browser.run("document.querySelector('[data-sphere-part]').click()")
    without = browser.run(PICTURE)
    browser.run(f"{CANVAS}.focus()")
    browser.press("PageDown")
    assert browser.run(SEEN)["smiles"] in MINE, "what is hidden is not walked to"
    assert without != before


def test_without_scripts_a_still_picture_is_there_and_no_empty_card(browser, page):
    browser.open(page, script=False)
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.run("document.querySelector('svg.still').getBoundingClientRect().width") > 200
    assert not browser.run("document.querySelector('.looked-at').offsetWidth")
    assert browser.run("document.querySelectorAll('.explained article').length") == len(MINE)


def test_it_prints(browser, page):
    browser.open(page, dark=True)
    browser.emulate(dark=True, media="print")
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.pdf().startswith(b"%PDF")
