"""The package as it is installed: a wheel with compiled loops, built from the checkout, used without a compiler."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from mphil.nn.fast.compiling import LEVELS, PRECISIONS, compiler, level

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(compiler() is None or level() is None, reason="needs a C compiler and an x86-64 processor"),
]


def build(out, **environment):
    pytest.importorskip("setuptools", reason="builds without isolation, so setuptools must be installed")
    source = out / "source"
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name in tracked:
        if name.startswith("src/") or "/" not in name:
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", out, source]
    subprocess.run(command, check=True, env=os.environ | environment)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build(tmp_path_factory.mktemp("wheel"))


def test_a_compiler_that_refuses_costs_the_libraries_alone(tmp_path):
    made = build(tmp_path, CC="/bin/false")
    names = zipfile.ZipFile(made).namelist()
    assert "mphil/nn/fast/kernels.c" in names
    assert not [name for name in names if "/built/" in name]


def test_it_has_a_library_for_each_level_and_fits_any_python(wheel):
    assert wheel.name.split("-")[2:4] == ["py3", "none"]
    built = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".so")]
    assert len(built) == len(LEVELS) * len(PRECISIONS)
    assert all(name.startswith("mphil/nn/fast/built/") for name in built)


def test_it_runs_the_fast_path_without_a_compiler(wheel, tmp_path):
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", tmp_path / "site", wheel]
    subprocess.run(install, check=True)
    code = "import mphil; from mphil.nn.fast.library import status; print(mphil.__file__, status().reason)"
    nowhere = {"PATH": "", "HOME": str(tmp_path), "MPHIL_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=nowhere | {"PYTHONPATH": str(tmp_path / "site")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    site = str(tmp_path / "site")
    assert done.stdout.startswith(f"{site}/mphil/__init__.py compiled, {site}/mphil/nn/fast/built/float-")
    assert not (tmp_path / "cache" / "kernels").exists()
