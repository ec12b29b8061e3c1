"""What a user waits for besides the network: the start of the tool, and the search for the nearest molecule."""

from __future__ import annotations

import csv
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import numpy as np
from rdkit.Chem import MolFromSmiles
from rdkit.DataStructs import BulkTanimotoSimilarity, CreateFromBinaryText

from mphil.chem.fingerprint import morgan_fingerprints
from mphil.trust.neighbours import most_similar

REFERENCES = 25_000
ROWS = 200
"""Molecules of the small table, and queries of the search."""
NEEDED = "import torch, rdkit.Chem"
"""What no prediction can do without."""
IMPORTS = "import mphil.model.predictor, mphil.model.screening"
"""What `mphil predict` imports before it reads a row."""


def start_up(smiles: Sequence[str], repeats: int) -> dict[str, float]:
    """CPU seconds of `mphil predict` for one row, against those of importing torch and RDKit alone."""
    with tempfile.TemporaryDirectory() as folder:
        table, row = Path(folder) / "table.csv", Path(folder) / "row.csv"
        _write(table, smiles[:ROWS])
        _write(row, smiles[:1])
        tool = [sys.executable, "-m", "mphil"]
        settings = ["--set", "train.epochs=1", "--no-baselines"]
        _seconds([*tool, "train", str(table), "--target", "active", "--out", f"{folder}/run", *settings])
        predict = [*tool, "predict", f"{folder}/run/bundle", str(row), "--out", f"{folder}/answers.csv"]
        commands = ([sys.executable, "-c", NEEDED], predict, [sys.executable, "-c", IMPORTS])
        turns = [[_seconds(command) for command in commands] for _ in range(repeats)]
    plain, ours, imports = (median(column) for column in zip(*turns, strict=True))
    return {"plain": plain, "ours": ours, "times": plain / ours, "share_of_imports": imports / ours}


def nearest(smiles: Sequence[str], repeats: int) -> dict[str, float]:
    """CPU seconds for 1,000 rows against 25,000 references: RDKit's own loop, and ours; both find the same."""
    generator = np.random.default_rng(0)
    known = morgan_fingerprints(map(MolFromSmiles, smiles))
    # Where there are fewer molecules than references, neighbours with a few other bits stand in.
    references = known[generator.integers(0, len(known), REFERENCES)]
    references = references ^ np.packbits(generator.random((REFERENCES, 8 * known.shape[1])) < 0.003, axis=1)
    queries = known[generator.permutation(len(known))[:ROWS]]
    vectors = [[CreateFromBinaryText(row.tobytes()) for row in rows] for rows in (references, queries)]

    def plain() -> list[float]:
        return [max(BulkTanimotoSimilarity(query, vectors[0])) for query in vectors[1]]

    def ours() -> list[float]:
        similarity: list[float] = most_similar(queries, references)[1].tolist()
        return similarity

    assert np.allclose(plain(), ours())
    turns = [(_clock(plain), _clock(ours)) for _ in range(repeats)]
    slow, fast = (median(column) * 1000 / len(queries) for column in zip(*turns, strict=True))
    return {"plain": slow, "ours": fast, "times": slow / fast}


def _write(path: Path, smiles: Sequence[str]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", "active"])
        writer.writerows((text, number % 2) for number, text in enumerate(smiles))


def _seconds(command: Sequence[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _clock(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin
