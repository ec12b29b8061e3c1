"""The documents say what the code does."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import mphil
from mphil.lab.cells import expand
from mphil.lab.records import read_folder
from mphil.lab.suite import load_suite
from mphil.methods import METHODS, register
from mphil.methods.erm import ERM
from tests.promised import PROMISES

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def build():
    spec = importlib.util.spec_from_file_location("build", ROOT / "docs" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_reference_is_what_make_docs_writes(build):
    described = (ROOT / "docs" / "reference" / "methods.md").read_text()
    # A new method waits for the next `make docs`.
    names = [name for name in METHODS if f"\n## {build.heading(name)}\n" in described]
    for name, text in build.pages(names).items():
        assert (ROOT / "docs" / "reference" / name).read_text() == text, f"run `make docs`: {name} is out of date"


def test_a_new_method_needs_no_other_file(build, plugged):
    @register("quite-new", paper="none")
    class QuiteNew(ERM):
        """Nothing has been measured or published."""

    assert "| [quite-new](#quite-new) |" in build.methods()
    assert "## quite-new\n\nNothing has been measured or published.\n" in build.pages()["methods.md"]


def test_readme_shows_what_the_records_say(build):
    readme = (ROOT / "README.md").read_text()
    assert build.with_headline(readme) == readme, "run `make docs`"
    assert build.PICTURE.read_text() == build.picture(), "run `make docs`"


def test_readme_says_so_where_the_tool_has_no_records(build, monkeypatch):
    monkeypatch.setattr(build._script("product"), "present", lambda *_: [])
    assert build.tool_summary() == "The default of `mphil train FILE` has no records in its present form yet."


def test_the_page_of_promises_shows_what_the_records_say(build):
    page = build.RELIABILITY.read_text()
    assert build.with_promises(page, build.promises()) == page, "run `make docs`"


def test_the_page_of_the_method_shows_what_decisions_cost(build):
    page = build.METHOD.read_text()
    assert build.with_costs(page, read_folder(build.RECORDS)[0]) == page, "run `make docs`"
    switches = {key for line in page.split(build.DECIDED)[1].splitlines() for key in re.findall(r"`(\w+)", line)}
    for variant in load_suite("decisions").variants:
        assert variant.settings["method"].keys() & switches, f"no decision names a switch of {variant.name}"


def test_the_page_of_the_method_shows_the_records_of_its_studies(build):
    page = build.METHOD.read_text()
    assert build.with_studies(page, read_folder(build.RECORDS)[0]) == page, "run `make docs`"


def test_a_study_tells_mean_deviation_and_seeds(build):
    cells = {(cell.row, cell.benchmark, cell.seed): cell for cell in expand(load_suite("repaired"))}
    made_up = [
        {"kind": "run", "setting": cells[name, on, seed].setting, "seed": seed, "last5": {"ood_val": score}}
        for name, on, by_seed in (
            ("mphil", "good-motif-size", (0.5, 0.6)),
            ("mphil", "drugood-ec50-assay", (0.7,)),
            ("repaired", "good-motif-size", (0.4, 0.4)),
        )
        for seed, score in enumerate(by_seed)
    ]
    assert build.study("repaired", 3, made_up).splitlines()[2:] == [
        "| mphil | 55.0 (7.1) | 70.0, 1 of 2 seeds | - |",
        "| repaired | 40.0 (0.0) | - | - |",
    ]


def test_the_cost_of_a_decision_is_a_paired_difference(build):
    cells = {(cell.row, cell.benchmark, cell.seed): cell for cell in expand(load_suite("decisions"))}
    scores = {
        ("mphil", "good-motif-size"): (0.50, 0.60),
        ("class-mean start", "good-motif-size"): (0.52, 0.64),
        ("one prototype", "good-motif-size"): (0.40,),
        ("one prototype without separation", "good-motif-size"): (0.41, 0.99),
    }
    made_up = [
        {"kind": "run", "setting": cells[*place, seed].setting, "seed": seed, "last5": {"ood_val": score}}
        for place, by_seed in scores.items()
        for seed, score in enumerate(by_seed)
    ]
    told = build.with_costs(build.METHOD.read_text(), made_up)
    assert "| class-mean start: Motif-size +3.0 (-9.7 to 15.7; 2 seeds) |" in told
    assert "| one prototype without separation: Motif-size +1.0 (1 seed) |" in told
    assert "| product scores: not measured |" in told
    assert "| momentum 0.9: not measured;<br>mean update: not measured |" in told
    assert build.with_costs(told, []) == build.with_costs(build.METHOD.read_text(), [])


def test_a_broken_promise_and_one_that_was_not_tried_are_told(build):
    page = build.RELIABILITY.read_text()
    broken = {"test": "tests/x.py::x", "promise": "sweeps", "outcome": "failed", "figure": "", "load": 1.0}
    broken |= {"date": "2026-01-01", "machine": {"processor": "some", "cores": 2}}
    measured = [broken | {"test": f"tests/x.py::{load}", "promise": "traversal", "load": load} for load in (2.0, 4.4)]
    measured[1]["figure"] = "9 paths"
    alike = [broken | {"test": f"tests/y.py::{load}", "promise": "determinism", "load": load} for load in (2.6, 3.4)]
    told = build.with_promises(page, [broken, *measured, *alike])
    assert "| sweeps | **broken**: `tests/x.py::x` | 2026-01-01 | 1 |" in told
    assert "; **broken**: `tests/x.py::4.4`, 9 paths | 2026-01-01 | 2 to 4 |" in told
    assert re.search(r"determinism .* \| 2026-01-01 \| 3 \|", told)
    assert "| fuzzing | not yet run in full |" in told
    assert "| supply chain | `make test` runs all of it |" in told
    missing = told.count("not yet run in full") + told.count("runs all of it |")
    assert missing == len(PROMISES) - 3


@pytest.mark.parametrize(
    "document", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
        assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_every_page_is_two_clicks_from_the_readme():
    def linked(page):
        return {(page.parent / target).resolve() for target in re.findall(r"\]\(([^)#:]+\.md)[)#]", page.read_text())}

    first = linked(ROOT / "README.md")
    reached = first.union(*(linked(page) for page in first))
    assert set((ROOT / "docs").rglob("*.md")) <= reached
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize("document", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))])
def test_pages_are_markdown_that_shows_all_it_says(document):
    text = document.read_text()
    assert ":math:`" not in text, "a formula of a docstring is not one of Markdown"
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        cells = [len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()]
        assert set(cells) == {cells[0]}, f"a bar ends a cell: {table.splitlines()[0]}"


@pytest.mark.parametrize("document", sorted((ROOT / "docs").rglob("*.md")))
def test_pages_begin_by_saying_what_they_are_for(document):
    lines = document.read_text().partition("\n# ")[2] or document.read_text()
    first = lines.split("\n\n")[1]
    assert not first.startswith(("#", "    ", "```", "|")), first


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


def test_every_public_name_is_in_the_reference():
    described = re.findall(
        r"auto(?:function|class):: mphil\.(\w+)$", (ROOT / "docs/reference/api.md").read_text(), re.M
    )
    assert sorted(described) == sorted(mphil.__all__)


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


def test_the_examples_of_plugins_run(plugged, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "how-to" / "plugins.md").read_text(), re.DOTALL)
    (focused,) = [block for block in blocks if "class Focused" in block]
    exec(focused, {"__name__": "focused_example"})
    assert METHODS["focused"].search_space == {"weight": [0.1, 1.0, 10.0]}

    graphs = mphil.benchmark("good-motif-basis", graphs=100).store.to_pyg()
    monkeypatch.setattr("torch_geometric.datasets.TUDataset", lambda folder, name: graphs)
    (mutag,) = [block for block in blocks if "TUDataset" in block]
    assert len(mutag.partition("\n")[2].strip().splitlines()) == 10, "ten lines below the name of the file"
    exec(mutag, {"__name__": "mutag_example"})
    run = mphil.train("mutag", "focused", encoder={"width": 4}, train={"epochs": 1, "batch_size": 20})
    assert run.config.benchmark.args == {"folder": "data"}
