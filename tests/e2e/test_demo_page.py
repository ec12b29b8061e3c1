"""The demo page in a real browser: it is looked at, turned, read without scripts, printed."""

from __future__ import annotations

import io
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from mphil.pages.demo_page import render

from .browser import address
from .made_up import demo_view

pytestmark = pytest.mark.browser
CANVAS = "document.querySelectorAll('.sphere canvas')[{}]"
PICTURE = CANVAS + ".toDataURL()"
SAID = "document.querySelectorAll('.sphere output')[{}].textContent"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("demo") / "demo.html"
    path.write_text(render(demo_view()), encoding="utf-8")
    return address(path)


def pixels(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), dtype=np.int64)


def box(browser, i: int) -> dict[str, float]:
    return browser.run(
        f"(() => {{ const c = {CANVAS.format(i)}; c.scrollIntoView({{block: 'center'}}); const b = "
        "c.getBoundingClientRect(); return {x: b.x, y: b.y, width: b.width} })()"
    )


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_page_is_quiet_complete_and_fits(browser, page, width, dark):
    browser.open(page, width=width, dark=dark)
    picture = pixels(browser.screenshot())

    assert browser.seen.complaints == []
    assert browser.seen.requests == [page]
    assert browser.run("document.documentElement.scrollWidth") == width
    assert picture.shape[0] > 2000
    assert len(np.unique(picture[::3] @ [65536, 256, 1])) > 200
    assert (picture[0, 0].mean() < 60) == dark
    assert picture.std() > 10


def test_headings_run_from_the_finding_to_the_next_steps(browser, page):
    browser.open(page)
    levels = browser.run("[...document.querySelectorAll('h1,h2,h3')].map(h => Number(h.tagName[1]))")
    texts = browser.run("[...document.querySelectorAll('h2')].map(h => h.textContent)")

    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert texts[0] == "Scores"
    assert texts[-1] == "Go on"


def test_every_image_and_control_has_a_name(browser, page):
    browser.open(page)
    nameless = browser.run(
        "[...document.querySelectorAll('img,svg,canvas,input,[tabindex]')].filter(e => !e.closest('[aria-hidden=true]')"
        " && !(e.alt || e.ariaLabel || e.labels?.[0]?.textContent || e.textContent.trim())).map(e => e.outerHTML)"
    )
    assert nameless == []
    assert browser.run("[...document.images].every(i => i.complete && i.naturalWidth > 0)")


@pytest.mark.parametrize("key", ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"])
def test_arrow_keys_turn_one_sphere_and_home_brings_it_back(browser, page, key):
    browser.open(page)
    browser.run(CANVAS.format(1) + ".focus()")
    browser.press("Home")
    other, first = browser.run(PICTURE.format(0)), browser.run(PICTURE.format(1))
    browser.press(key)
    turned = browser.run(PICTURE.format(1))
    browser.press("Home")

    assert turned != first
    assert browser.run(PICTURE.format(1)) == first
    assert browser.run(PICTURE.format(0)) == other


def test_enter_names_the_prototypes_in_turn(browser, page):
    browser.open(page)
    browser.run(CANVAS.format(1) + ".focus()")
    heard = []
    for _ in range(5):
        browser.press("Enter")
        heard.append(browser.run(SAID.format(1)))
    names = [f"prototype {i} of 4, {name}" for i, name in enumerate(["no acid", "no acid", "acid", "acid"], 1)]
    assert heard == [*names, names[0]]


def test_pointer_reads_a_prototype_and_drags_the_sphere(browser, page):
    browser.open(page)
    area = box(browser, 1)
    middle = (area["x"] + area["width"] / 2, area["y"] + area["width"] / 2)
    browser.run(CANVAS.format(1) + ".focus()")
    browser.press("Enter")
    browser.run("document.activeElement.blur()")
    browser.mouse("mouseMoved", *middle)
    said, before = browser.run(SAID.format(1)), browser.run(PICTURE.format(1))
    browser.mouse("mousePressed", *middle)
    browser.mouse("mouseMoved", middle[0] + 60, middle[1] + 20)
    browser.mouse("mouseReleased", middle[0] + 60, middle[1] + 20)

    assert said.startswith("prototype 1 of 4")
    assert browser.run(PICTURE.format(1)) != before


def test_a_part_can_be_hidden(browser, page):
    browser.open(page)
    before = [browser.run(PICTURE.format(i)) for i in (0, 1)]
    click = "document.querySelectorAll('[data-sphere-part]')[1].click()"
    browser.run(click)
    without = [browser.run(PICTURE.format(i)) for i in (0, 1)]
    browser.run(click)

    assert all(a != b for a, b in zip(before, without, strict=True))
    assert [browser.run(PICTURE.format(i)) for i in (0, 1)] == before


def test_without_scripts_a_still_picture_takes_the_place_of_the_sphere(browser, page):
    browser.open(page, script=False)
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    sizes = browser.run("[...document.querySelectorAll('svg.still')].map(s => s.getBoundingClientRect().width > 200)")
    shown = browser.run("[...document.querySelectorAll('canvas,output,[data-sphere-part]')].some(e => e.offsetWidth)")

    assert sizes == [True, True]
    assert not shown


def test_paper_is_light_even_when_the_screen_is_dark(browser, page):
    browser.open(page, dark=True)
    ink = browser.run("getComputedStyle(document.body).color")
    dark = browser.run(PICTURE.format(1))
    browser.emulate(dark=True, media="print")
    browser.settle()

    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.run("getComputedStyle(document.body).color") != ink
    assert browser.run(PICTURE.format(1)) != dark
    assert browser.pdf().startswith(b"%PDF")


def test_the_harness_sees_complaints_and_requests(browser, tmp_path):
    """The other tests prove nothing if the ear is deaf."""
    loud = tmp_path / "loud.html"
    loud.write_text("<img src='missing.png'><script>console.error('ouch'); console.log('hm'); nope()</script>")
    browser.open(address(loud))

    assert len(browser.seen.requests) == 2
    assert "ouch" in browser.seen.complaints
    assert any("nope is not defined" in text for text in browser.seen.complaints)
    assert browser.seen.console == ["hm"]


def test_the_policy_stops_what_is_not_ours(browser, page):
    browser.open(page)
    browser.run("document.body.append(Object.assign(new Image(), {src: 'https://example.invalid/a.png'}))")
    browser.run("document.body.append(Object.assign(document.createElement('script'), {text: 'window.bad = 1'}))")
    browser.settle()

    assert browser.run("window.bad === undefined")
    assert sum("Content Security Policy" in text for text in browser.seen.complaints) == 2
