"""The page in a real browser: molecules go in, answers come out, with the mouse, the keyboard and on a small screen."""

from __future__ import annotations

import csv
import io
import json
import time
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.browser

PASTED = """CC(=O)Oc1ccccc1C(=O)O aspirin
CN1C=NC2=C1C(=O)N(C(=O)N2C)C,caffeine

xx <img src=x onerror="window.bad=1">
CCCCCCCCCCCC"""
NAMES = ["aspirin", "caffeine", '<img src=x onerror="window.bad=1">', "Row 4"]
TEXT = "document.querySelector('{}').textContent"
MAP = "document.querySelector('#map').contentDocument"


def until(browser, condition: str) -> None:
    """Wait until a JavaScript expression is true."""
    deadline = time.monotonic() + 60
    while not browser.run(condition):
        assert time.monotonic() < deadline, f"{condition}: {browser.run('document.body.innerText')[:2000]}"
        time.sleep(0.02)


def visit(browser, client, **options) -> None:
    browser.open(f"{client.address}/docs")
    browser.run("sessionStorage.clear()")  # what another test asked for would be shown again
    browser.open(f"{client.address}/", **options)
    until(browser, f"{TEXT.format('#lead')}.length > 0")


def predict(browser, text: str) -> None:
    browser.run(f"document.querySelector('#molecules').value = {json.dumps(text)}")
    browser.run("document.querySelector('#predict').click()")
    until(browser, f"{TEXT.format('#status')}.includes(' in ')")


def shown(browser) -> None:
    until(browser, f"{MAP}?.querySelector('canvas')?.width > 100")
    browser.settle()


def choose(browser, name: str, content: bytes) -> None:
    """Put a file into the form, as a dialog of the browser would."""
    script = (
        f"(() => {{ const files = new DataTransfer(); files.items.add(new File([{json.dumps(content.decode())}], "
        f"{json.dumps(name)})); const box = document.querySelector('#file'); box.files = files.files; "
        "box.dispatchEvent(new Event('change')) })()"
    )
    browser.run(script)


@pytest.mark.parametrize(
    ("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True), (320, False), (1600, False)]
)
def test_the_page_is_quiet_complete_and_fits(browser, client, width, dark):
    visit(browser, client, width=width, dark=dark)
    predict(browser, PASTED)
    shown(browser)
    picture = np.asarray(Image.open(io.BytesIO(browser.screenshot())).convert("RGB"), dtype=np.int64)

    assert browser.seen.complaints == []
    assert all(request.startswith(f"{client.address}/") for request in browser.seen.requests)
    assert browser.run("document.documentElement.scrollWidth") == width
    assert browser.run(f"{MAP}.documentElement.scrollWidth <= {MAP}.documentElement.clientWidth")
    assert browser.run(f"document.querySelector('#map').clientHeight >= {MAP}.body.scrollHeight")
    assert (picture[0, 0].mean() < 60) == dark
    assert picture.std() > 10
    assert browser.run("[...document.images].every(i => i.complete && i.naturalWidth > 0)")


def test_every_row_comes_back_and_names_stay_text(browser, client):
    visit(browser, client)
    predict(browser, PASTED)

    assert browser.run("[...document.querySelectorAll('.open')].map(e => e.textContent)") == NAMES
    assert browser.run("[...document.querySelectorAll('#rows tr')].map(r => r.querySelectorAll('img').length)") == [
        2, 2, 0, 2,
    ]  # fmt: skip
    places = "[...document.querySelectorAll('#rows tr')].map(r => r.querySelector('.note')?.textContent)"
    assert browser.run(places) == ["row 1", "row 2", "row 3, line 4", "line 5"], "an empty line was pasted"
    assert "no answer" in browser.run("document.querySelectorAll('#rows tr')[2].textContent")
    assert browser.run("window.bad === undefined")
    assert browser.run(TEXT.format("#status")).startswith("3 answers to 4 rows")
    verdicts = browser.run(
        "[...document.querySelectorAll('#rows .verdict')].map(v => [v.textContent, v.children.length])"
    )
    assert {text for text, _ in verdicts} <= {"in domain", "borderline", "out of domain", "no answer: syntax"}
    assert {children for _, children in verdicts} == {1}, "a sign beside each word"


def test_numbers_in_the_table_are_those_of_the_download(browser, client):
    visit(browser, client)
    predict(browser, PASTED)
    address = browser.run("document.querySelector('#download').href")
    rows = list(csv.DictReader(io.StringIO(client.get(address.removeprefix(client.address)).body.decode())))
    table = browser.run("[...document.querySelectorAll('#rows tr')].map(r => [...r.cells].map(c => c.textContent))")

    assert [row["status"] for row in rows] == ["ok", "ok", "syntax", "ok"]
    for row, cells in zip(rows, table, strict=True):
        if row["status"] == "ok":
            assert cells[2] == row["prediction"]
            assert float(cells[3]) == pytest.approx(float(row["probability"]), abs=0.0051)
            assert cells[4] == " or ".join(row["conformal_set"][1:-1].split("|")) or cells[4] == "none"
            assert cells[5] == row["domain"]
            assert float(cells[7]) == pytest.approx(float(row["similarity"]), abs=0.0051)


def test_with_the_keyboard_alone(browser, client):
    visit(browser, client)
    browser.run("document.querySelector('#molecules').focus()")
    browser.call("Input.insertText", text="CCO ethanol\nc1ccccc1C(=O)O benzoic acid")
    press(browser, "Enter", 13, modifiers=2)
    until(browser, f"{TEXT.format('#status')}.includes(' in ')")
    for _ in range(30):
        press(browser, "Tab", 9)
        if browser.run("document.activeElement.className") == "open":
            break
    assert browser.run("document.activeElement.textContent") == "ethanol"
    assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid", "focus can be seen"
    press(browser, "Enter", 13)
    until(browser, "!!document.querySelector('dialog[open] .parts, dialog[open] .split')")
    assert browser.run("document.activeElement.id") == "details-heading"
    browser.run("document.querySelector('#next').focus()")
    press(browser, "Enter", 13)
    until(browser, f"{TEXT.format('#details-heading')} === 'benzoic acid' && !!document.querySelector('.part')")
    press(browser, "Escape", 27)
    until(browser, "!document.querySelector('dialog').open")
    until(browser, "document.activeElement.textContent === 'benzoic acid'")  # back where one was


def press(browser, key: str, code: int, modifiers: int = 0) -> None:
    text = {"Enter": "\r"}.get(key, "") if not modifiers else ""
    keys = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
    browser.call(
        "Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **keys, **({"text": text} if text else {})
    )
    browser.call("Input.dispatchKeyEvent", type="keyUp", **keys)


def test_details_show_the_reasons(browser, client):
    visit(browser, client)
    predict(browser, "c1ccccc1C(=O)OC(C)C isopropyl benzoate")
    browser.run("document.querySelector('#rows tr').click()")
    until(browser, "!!document.querySelector('.part')")
    expected = client.post("/api/explain", {"smiles": ["CC(C)OC(=O)c1ccccc1"]}).json()["rows"][0]
    plain = browser.run("document.querySelector('.large').src")
    browser.run("document.querySelector('.part').click()")
    outlined = browser.run("document.querySelector('.large').src")
    browser.run("document.querySelector('.part').click()")

    parts = browser.run("[...document.querySelectorAll('.parts tbody th')].map(e => e.textContent)")
    assert parts == [part["name"] or part["smiles"] for part in expected["reasons"]["parts"]]
    assert outlined != plain
    assert browser.run("document.querySelector('.large').src") == plain
    stars = browser.run("[...document.querySelectorAll('dialog .cards strong')].map(e => e.textContent)")
    assert stars == [f"{p['class_name']}, prototype {p['number']}" for p in expected["reasons"]["prototypes"]]
    assert browser.seen.complaints == []


def test_the_map_shows_ours_among_those_of_training(browser, client):
    visit(browser, client)
    predict(browser, PASTED)
    shown(browser)
    data = json.loads(browser.run(f"{MAP}.querySelector('[data-sphere] script').textContent"))

    assert len(data["points"]) == 40 + 3
    assert data["names"][-3:] == ["row 1, aspirin", "row 2, caffeine", "row 4, line 5, CCCCCCCCCCCC"]
    assert data["partNames"][0] == "training"
    assert all(name.startswith("yours, ") for name in data["partNames"][1:])
    key = "new KeyboardEvent('keydown', {key: 'PageUp'})"
    browser.run(f"{MAP}.querySelector('canvas').dispatchEvent({key})")
    assert browser.run(f"{MAP}.querySelector('.looked-at code').textContent") == data["names"][-1]
    assert browser.run(f"{MAP}.querySelector('.looked-at img').complete")


def test_a_file_of_several_pages(browser, client):
    visit(browser, client)
    choose(browser, "many.csv", b"id,smiles\n" + b"".join(b"m%d,C%s\n" % (i, b"C" * (i % 9)) for i in range(1, 131)))
    browser.run("document.querySelector('#predict').click()")
    until(browser, f"{TEXT.format('#status')}.includes(' in ')")
    assert browser.run(TEXT.format("#page")) == "Page 1 of 2"
    assert browser.run(TEXT.format("#notes")) == "many.csv: molecules in column smiles"
    assert browser.run("document.querySelector('#earlier').disabled")
    browser.run("document.querySelector('#later').click()")
    until(browser, f"{TEXT.format('#page')} === 'Page 2 of 2'")
    names = browser.run("[...document.querySelectorAll('.open')].map(e => e.textContent)")
    assert names == [f"m{i}" for i in range(101, 131)]
    assert browser.run("document.querySelector('#later').disabled")


def test_answers_are_still_there_after_a_reload(browser, client):
    visit(browser, client)
    predict(browser, "CCO ethanol")
    browser.open(f"{client.address}/")
    until(browser, f"{TEXT.format('#status')}.includes(' in ')")
    assert browser.run(TEXT.format(".open")) == "ethanol"


def test_mistakes_are_said_with_a_remedy(browser, client):
    visit(browser, client)
    browser.run("document.querySelector('#predict').click()")
    until(browser, "!document.querySelector('#problem').hidden")
    assert browser.run(TEXT.format("#problem")) == "There are no molecules.Paste SMILES or choose a file."
    choose(browser, "notes.csv", b"a,b\n1,2\n")
    browser.run("document.querySelector('#predict').click()")
    until(browser, f"{TEXT.format('#problem')}.includes('notes.csv')")
    assert browser.run(TEXT.format("#problem")).endswith("mend the file and send it again")
    assert browser.run("document.querySelector('#problem').getAttribute('role')") == "alert"
    assert not browser.run("document.querySelector('#predict').disabled")


def test_a_long_file_shows_progress_and_can_be_cancelled(browser, client):
    visit(browser, client)
    choose(browser, "long.csv", b"smiles\n" + b"CCO\n" * 20_000)
    browser.run("document.querySelector('#predict').click()")
    until(browser, "document.querySelector('#progress').value > 0 && !document.querySelector('#progress').hidden")
    assert browser.run("document.querySelector('#progress').max") == 20_000
    assert browser.run("document.querySelector('#status').getAttribute('role')") == "status"
    browser.run("document.querySelector('#cancel').click()")
    until(browser, f"{TEXT.format('#status')} === 'Cancelled.'")
    assert browser.run("document.querySelector('#cancel').hidden")
    assert browser.run("document.querySelector('#answers').hidden")
    browser.run("document.querySelector('#unchoose').click()")
    predict(browser, "CCO ethanol")
    assert browser.run(TEXT.format(".open")) == "ethanol"
    assert browser.seen.complaints == []


def test_structure_for_those_who_listen(browser, client):
    visit(browser, client)
    predict(browser, PASTED)
    levels = browser.run(
        "[...document.querySelectorAll('h1,h2,h3')].filter(h => h.offsetParent).map(h => +h.tagName[1])"
    )
    nameless = browser.run(
        "[...document.querySelectorAll('img,input,textarea,select,button,iframe,progress,[tabindex]')].filter(e => "
        "!(e.alt || e.ariaLabel || e.title || e.labels?.[0]?.textContent || e.textContent.trim() "
        "|| e.getAttribute('aria-labelledby'))).map(e => e.outerHTML)"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert [text for text in nameless if "details-heading" not in text] == []
    heads = browser.run("[...document.querySelectorAll('#columns th')].map(h => [h.scope, h.textContent.length > 0])")
    assert heads == [["col", True]] * 8
    assert browser.run("[...document.querySelectorAll('#rows tr')].every(r => r.cells[0].scope === 'row')")
    assert browser.run("document.querySelector('caption').textContent.length > 20")


def test_the_policy_stops_what_is_not_ours(browser, client):
    visit(browser, client)
    browser.run("document.body.append(Object.assign(new Image(), {src: 'https://example.invalid/a.png'}))")
    browser.run("document.body.append(Object.assign(document.createElement('script'), {text: 'window.bad = 1'}))")
    browser.run("fetch('https://example.invalid/').catch(() => {})")
    browser.settle()
    assert browser.run("window.bad === undefined")
    assert sum("Content Security Policy" in text for text in browser.seen.complaints) >= 3


def test_the_list_of_operations_is_quiet_and_fits(browser, client):
    for width in (1280, 320):
        browser.open(f"{client.address}/docs", width=width)
        assert browser.seen.complaints == []
        assert browser.run("document.documentElement.scrollWidth") == width
