"""How the loops are built, found again, and done without."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pytest
import torch

from mphil.data.store import GraphStore
from mphil.nn.encoders import Encoder, build_encoder
from mphil.nn.fast import library
from mphil.nn.fast.library import kernels, status
from tests.graphs import random_store, small_encoder, whole

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
    monkeypatch.setattr(library, "_compile", lambda *_: pytest.fail("it was built already"))
    assert status().library is not None


@available
def test_a_damaged_file_is_built_again(fresh):
    status()
    (file,) = fresh.glob("*.so")
    whole_file = file.read_bytes()
    file.unlink()
    file.write_bytes(whole_file[:5000])
    library.status.cache_clear()
    assert status().library is not None
    assert file.read_bytes() == whole_file


@available
@pytest.mark.parametrize("name", ["kernels.c", "kernels.h"])
def test_another_source_is_another_file(name, fresh, monkeypatch, tmp_path):
    status()
    changed = shutil.copytree(library.FOLDER, tmp_path / "changed")
    with (changed / name).open("a") as file:
        file.write("\n/* changed */\n")
    monkeypatch.setattr(library, "FOLDER", changed)
    library.status.cache_clear()
    assert status().library is not None
    assert len(list(fresh.glob("*.so"))) == 2


@available
def test_a_folder_that_cannot_be_written(fresh, monkeypatch, caplog):
    fresh.parent.joinpath("kernels").write_text("a file in the way")
    assert "this process only" in status().reason
    assert status().library is not None
    assert "nothing can be kept" in caplog.text


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


@available
def test_a_library_of_somebody_else_is_not_loaded(fresh, monkeypatch):
    status()
    library.status.cache_clear()
    monkeypatch.setattr(library, "_owner", lambda file: 54321)
    assert status().library is None
    assert "another user" in status().reason


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
def test_the_path_taken_names_no_folder(fresh):
    assert library.path_taken("cpu") == "compiled"
