"""How the loops are built, found again, and done without."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pytest
import torch

from mphil.graphs.cache import cache_folder
from mphil.graphs.store import GraphStore
from mphil.nn.encoders import Encoder, build_encoder
from mphil.nn.fast import compiling, library, loading
from mphil.nn.fast.library import kernels, status
from tests.graphs import random_store, small_encoder, whole

KEPT = cache_folder() / "kernels"
"""Libraries that were built before: building takes seconds, so most tests begin with a copy."""

available = pytest.mark.skipif(status().library is None, reason=status().reason)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A process that has not asked for the loops yet, and an empty cache folder."""
    monkeypatch.setenv("MPHIL_CACHE", str(tmp_path))
    monkeypatch.setenv("MPHIL_FAST", "1")
    library.status.cache_clear()
    yield tmp_path / "kernels"
    library.status.cache_clear()


@available
def test_built_once_and_found_again(fresh, monkeypatch):
    first = status()
    (file,) = fresh.glob("*.so")
    assert first.library is not None
    assert str(file) in first.reason
    library.status.cache_clear()
    monkeypatch.setattr(library, "compile_library", lambda *_: pytest.fail("it was built already"))
    assert status().library is not None


@available
def test_a_damaged_file_is_built_again(file):
    whole_file = file.read_bytes()
    file.unlink()
    file.write_bytes(whole_file[:5000])
    library.status.cache_clear()
    assert status().library is not None
    assert file.read_bytes() == whole_file


@available
@pytest.mark.parametrize("name", ["kernels.c", pytest.param("kernels.h", marks=pytest.mark.slow)])
def test_another_source_is_another_file(name, file, monkeypatch, tmp_path):
    changed = shutil.copytree(compiling.FOLDER, tmp_path / "changed")
    with (changed / name).open("a") as source:
        source.write("\n/* changed */\n")
    kept = set(file.parent.glob("*.so"))
    monkeypatch.setattr(compiling, "FOLDER", changed)
    assert status().library is not None
    (new,) = set(file.parent.glob("*.so")) - kept
    assert str(new) in status().reason
    assert file in kept


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("MPHIL_FAST", "0", "MPHIL_FAST=0"),
        ("PATH", "", "no C compiler"),
    ],
)
def test_done_without(fresh, monkeypatch, name, value, reason):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv(name, value)
    assert status().library is None
    assert reason in status().reason
    assert kernels(torch.ones(1)) is None


def test_a_compiler_that_fails(fresh, monkeypatch, tmp_path, caplog):
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\n[ $1 = --version ] || { echo 'bad day' >&2; exit 1; }\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    assert status().library is None
    assert "bad day" in status().reason
    assert "pure torch" in caplog.text


@pytest.fixture
def file(fresh: Path) -> Path:
    """A library that was built and kept."""
    if KEPT.is_dir():
        shutil.copytree(KEPT, fresh)
        fresh.chmod(0o700)
    found = Path(status().reason.removeprefix("compiled, "))
    library.status.cache_clear()
    return found


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a file belong to another user: by root truly, else by being another user ourselves."""
    if os.getuid() == 0:
        os.chown(path, 54321, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 54321)


def compile_text(source: str, out: Path) -> Path:
    command = [library.compiler(), "-x", "c", "-shared", "-fPIC", "-", "-o", str(out)]
    subprocess.run(command, input=source, text=True, check=True)
    out.chmod(0o700)
    return out


def ask_again() -> library.Status:
    library.status.cache_clear()
    return status()


def copying_compiler(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that says it is the real one and gives out what was compiled before, at once."""
    script = kept.with_suffix(".sh")
    script.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exec {compiling.compiler()} --version\n'
        f'while [ "$1" != -o ]; do shift; done\ncat {kept} > "$2"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))


def without_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    assert compiling.compiler() is None


@available
def test_what_was_kept_serves_without_a_compiler(file, monkeypatch):
    without_compiler(monkeypatch)
    assert ask_again().reason == f"compiled, {file}"
    content = file.read_bytes()
    file.unlink()  # this process has it loaded: what is written into it would be its code
    file.write_bytes(content[:-1])
    assert "no C compiler" in ask_again().reason


@available
@pytest.mark.parametrize("aside", ["kept", "a file in the way"])
def test_a_folder_that_cannot_be_written(file, fresh, monkeypatch, caplog, tmp_path, aside):
    copying_compiler(file.rename(tmp_path / "kept.so"), monkeypatch)
    shutil.rmtree(fresh)
    fresh.write_text("a file in the way")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    own = tmp_path / "temporary" / f"mphil-{os.getuid()}"
    own.parent.mkdir()
    if aside == "kept":
        assert ask_again().reason.startswith(f"compiled, {own}")
        monkeypatch.setattr(library, "compile_library", lambda *_: pytest.fail("the first process kept it"))
        assert ask_again().library is not None
    else:
        own.write_text(aside)
        assert ask_again().reason == "compiled for this process only"
    assert status().library is not None
    assert "nothing can be kept" in caplog.text


@available
def test_a_package_with_libraries_needs_neither_compiler_nor_cache(file, fresh, monkeypatch, tmp_path):
    copying_compiler(file.rename(tmp_path / "kept.so"), monkeypatch)
    shutil.rmtree(fresh)
    monkeypatch.setattr(compiling, "FOLDER", Path(shutil.copytree(compiling.FOLDER, tmp_path / "package")))
    for _ in range(2):
        made = compiling.build_package()
    assert sorted(made) == sorted((tmp_path / "package" / "built").glob("*.so"))
    assert len(made) == len(compiling.LEVELS) * len(compiling.PRECISIONS)
    without_compiler(monkeypatch)
    assert ask_again().reason == f"compiled, {compiling.packaged_file('float', compiling.level())}"
    assert not fresh.exists()
    with (tmp_path / "package" / "kernels.c").open("a") as source:
        source.write("/* changed */")
    assert "no C compiler" in ask_again().reason
    with pytest.raises(compiling.CompileError, match="no C compiler"):
        compiling.build_package()


@available
def test_a_package_is_as_trusted_as_its_python(file, fresh, monkeypatch, tmp_path):
    """It may be installed by an administrator, or where a group can write; a damaged library is still not loaded."""
    copying_compiler(file.rename(tmp_path / "kept.so"), monkeypatch)
    shutil.rmtree(fresh)
    monkeypatch.setattr(compiling, "FOLDER", Path(shutil.copytree(compiling.FOLDER, tmp_path / "package")))
    compiling.build_package()
    without_compiler(monkeypatch)
    packaged = compiling.packaged_file("float", compiling.level())
    give_away(packaged, monkeypatch)
    packaged.chmod(0o775)
    packaged.parent.chmod(0o775)
    assert ask_again().reason == f"compiled, {packaged}"
    damaged = bytearray(packaged.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    packaged.write_bytes(damaged)
    assert "no C compiler" in ask_again().reason


@pytest.mark.parametrize(
    ("flags", "machine", "level"),
    [
        ("flags : sse2 avx", "x86_64", "x86-64"),
        ("flags : fma avx2 bmi1 bmi2 f16c movbe abm", "x86_64", "x86-64-v3"),
        (f"flags : {compiling.LEVELS['x86-64-v4']}", "x86_64", "x86-64-v4"),
        ("Features : asimd", "aarch64", None),
    ],
)
def test_the_level_of_a_processor(monkeypatch, flags, machine, level):
    monkeypatch.setattr(compiling, "_processor", lambda: flags)
    monkeypatch.setattr(compiling.platform, "machine", lambda: machine)
    assert compiling.level() == level


@pytest.mark.parametrize(("load", "seconds"), [(0.0, 60), (1.0, 60), (7.0, 240)])
def test_the_compiler_has_more_time_on_a_busy_machine(monkeypatch, load, seconds):
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert compiling.patience() == seconds


def test_a_compiler_that_takes_too_long(fresh, monkeypatch, tmp_path):
    slow = tmp_path / "cc"
    slow.write_text('#!/bin/sh\n[ "$1" = --version ] || sleep 5\n')
    slow.chmod(0o755)
    monkeypatch.setenv("CC", str(slow))
    monkeypatch.setattr(compiling, "patience", lambda: 0.5)
    assert status().library is None
    assert f"{slow} took more than" in status().reason


@available
@pytest.mark.parametrize("which", ["library", "folder", "cache"])
def test_what_belongs_to_somebody_else_is_refused_by_name(file, fresh, monkeypatch, which):
    path = {"library": file, "folder": fresh, "cache": fresh.parent}[which]
    give_away(path, monkeypatch)
    assert ask_again().library is None
    assert "belongs to another user" in status().reason
    assert "MPHIL_CACHE" in status().reason
    if os.getuid() == 0:
        assert f"{path} belongs" in status().reason


@available
@pytest.mark.parametrize(
    ("which", "mode"),
    [
        ("library", 0o722),
        ("library", 0o720),
        ("checksum", 0o622),
        ("folder", 0o777),
        ("folder", 0o1777),
        ("cache", 0o777),
    ],
)
def test_what_others_can_write_is_refused_by_name(file, fresh, which, mode):
    path = {"library": file, "checksum": file.with_suffix(".sha256"), "folder": fresh, "cache": fresh.parent}[which]
    path.chmod(mode)
    assert ask_again().library is None
    assert f"{path} can be written by others (mode {mode:04o})" in status().reason


@available
def test_a_shared_cache_in_which_others_cannot_remove_our_files(file, fresh):
    fresh.parent.chmod(0o1777)
    assert status().library is not None


@available
@pytest.mark.parametrize("which", ["library", "checksum", "folder"])
def test_links_are_not_followed(file, fresh, tmp_path, which):
    path = {"library": file, "checksum": file.with_suffix(".sha256"), "folder": fresh}[which]
    moved = path.rename(tmp_path / "elsewhere")
    path.symlink_to(moved)
    assert ask_again().library is None
    assert f"{path} is a link" in status().reason


@available
def test_a_pipe_instead_of_a_library_is_refused(file):
    file.unlink()
    os.mkfifo(file)
    assert ask_again().library is None
    assert f"{file} is not a regular file" in status().reason


@available
def test_a_library_without_our_functions(file):
    file.unlink()
    compile_text("int other(void) { return 1; }", file)
    file.with_suffix(".sha256").write_text(hashlib.sha256(file.read_bytes()).hexdigest())
    assert ask_again().library is None
    assert f"{file} has no function '{next(iter(loading.declared()))}'" in status().reason
    assert kernels(torch.ones(1)) is None


@available
@pytest.mark.parametrize("descriptors", [True, False])
def test_each_library_is_its_own(monkeypatch, tmp_path, descriptors):
    """The system's loader knows libraries by name: two descriptors with one number would be one library."""
    if not descriptors:
        monkeypatch.setattr(loading, "DESCRIPTORS", tmp_path / "absent")
    for number in (1, 2):
        built = compile_text(f"int number(void) {{ return {number}; }}", tmp_path / f"{number}.so")
        loaded = loading.load_library(built)
        assert loaded is not None
        assert loaded.number() == number
    assert loading.load_library(built, "another digest") is None


@available
def test_files_are_ours_alone_whatever_the_umask(file, fresh, monkeypatch, tmp_path):
    kept = file.rename(tmp_path / "kept.so")
    shutil.rmtree(fresh)
    copying_compiler(kept, monkeypatch)
    before = os.umask(0o002)
    try:
        assert status().library is not None
        monkeypatch.setattr(library, "compile_library", lambda *_: pytest.fail("it was kept already"))
        assert ask_again().reason == f"compiled, {file}"
    finally:
        os.umask(before)


@pytest.mark.slow
@available
def test_two_processes_build_at_once(tmp_path):
    code = "from mphil.nn.fast.library import status; assert status().library is not None, status().reason"
    environment = {**os.environ, "MPHIL_CACHE": str(tmp_path), "MPHIL_FAST": "1"}
    both = [subprocess.Popen([sys.executable, "-c", code], env=environment) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    assert sorted(file.suffix for file in (tmp_path / "kernels").iterdir()) == [".sha256", ".so"]


def test_only_for_what_the_loops_can_do():
    assert kernels(torch.ones(1, dtype=torch.float16)) is None
    assert kernels(torch.ones(1, device="meta")) is None


@available
@pytest.mark.parametrize("features", ["categorical", "constant"])
def test_the_same_numbers_without(monkeypatch, features):
    """One step of an encoder, dropout included: outputs, gradients and statistics agree between the paths."""
    store = random_store(graphs=25, nodes=features, edges="categorical" if features == "categorical" else "none")
    torch.manual_seed(0)
    encoder = build_encoder(small_encoder(store, layers=3, dropout=0.3))
    double, single = one_step(encoder, store, torch.float64), one_step(encoder, store, torch.float32)
    with monkeypatch.context() as patch:
        patch.setattr(library, "status", lambda *_: library.Status(None, "a test asks for it"))
        expected = one_step(encoder, store, torch.float64)
    largest = max(value.abs().max() for value in expected.values())
    for found, tolerance in ((double, 1e-10), (single, 1e-5)):
        for name, value in found.items():
            torch.testing.assert_close(value / largest, expected[name] / largest, rtol=0, atol=tolerance)


def one_step(encoder: Encoder, store: GraphStore, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    encoder = deepcopy(encoder).to(dtype)
    torch.manual_seed(1)
    out = encoder(whole(store, dtype))
    out.square().sum().backward()
    found = {name: p.grad for name, p in encoder.named_parameters()}
    found |= {name: value for name, value in encoder.state_dict().items() if "running" in name}
    return {name: value.detach().double() for name, value in {"out": out, **found}.items()}


def test_the_path_taken_is_told_with_its_reason(monkeypatch, fresh):
    monkeypatch.setenv("MPHIL_FAST", "0")
    assert library.path_taken("cpu") == "pure torch, since MPHIL_FAST=0 asks for it"
    assert library.path_taken("cuda:1").startswith("pure torch, since ")


@available
def test_the_path_taken_names_no_folder(file):
    assert library.path_taken("cpu") == "compiled"
