from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys

from mphil.pages.document import Cell, RowGroup, image, page, paragraph, table


def test_policy_names_exactly_the_scripts_of_the_page():
    script = "document.title = 'ü'"
    html = page("t", "<p>x</p>", scripts=[script])
    inside = re.search(r"<script>(.*)</script>", html).group(1)
    digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'\"" in html
    assert "default-src 'none'" in html


def test_page_without_scripts_allows_none():
    assert "script-src 'none'" in page("t", "")


def test_title_is_escaped():
    assert "<title>&lt;b&gt;</title>" in page("<b>", "")


def test_table_names_its_rows_and_columns():
    html = table("A < B", ["Method", "Score"], [RowGroup([[Cell("ERM", "blue"), "1"]], "chosen & kept")])
    assert "<caption>A &lt; B</caption>" in html
    assert html.count('scope="col"') == 2
    assert '<th scope="row">' in html
    assert 'scope="rowgroup" colspan="2">chosen &amp; kept<' in html
    assert '<td class="number">1</td>' in html


def test_a_column_of_running_text_wraps_between_words_alone():
    html = table("A", ["x", "n", "run"], [RowGroup([["r", "1", "go --to <b>"]])], running={2}, kind="wide")
    assert '<table class="wide">' in html
    assert '<th scope="col" class="running">run</th>' in html
    assert '<td class="number">1</td><td class="running">go <span>--to</span> &lt;b&gt;</td>' in html


def test_a_cell_may_stand_out():
    html = table("A", ["x", "y"], [RowGroup([["r", Cell("<1>", strong=True)]])])
    assert '<td class="number"><strong>&lt;1&gt;</strong></td>' in html


def test_paragraph_marks_code_and_escapes_both():
    assert paragraph("use `a<b` & go") == "<p>use <code>a&lt;b</code> &amp; go</p>"


def test_unpaired_backquote_is_a_character():
    assert paragraph("a ` b") == "<p>a ` b</p>"


def test_image_holds_the_svg_whatever_encoding_it_declares():
    html = image("<?xml version='1.0' encoding='iso-8859-1'?><svg>Å</svg>", 'a "b"')
    data = base64.b64decode(re.search(r"base64,([^\"]+)", html).group(1))
    assert data == b"<?xml version='1.0' encoding='iso-8859-1'?><svg>&#197;</svg>"
    assert 'alt="a &quot;b&quot;"' in html


def test_pages_are_made_without_torch():
    code = "import sys, mphil.pages.demo, mphil.pages.graphs; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
