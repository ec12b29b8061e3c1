"""Run the notebooks and keep their outputs: `pip install nbclient ipykernel`, then `python docs/notebooks/execute.py`.

Each runs in an empty folder. Names given as arguments run alone.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent


def execute(path: Path) -> None:
    document = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(document, timeout=None, resources={"metadata": {"path": folder}}, record_timing=False).execute()
    document.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    nbformat.write(document, path)


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted(path.name for path in FOLDER.glob("*.ipynb")):
        execute(FOLDER / name)
