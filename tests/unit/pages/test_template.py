from __future__ import annotations

import ast
import base64
import hashlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from jinja2 import UndefinedError

import mphil
from mphil.pages.elements import Markup, element
from mphil.pages.template import Grid, Section, TableCell, code_pieces, data_url, page

MARKUP = re.compile(
    r"</?(a|article|b|body|button|canvas|circle|code|dd|details|div|dl|dt|figcaption|figure|g|h\d|head|header|html|img|"
    r"input|li|main|nav|p|path|pre|rect|script|section|span|strong|style|summary|svg|table|td|text|th|tr|ul)\b"
)
MADE_BY_RDKIT = "chem/draw.py"
"""Puts layers around and behind what RDKit draws, which is SVG text."""


def shown(*sections: Section, **options) -> str:
    return page("sections", "t", eyebrow="", headline="", lead="", sections=sections, **options)


def shown_table(*arguments, **options) -> str:
    return shown(Section("a", "A", tables=[Grid(*arguments, **options)]))


def test_policy_names_exactly_the_scripts_of_the_page():
    html = shown(scripts=["sort.js", "map.js"])
    inside = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in inside]
    assert len(inside) == 2
    assert f"script-src 'sha256-{digests[0]}' 'sha256-{digests[1]}'\"" in html
    assert "default-src 'none'" in html


def test_page_without_scripts_allows_none():
    assert "script-src 'none'" in shown()


def test_all_text_is_escaped_and_no_value_is_a_template():
    html = page("sections", "<b>", eyebrow="{{ 7 * 7 }}", headline="{% raw %}", lead="a\x00b", sections=[])
    assert "<title>&lt;b&gt;</title>" in html
    assert "{{ 7 * 7 }}" in html
    assert "<h1>{% raw %}</h1>" in html
    assert "a\ufffdb" in html


def test_a_forgotten_value_is_an_error():
    with pytest.raises(UndefinedError, match="lead"):
        page("sections", "t", eyebrow="", headline="", sections=[])


def test_table_names_its_rows_and_columns():
    html = shown_table("A < B", ["Method", "Score"], {"chosen & kept": [[TableCell("ERM", "blue"), "1"]]})
    assert "<caption>A &lt; B</caption>" in html
    assert html.count('scope="col"') == 2
    assert '<th scope="row"><span class="dot"' in html
    assert 'scope="rowgroup" colspan="2">chosen &amp; kept<' in html
    assert '<td class="number">1</td>' in html


def test_a_column_of_running_text_wraps_between_words_alone():
    html = shown_table("A", ["x", "n", "run"], [["r", "1", "go --to <b>"]], running={2}, kind="wide")
    assert '<table class="wide">' in html
    assert '<th scope="col" class="running">run</th>' in html
    assert '<td class="number">1</td><td class="running">go <span>--to</span> &lt;b&gt;</td>' in html


def test_a_cell_may_stand_out():
    html = shown_table("A", ["x", "y"], [["r", TableCell("<1>", strong=True)]])
    assert '<td class="number"><strong>&lt;1&gt;</strong></td>' in html


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("plain", ["plain"]),
        ("use `a<b` & go", ["use ", "a<b", " & go"]),
        ("a ` b", ["a ` b"]),
        ("`a` ` b", ["", "a", " ` b"]),
    ],
)
def test_backquotes_mark_code_and_one_without_a_partner_is_a_character(text, pieces):
    assert code_pieces(text) == pieces


def test_an_image_holds_the_svg_whatever_encoding_it_declares():
    address = data_url("<?xml version='1.0' encoding='iso-8859-1'?><svg>Å</svg>")
    data = base64.b64decode(address.removeprefix("data:image/svg+xml;base64,"))
    assert data == b"<?xml version='1.0' encoding='iso-8859-1'?><svg>&#197;</svg>"


def test_elements_escape_text_but_not_elements():
    inner = element("b", "<1>", title='"')
    assert inner == '<b title="&quot;">&lt;1&gt;</b>'
    assert isinstance(inner, Markup)
    assert element("g", inner, "&") == f"<g>{inner}&amp;</g>"
    assert "<b" not in element("g", inner + "")


def test_pages_are_made_without_torch_and_imported_without_jinja():
    code = (
        "import sys, mphil.pages.demo_page, mphil.pages.samples; sys.exit(bool({'torch', 'jinja2'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_there_is_no_markup_in_python():
    root, found = Path(mphil.__file__).parent, []
    for path in root.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        name = path.relative_to(root).as_posix()
        found += [f"{name}:{node.lineno}" for node in texts if id(node) not in docstrings and MARKUP.search(node.value)]
    assert [place for place in found if not place.startswith(MADE_BY_RDKIT)] == []
    assert found, "the check can fail"
