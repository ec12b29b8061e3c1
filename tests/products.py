"""Small tables of molecules, and what a chemist's command makes of them."""

from __future__ import annotations

import csv
from pathlib import Path

from mphil.model.product import Product, prepare, train_product

RINGS = ("c1ccccc1", "c1ccncc1", "C1CCCCC1", "C1CCOCC1", "c1ccsc1", "c1cc[nH]c1", "C1CC1", "c1ccc2ccccc2c1", "C1CCNC1")
TAILS = ("O", "N", "CO", "CN", "CC(=O)O", "C(=O)N", "CCO", "CCN", "CCCO", "OC", "N#CC", "ClC")
SALTS = ("", ".[Na+]", ".Cl")
TINY = {"encoder": {"width": 8, "layers": 2}, "train": {"epochs": 2, "batch_size": 20}}
SET = [f"{section}.{key}={value}" for section, pairs in TINY.items() for key, value in pairs.items()]
"""The same for the command line."""


def molecules() -> list[str]:
    """108 different molecules, some of them salts, on nine ring systems."""
    pairs = [(ring, tail) for ring in RINGS for tail in TAILS]
    return [f"{tail}{ring}{SALTS[i % len(SALTS)]}" for i, (ring, tail) in enumerate(pairs)]


def write_table(path: Path, columns: dict[str, list[object]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def binary_table(path: Path) -> Path:
    """Rows with one yes-or-no label, two of them broken and one without a label."""
    smiles = molecules()
    active: list[object] = [int("N" in one) for one in smiles]
    smiles[7], smiles[50], active[20] = "C C", "c1ccc1c", ""
    return write_table(path, {"name": [f"m{i}" for i in range(len(smiles))], "smiles": smiles, "active": active})


def make(
    path: Path, out: Path, *, method: str = "mphil", baselines: bool = False, selection: str = "", **table
) -> Product:
    """Train in a second or two."""
    wanted = {"benchmark": {"path": str(path), **table}, "method": {"name": method}, **TINY}
    return train_product(prepare(wanted, selection=selection), out, baselines=baselines)


def rows_of(path: Path, delimiter: str = ",") -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file, delimiter=delimiter))
