from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from mphil.errors import DataError
from mphil.pages.demo_page import render
from mphil.pages.view import Choice, verdict

from .conftest import method

VOID = {"meta", "link", "img", "input", "br"}
HOSTILE = '"><script>bad()</script><img src=x onerror=bad()>'


class Outline(HTMLParser):
    """Checks that tags are balanced and collects what a test wants to know."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def rows(html: str) -> list[list[str]]:
    plain = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", html)]
    return [[re.sub(r"<[^>]+>", "", cell) for cell in row] for row in plain]


def test_page_is_well_formed_with_unique_ids(view):
    outline = Outline(render(view))
    ids = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    pointers = [a.get("aria-labelledby") or a.get("aria-describedby") for _, a in outline.tags]
    assert {p for p in pointers if p} <= set(ids)


def test_page_is_the_same_every_time(view):
    assert render(view) == render(view)


def test_page_points_nowhere_outside(view):
    outline = Outline(render(view))
    addresses = [a[key] or "" for _, a in outline.tags for key in ("src", "href", "action", "data") if key in a]
    assert addresses
    assert all(address.startswith("data:") for address in addresses)
    assert "@import" not in render(view)
    assert "url(" not in render(view)


def test_headline_is_the_verdict(view):
    assert f"<h1>{verdict(view).sentence}</h1>" in render(view)


def test_table_gives_both_selections_with_gap(view):
    table = rows(render(view))
    assert ["Epoch chosen on OOD validation"] in table
    assert ["Epoch chosen on ID validation"] in table
    assert ["ERM", "95.0", "60.0", "+35.0", "60.0", "2", "12"] in table
    assert ["MPHIL", "94.0", "92.0", "+2.0", "92.0", "1", "12"] in table


def test_a_negative_gap_and_a_missing_score_are_shown(view):
    blank = Choice(3, {"id_test": 0.5})
    html = render(
        replace(
            view,
            methods=[method("erm", 0.6, 0.7), method("mphil", 0.9, 0.8, choices={"ood_val": blank, "id_val": blank})],
        )
    )
    assert ["ERM", "60.0", "70.0", "−10.0", "70.0", "2", "12"] in rows(html)
    assert ["MPHIL", "50.0", "–", "–", "–", "3", "12"] in rows(html)


def test_a_finding_that_depends_on_the_selection_is_said_at_once(view):
    assert "changes the finding" not in render(view)
    other = Choice(1, {"id_test": 0.95, "ood_test": 0.95})
    turned = method("erm", 0.95, 0.6)
    turned = replace(turned, choices={**turned.choices, "id_val": other})
    html = render(replace(view, methods=[turned, view.methods[1]]))
    assert "Choosing the epoch on ID validation changes the finding: Both methods kept working" in html


@pytest.mark.parametrize(("seeds", "words"), [([0], "does not measure"), ([0, 1, 2], "a mean over 3 seeds")])
def test_seeds_are_said(view, seeds, words):
    assert words in render(replace(view, making=replace(view.making, seeds=seeds)))


def test_a_method_may_stop_early(view):
    short = replace(view.methods[0], curves={part: [0.5] for part in view.methods[0].curves})
    table = rows(render(replace(view, methods=[short, view.methods[1]])))
    assert ["2", "–", "94.0", "–", "92.0", "–", "92.0"] in table


def test_methods_keep_their_colours_and_the_focus_has_the_first(view):
    html = render(view)
    assert re.search(r"--slate\)[^>]*></span>ERM", html)
    assert re.search(r"--blue\)[^>]*></span>MPHIL", html)


def test_sections_without_content_are_left_out(view):
    bare = [replace(m, cloud=None) for m in view.methods]
    html = render(replace(view, methods=bare, molecules=[], next_commands=[]))
    headings = re.findall(r"<h2[^>]*>(.*?)</h2>", html)
    assert headings == ["Scores", "Learning curves", "How the shift was made", "How the numbers were made"]


def test_nothing_from_outside_becomes_markup(view):
    data = replace(view.data, benchmark=HOSTILE, classes=[HOSTILE, "on"], story=[HOSTILE], noun=HOSTILE, digest=HOSTILE)
    making = replace(view.making, command=HOSTILE, machine=HOSTILE, versions={HOSTILE: HOSTILE}, date=HOSTILE)
    molecules = [replace(view.molecules[0], name=HOSTILE, caption=HOSTILE, truth=HOSTILE)]
    labelled = [replace(m, label=HOSTILE) for m in view.methods]
    html = render(
        replace(
            view, data=data, making=making, molecules=molecules, methods=labelled, next_commands=[(HOSTILE, HOSTILE)]
        )
    )
    outline = Outline(html)
    scripts = [a for tag, a in outline.tags if tag == "script"]
    assert len(scripts) == len([a for tag, a in Outline(render(view)).tags if tag == "script"])
    assert not [a for _, a in outline.tags if "onerror" in a]


def test_a_page_needs_a_method_and_both_selections(view):
    with pytest.raises(DataError, match="at least one"):
        replace(view, methods=[])
    with pytest.raises(DataError, match="both selections"):
        replace(view.methods[0], choices={"id_val": view.methods[0].choices["id_val"]})
