"""The first minutes of README, as they stand there, take a minute each.

Processor seconds are counted, with one thread, since other programs on the machine do not lengthen them much. The
commands are those of README, and nothing is made smaller.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import mphil
from tests.documents import ROOT, Block, blocks, words
from tests.products import write_table

pytestmark = pytest.mark.slow

MINUTE = 60.0
ROWS = 500
"""Rows of the table; half as many again are asked about."""


def section(title: str) -> list[Block]:
    """The code blocks of a section of README."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    begin = lines.index(f"## {title}") + 1
    end = next(i for i, line in enumerate(lines) if i >= begin and line.startswith("## "))
    return [block for block in blocks(ROOT / "README.md") if begin < block.line <= end]


def seconds(command: list[object], folder: Path) -> float:
    """Processor seconds of a command and the processes that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MPHIL_CACHE": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, *map(str, command)], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_a_researchers(tmp_path):
    first = section("A researcher's first minute")[0]
    assert first.kind == "python"
    (tmp_path / "minute.py").write_text(first.text, encoding="utf-8")
    assert seconds(["minute.py"], tmp_path) < MINUTE


def test_a_chemists(tmp_path):
    store = mphil.benchmark("decoy-scaffold", graphs=2 * ROWS).store
    active = dict(zip(store.smiles or (), store.y[:, 0].int().tolist(), strict=True))
    smiles = list(active)
    write_table(tmp_path / "assay.csv", {"smiles": smiles[:ROWS], "active": [active[one] for one in smiles[:ROWS]]})
    write_table(tmp_path / "new.csv", {"smiles": smiles[-ROWS // 2 :]})
    spent = {}
    for block in section("A chemist's first minute"):
        commands = block.commands if block.kind == "sh" else []
        for command in commands:
            if re.match("mphil (check|train|predict|explain) ", command):
                spent[command] = seconds(["-m", *words(command)], tmp_path)
    assert [command.split()[1] for command in spent] == ["check", "train", "predict", "explain"]
    assert sum(spent.values()) < MINUTE, spent
