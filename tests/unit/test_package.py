"""`import mphil` and `mphil --help` cost nothing; the public names are there."""

import subprocess
import sys

import pytest

import mphil

HEAVY = "print(sorted({'torch', 'rdkit', 'torch_geometric', 'sklearn', 'numpy'} & sys.modules.keys()))"


def imported_by(code):
    """Heavy packages that are loaded once the code has run."""
    command = [sys.executable, "-c", f"import sys\n{code}\n{HEAVY}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1]


def test_importing_the_package_imports_nothing_heavy():
    assert imported_by("import mphil") == "[]"


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["benchmarks", "show", "--help"], []])
def test_help_imports_nothing_heavy(arguments):
    code = f"""
from mphil.cli import main
sys.argv = ["mphil", *{arguments}]
try:
    main()
except SystemExit:
    pass
"""
    assert imported_by(code) == "[]"


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
