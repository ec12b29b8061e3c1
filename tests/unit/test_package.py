"""`import mphil` and `mphil --help` cost nothing; the public names are there."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mphil
from tests.products import binary_table

HEAVY = {"torch", "rdkit", "torch_geometric", "sklearn", "numpy"}
SLOW_TO_IMPORT = {"torch_geometric", "torch._dynamo", "sympy", "pandas", "pyarrow", "scipy", "sklearn"}
"""Seconds of start-up that a prediction does not need; the optimisers of torch import its compiler."""


def imported_by(code, names=HEAVY):
    """Which of the names are loaded once the code has run."""
    command = [sys.executable, "-c", f"import sys\n{code}\nprint(sorted({names} & sys.modules.keys()))"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def run_command(arguments, code=0):
    """Code that runs a command of the tool, which must end with this exit code, and goes on after it."""
    return f"""
from mphil.cli import main
sys.argv = ["mphil", *{arguments}]
try:
    main()
except SystemExit as end:
    if (end.code or 0) != {code}:
        raise
"""


def test_importing_the_package_imports_nothing_heavy():
    assert imported_by("import mphil") == "[]"


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["benchmarks", "show", "--help"], []])
def test_help_imports_nothing_heavy(arguments):
    assert imported_by(run_command(arguments, code=0 if arguments else 2)) == "[]"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A bundle of a small table, and what the process that made it had imported."""
    folder = tmp_path_factory.mktemp("light")
    table = binary_table(folder / "table.csv")
    settings = ["train.epochs=1", "encoder.width=8", "encoder.layers=2"]
    options = [word for setting in settings for word in ("--set", setting)]
    command = [
        "train",
        str(table),
        "--target",
        "active",
        "--out",
        str(folder / "run"),
        "--fast",
        "--no-baselines",
        *options,
    ]
    return folder / "run" / "bundle", table, imported_by(run_command(command), {"torch_geometric"})


def test_training_on_a_table_does_not_import_pyg(bundle):
    assert bundle[2] == "[]"


def test_a_prediction_imports_little_besides_torch_and_rdkit(bundle, tmp_path):
    made, table, _ = bundle
    row = tmp_path / "row.csv"
    row.write_text("".join(table.read_text().splitlines(keepends=True)[:2]))
    command = ["predict", str(made), str(row), "--out", str(tmp_path / "answers.csv")]
    assert imported_by(run_command(command), SLOW_TO_IMPORT) == "[]"
    assert len((tmp_path / "answers.csv").read_text().splitlines()) == 2


def test_the_check_can_fail():
    assert "numpy" in imported_by("import numpy")


@pytest.mark.parametrize("name", mphil.__all__)
def test_public_names_resolve(name):
    assert getattr(mphil, name).__name__ == name
    assert name in dir(mphil)


def test_names_are_complete():
    assert set(mphil.__all__) == set(mphil._HOMES)


def test_other_names_are_refused():
    with pytest.raises(AttributeError, match="module 'mphil' has no attribute 'trian'"):
        mphil.trian  # noqa: B018


SKIPPED_BY_TOOLS = {"build", "_build", "dist", "buck-out", "node_modules", "site-packages", "venv"}
"""Folders that pytest does not collect and ruff does not read."""


def test_no_folder_has_a_name_that_pytest_or_ruff_skips():
    root = Path(__file__).parents[2]
    folders = [path for top in ("src", "tests", "benchmarks") for path in (root / top).rglob("*") if path.is_dir()]
    assert [str(path) for path in folders if path.name in SKIPPED_BY_TOOLS] == []


def test_no_two_classes_have_the_same_name():
    found: dict[str, list[str]] = {}
    for path in Path(mphil.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(path.name)
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
