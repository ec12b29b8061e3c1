"""The documents say what the code does."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def build():
    spec = importlib.util.spec_from_file_location("build", ROOT / "docs" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_reference_is_what_make_docs_writes(build):
    for name, text in build.pages().items():
        assert (ROOT / "docs" / "reference" / name).read_text() == text, f"run `make docs`: {name} is out of date"


def test_readme_shows_what_the_records_say(build):
    readme = (ROOT / "README.md").read_text()
    assert build.with_headline(readme) == readme, "run `make docs`"


@pytest.mark.parametrize(
    "document", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
        assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_example_of_a_callback_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "how-to" / "python.md").read_text(), re.DOTALL)
    (example,) = [block for block in blocks if "mphil.Callback" in block]
    exec(example, {})
    told = capsys.readouterr().out.splitlines()
    assert [line.partition(" {")[0] for line in told] == ["step 2 of 6", "1", "step 4 of 6", "step 6 of 6", "2"]


def test_every_page_is_in_the_contents():
    docs = ROOT / "docs"
    listed = re.findall(r"^[a-z-]+/[\w-]+$", (docs / "index.md").read_text(), re.MULTILINE)
    there = [
        page.relative_to(docs).with_suffix("").as_posix() for page in docs.rglob("*.md") if page.name != "index.md"
    ]
    assert sorted(listed) == sorted(there)


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", ROOT / "docs", tmp_path]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stderr) == (0, "")
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        assert not re.findall(r'(?:src|href)="https?://[^"]*\.(?:js|css)', page.read_text()), page


def test_the_citation_names_the_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text()
