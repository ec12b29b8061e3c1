from __future__ import annotations

import re
from dataclasses import replace

import pytest

from mphil.pages.gallery_page import Drawing, ExplainedView, Fragment, GalleryView, PartRow, PrototypeView, render

from .conftest import DRAWING
from .test_map import made

BAD = "</code><script>bad()</script>`"


@pytest.fixture
def view() -> GalleryView:
    drawing = Drawing("CCO", DRAWING, "on, 0.93; in domain")
    fragment = Fragment("*C(=O)O", (8, 10), (20, 100))
    return GalleryView(
        eyebrow="mphil explain",
        heading="2 prototypes",
        lead=["A sentence."],
        centres="prototype",
        prototypes=[
            PrototypeView("on, prototype 1 of 2", 1, 10, (7, 9), [drawing] * 2, "Shared by all 2.", [fragment]),
            PrototypeView("on, prototype 2 of 2", 1, 0, (0, 0), [], "", []),
        ],
        explained=[
            ExplainedView(
                drawing,
                [PartRow("furan", "c1ccoc1", "0.50", "+0.300"), PartRow("", "*O", "0.20", "-0.100", DRAWING)],
                "Colour and removal disagree.",
                "Change of P(on)",
                [Drawing("CCO", DRAWING, "part 3, for on")],
                "the nearest training molecule, m7, has similarity 0.20",
            ),
            ExplainedView(drawing, []),
        ],
        notes=["A note."],
        making=[("Model", "mphil")],
        map=made(),
    )


def text_of(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html.split("<main>")[1]).split())


def test_the_page_says_it_all(view):
    text = text_of(render(view))
    for said in (
        "10 training molecules are nearest to it; 7 of 9 labels are its class.",
        "It is not in use: every training molecule is nearer to another.",
        "*C(=O)O 8 of 10 20 of 100 4.0x",
        "Part Importance Change of P(on) furan 0.50 +0.300 *O 0.20 -0.100",
        "Colour and removal disagree.",
        "The nearest training molecule, m7, has similarity 0.20.",
        "What the model looks for, found here part 3, for on",
        "It has no part that could be hidden.",
        "on, 0.93; in domain",
        "A note.",
    ):
        assert said in text


def test_text_cannot_become_markup(view):
    drawing = Drawing(BAD, DRAWING, BAD)
    group = replace(
        view.prototypes[0], name=BAD, shared=BAD, nearest=[drawing], fragments=[Fragment(BAD, (1, 1), (1, 1))]
    )
    page = render(
        replace(
            view,
            eyebrow=BAD,
            heading=BAD,
            lead=[BAD],
            notes=[BAD],
            prototypes=[group],
            explained=[ExplainedView(drawing, [PartRow(BAD, BAD, BAD, BAD, DRAWING)], BAD, BAD, [drawing], BAD)],
            making=[(BAD, BAD)],
        )
    )
    assert "<script>bad" not in page


def test_scripts_only_with_a_map(view):
    assert render(view).count("<script>") == 2
    bare = render(replace(view, map=None))
    assert "<script" not in bare
    assert "script-src 'none'" in bare


def test_sections_that_would_be_empty_are_left_out(view):
    page = render(replace(view, map=None, explained=[], prototypes=[]))
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", page) == ["How this page was made"]


def test_a_group_without_labels_or_parts(view):
    text = text_of(render(replace(view, prototypes=[replace(view.prototypes[0], same_class=(0, 0), fragments=[])])))
    assert "none has a label" in text
    assert "No part is more frequent here than elsewhere." in text
