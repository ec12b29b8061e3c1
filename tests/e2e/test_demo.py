"""The demo and the sample pages as a newcomer meets them: typed, read in the terminal, opened in a browser."""

from __future__ import annotations

import json

import pytest

from tests.command import call

from .browser import address

SMALL = ("--graphs", 300, "--epochs", 2)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return folder, call("demo", "--out", folder, *SMALL)


def scores(folder):
    return {name: json.loads((folder / name / "result.json").read_text())["selections"] for name in ("erm", "mphil")}


def test_prints_a_table_and_where_the_page_is(demo):
    folder, ended = demo
    assert ended.code == 0
    found = scores(folder)
    for name in ("erm", "mphil"):
        assert f"{found[name]['ood_val']['scores']['ood_test']:.4f}" in ended.out
    assert str(folder / "index.html") in ended.out


def test_again_it_takes_what_is_there(demo):
    folder, ended = demo
    before = scores(folder)
    again = call("demo", "--out", folder, *SMALL)
    assert again.out == ended.out
    assert scores(folder) == before


def test_with_other_settings_it_refuses_and_keeps_what_is_there(demo):
    folder, _ = demo
    before = scores(folder)
    assert call("demo", "--out", folder, "--graphs", 300, "--epochs", 3).code == 4
    assert scores(folder) == before


@pytest.mark.browser
def test_page_shows_what_was_measured_and_asks_for_nothing(demo, browser):
    folder, _ = demo
    page = address(folder / "index.html")
    browser.open(page)
    assert browser.seen.complaints == []
    assert browser.seen.requests == [page]
    text = browser.run("document.body.textContent")
    for name, chosen in scores(folder).items():
        assert f"{100 * chosen['ood_val']['scores']['ood_test']:.1f}" in text, name
    assert browser.run("document.querySelectorAll('.sphere canvas').length") == 2
    drawings = "[...document.querySelectorAll('img')].filter(i => i.naturalWidth > 0).length"
    assert browser.run(drawings) == 6 * 3
    assert "mphil train --benchmark good-motif-basis" in text


@pytest.mark.browser
@pytest.mark.parametrize(("name", "drawing"), [("good-motif-basis", "svg"), ("decoy-scaffold", "img")])
def test_sample_page_draws_every_part(name, drawing, tmp_path, browser):
    path = tmp_path / "samples.html"
    ended = call("benchmarks", "show", name, "--set", "graphs=300", "--draw", path)
    assert ended.code == 0
    assert str(path) in ended.out.replace("\n", "")
    browser.open(address(path))
    assert browser.seen.complaints == []
    assert browser.run(f"document.querySelectorAll('section {drawing}').length") >= 5
    assert "ood_test" in browser.run("document.body.textContent")
