"""The notebooks of the documents run from top to bottom; what they print is not kept."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))


def cells(name: str) -> list[dict]:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))["cells"]


def slowly(name: str):
    """These train several models each."""
    return pytest.param(name, marks=pytest.mark.slow)


def test_there_are_some():
    assert NOTEBOOKS == ["1-first-model.ipynb", "2-scikit-learn.ipynb", "3-explain-and-trust.ipynb"]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_outputs_are_not_kept(name):
    document = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in document["cells"]}) == len(document["cells"])
    for cell in document["cells"]:
        assert cell["cell_type"] in ("markdown", "code")
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)


@pytest.mark.parametrize("name", [*map(slowly, NOTEBOOKS[:2]), *NOTEBOOKS[2:]])
def test_notebook_runs(name, tmp_path, monkeypatch):
    """Cell after cell, in an empty folder, with every warning an error."""
    code = ["".join(cell["source"]) for cell in cells(name) if cell["cell_type"] == "code"]
    script = tmp_path / "notebook.py"
    script.write_text("\n\n".join(code), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="notebook")
