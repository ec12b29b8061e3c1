"""The page of sample graphs, whatever names its data have."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from mphil.benchmarks import benchmark
from mphil.pages.samples import sample_page

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>&\"'"


class Tags(HTMLParser):
    """Collects the tags of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)


def tags(text: str) -> list[str]:
    parser = Tags()
    parser.feed(text)
    return parser.found


@pytest.mark.parametrize("name", ["decoy-scaffold", "good-motif-basis"])
def test_names_are_text(name):
    data = benchmark(name, graphs=60)
    facts = {**data.statistics(), "summary": "A summary.", "source": "A source."}
    hostile = replace(data, name=HOSTILE, classes=(HOSTILE,) * 10)
    page = sample_page(hostile, facts | {"summary": HOSTILE, "source": HOSTILE})
    assert "&lt;script&gt;" in page
    assert tags(page) == tags(sample_page(replace(data, classes=("a",) * 10), facts))
