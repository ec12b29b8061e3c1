from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mphil.pages.elements import escape, known, listing, number


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(f'<a b="{escape(text)}">{escape(text)}</a>')


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(codec=None)))
def test_any_text_stays_text(text):
    assert len(parsed(text)) == 0


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1))
def test_what_can_be_printed_arrives_unchanged(text):
    assert parsed(text).text == text


def test_what_xml_cannot_hold_is_replaced():
    assert escape("a\x00b\ud800") == "a\ufffdb\ufffd"


@pytest.mark.parametrize(
    ("value", "text"), [(0.5, "0.5"), (12.0, "12"), (-0.0001, "0"), (100, "100"), (1 / 3, "0.333")]
)
def test_number(value, text):
    assert number(value) == text


def test_known():
    assert [known(v) for v in (None, math.nan, math.inf, 1)] == [None, None, None, 1.0]


def test_listing():
    assert [listing(list("abc")[:n]) for n in (1, 2, 3)] == ["a", "a and b", "a, b and c"]
