"""The examples in docstrings give what they say."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import mphil
from mphil.nn.fast.library import status

SOURCES = Path(mphil.__file__).parent
MODULES = sorted(
    ".".join(path.relative_to(SOURCES.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in SOURCES.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


def test_there_are_some():
    assert len(MODULES) > 80


COMPILED = ("mphil.nn.fast.environments",)
"""Modules whose examples call compiled loops."""


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings_are_true(name, tmp_path, monkeypatch):
    if name in COMPILED and status().library is None:
        pytest.skip(status().reason)
    monkeypatch.chdir(tmp_path)
    found = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert found.attempted > 0
    assert found.failed == 0
