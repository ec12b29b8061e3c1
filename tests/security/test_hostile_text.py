"""Names from outside, made to do harm, in all that we write: pages, tables, workbooks, LaTeX and the terminal."""

import csv
import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from openpyxl import load_workbook

from mphil.benchmarks.catalogue import benchmark
from mphil.cli import show
from mphil.errors import UsageError
from mphil.lab.report.document import (
    Bars,
    Chapter,
    Curves,
    Document,
    Dots,
    DrawnMolecules,
    RankDiagram,
    ReportTable,
    Scatter,
)
from mphil.lab.report.latex import latex
from mphil.lab.report.rendering import html, markdown, svg
from mphil.lab.suite import parse_suite
from mphil.model.bundle import read_bundle, write_bundle
from mphil.pages.samples import sample_page
from mphil.tables.write import is_formula
from tests.bundles import written
from tests.command import call
from tests.products import molecules, write_table

pytestmark = pytest.mark.promise("hostile text")

MARKUP = "`\"><x-evil onx=1>'</script><x-evil></title></style><!-- {{7*7}} {% raw %}"
FORMULA = "=cmd|' /C calc'!A0"
LATEX = r"\input{/etc/passwd} $x^2$ 100% & # _ ~ {"
CONTROL = "bell\x07 colour\x1b[31m [/red] [link=x]"
HOSTILE = (MARKUP, FORMULA, LATEX, CONTROL, "+1+1", "@SUM(A1)", "-2+3", 'a,b;"c"')
STEERING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class Elements(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.comments = set(), set(), []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_comment(self, data):
        self.comments.append(data)


def assert_page(text: str, *names: str) -> None:
    """Nothing of a name became an element, an attribute, a comment or a control character."""
    found = Elements(text)
    assert "x-evil" not in found.tags
    assert not {name for name in found.attributes if name.startswith("on")}
    assert found.comments == []
    assert not STEERING.search(text)
    assert "</html>" in text
    assert "{{7*7}} {% raw %}" in text, "a name is not a template"
    for name in names:
        assert name in text


def assert_table(text: str, delimiter: str = ",") -> None:
    """No cell is a formula for a spreadsheet."""
    for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
        assert not [cell for cell in row if is_formula(cell)]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A bundle in which every name is hostile."""
    folder = written(tmp_path_factory.mktemp("hostile") / "bundle")
    found = read_bundle(folder)
    facts = {"file": MARKUP + FORMULA, "rows": 10, "split": CONTROL, "note": LATEX}
    config = found.config.model_copy(update={"targets": (MARKUP,), "classes": (FORMULA, CONTROL), "data": facts})
    write_bundle(folder, replace(found, config=config, metrics={MARKUP: CONTROL}))
    return folder


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table in which every name is hostile but the one of the molecules."""
    names = [HOSTILE[i % len(HOSTILE)] for i in range(len(molecules()))]
    columns = {FORMULA: names, "smiles": molecules(), MARKUP: names, CONTROL: names, "\t" + LATEX: names}
    return write_table(tmp_path_factory.mktemp("table") / "x.csv", columns)


class TestPredictions:
    @pytest.mark.parametrize("suffix", ["csv", "tsv"])
    def test_text(self, bundle, table, tmp_path, suffix, figure):
        out = tmp_path / f"out.{suffix}"
        ended = call("predict", bundle, table, "--out", out)
        assert ended.code == 0, ended
        assert_table(out.read_text(), "," if suffix == "csv" else "\t")
        figure(f"{suffix}: {len(molecules())} rows, no cell a formula")
        assert not STEERING.search(ended.out + ended.err)

    def test_a_workbook(self, bundle, table, tmp_path, figure):
        assert call("predict", bundle, table, "--out", tmp_path / "out.xlsx").code == 0
        (sheet,) = load_workbook(tmp_path / "out.xlsx").worksheets
        cells = [cell for row in sheet.iter_rows() for cell in row]
        assert len(cells) > len(molecules())
        assert "f" not in {cell.data_type for cell in cells}
        assert not [cell.value for cell in cells if isinstance(cell.value, str) and STEERING.search(cell.value)]
        figure(f"xlsx: {len(cells):,} cells, none a formula")

    def test_explanations(self, bundle, table, tmp_path):
        ended = call("explain", bundle, table, "--out", tmp_path / "out", "--limit", 3)
        assert ended.code == 0, ended
        assert_page((tmp_path / "out" / "index.html").read_text(), "&lt;x-evil")
        for file in (tmp_path / "out").glob("*.csv"):
            assert_table(file.read_text())
        assert not STEERING.search(ended.out + ended.err)


class TestData:
    def test_the_survey_of_a_table(self, tmp_path):
        labels = [FORMULA, MARKUP] * (len(molecules()) // 2)
        columns = {"smiles": molecules(), MARKUP: labels, CONTROL: labels}
        own = write_table(tmp_path / "x.csv", columns)
        ended = call("check", own, "--target", MARKUP, "--html", tmp_path / "check.html")
        assert ended.code == 0, ended
        assert_page((tmp_path / "check.html").read_text(), "&lt;x-evil")
        assert not STEERING.search(ended.out + ended.err)

    @pytest.mark.parametrize("name", ["decoy-scaffold", "good-motif-basis"])
    def test_samples_of_a_benchmark(self, name):
        data = benchmark(name, graphs=300)
        classes = tuple(HOSTILE[i % len(HOSTILE)] for i in range(data.task.n_classes))
        data = replace(data, name=MARKUP, classes=classes)
        assert_page(sample_page(data, data.statistics() | {"summary": MARKUP, "source": CONTROL}), "&lt;x-evil")


class TestLab:
    @pytest.fixture
    def document(self):
        """A report with every kind of block, and nothing but hostile names."""
        numbers, many = dict.fromkeys(HOSTILE, 0.5), {name: [0.5, 0.6] for name in HOSTILE}
        told = " ".join(HOSTILE)
        blocks = [
            ReportTable(told, HOSTILE, [HOSTILE] * 2, frozenset({(0, 1)}), HOSTILE),
            Curves(told, told, told, [1, 2], many, caption=told),
            Bars(told, told, numbers, caption=told),
            Dots(told, told, many, marks=dict.fromkeys(HOSTILE, numbers), caption=told),
            RankDiagram(told, numbers, 0.1, [HOSTILE[:2]], caption=told),
            Scatter(told, np.eye(2).tolist(), [0, 1], caption=told),
            DrawnMolecules(told, [("CCO", [0.0, 0.5, 1.0], told)], told),
        ]
        chapter = Chapter(MARKUP, told, HOSTILE, blocks, [(told, f"mphil train\n{told}")], page="suite")
        return Document([chapter], HOSTILE, [replace(chapter, page="method")])

    def test_pages(self, document, figure):
        pages = html(document)
        assert len(pages) == 3
        for text in pages.values():
            assert_page(text)
        figure(f"{len(HOSTILE)} names in {len(pages)} pages of a report, none became markup")

    def test_figures(self, document):
        for block in document.chapters[0].blocks:
            if not isinstance(block, ReportTable | DrawnMolecules):
                found = Elements(svg(block))
                assert "x-evil" not in found.tags
                assert not STEERING.search(svg(block))

    def test_latex(self, document):
        text = latex(document)
        assert not STEERING.search(text)
        assert r"\input{" not in text
        body = text.partition(r"\begin{document}")[2]
        assert not re.search(r"(?<!\\)[%#&$](?![^\n]*\\\\)", re.sub(r" & ", "", body).replace("{%\n", "{\n"))
        assert body.count("{") - body.count(r"\{") == body.count("}") - body.count(r"\}")

    def test_markdown(self, document):
        text = markdown(document)
        assert not STEERING.search(text)
        outside = "\n".join(line for line in text.splitlines() if not line.startswith("    "))
        assert not re.search(r"(?<!\\)<", outside)

    @pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "", "a\nb", "a\x1b", "a\\b"])
    def test_a_suite_is_no_path(self, name):
        text = 'title = "t"\nbenchmarks = ["decoy-scaffold"]\nmethods = ["erm"]\n'
        assert parse_suite("my suite", text).name == "my suite"
        with pytest.raises(UsageError, match="suite"):
            parse_suite(name, text)


def test_tables_on_the_terminal(capsys):
    show.table(HOSTILE, [HOSTILE], title=MARKUP)
    text = capsys.readouterr().out
    assert "[/red]" in text.replace("\n", "")
    assert not STEERING.search(text)
