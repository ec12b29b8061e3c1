"""The notebooks of the documents run from top to bottom, and hold what they printed."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

from mphil.methods import METHODS

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))


def cells(name: str) -> list[dict]:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))["cells"]


def test_there_are_some():
    assert NOTEBOOKS == [
        "1-first-model.ipynb",
        "2-scikit-learn.ipynb",
        "3-explain-and-trust.ipynb",
        "4-researcher.ipynb",
    ]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_outputs_are_kept(name):
    document = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in document["cells"]}) == len(document["cells"])
    code = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == [*range(1, len(code) + 1)], "run docs/notebooks/execute.py"
    outputs = [output for cell in code for output in cell["outputs"]]
    assert outputs
    for output in outputs:
        assert output["output_type"] in ("stream", "execute_result", "display_data")
        assert output.get("name") != "stderr", "warnings and progress would be shown in red"
    assert not re.search(r"/(home|root|tmp|work|Users)/", json.dumps(outputs)), "a path of some machine"


@pytest.mark.parametrize("name", [*NOTEBOOKS[:3], pytest.param(NOTEBOOKS[3], marks=pytest.mark.slow)])
def test_notebook_runs(name, tmp_path, monkeypatch, plugged, capsys):
    """Cell after cell, in an empty folder, with every warning an error; it prints scores of the models it has kept."""
    code = ["".join(cell["source"]) for cell in cells(name) if cell["cell_type"] == "code"]
    script = tmp_path / "notebook.py"
    script.write_text("\n\n".join(code), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(METHODS, "_listed", False)  # as in a new process, which has not looked for plug-ins yet
    runpy.run_path(str(script), run_name="notebook")
    outputs = [output for cell in cells(name) for output in cell.get("outputs", ())]
    kept = "".join(text for output in outputs for text in output.get("text", ()))
    assert scored(kept) == scored(capsys.readouterr().out), "run docs/notebooks/execute.py"


def scored(text: str) -> list[str]:
    """The models that a table of scores names."""
    return re.findall(r"^(\S.*?) +id_test ", text, re.M)
