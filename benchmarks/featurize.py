"""How many times faster molecules become arrays than with a plain loop over atoms, on one core and on two.

    OMP_NUM_THREADS=1 python benchmarks/featurize.py HIV.csv

`featurize`: RDKit molecules to feature arrays. `read`: the same from SMILES, parsing included, which costs both sides
equally. Both are ratios of processor seconds, taken in turns in one run, so that what else the machine does weighs on
both sides alike. `two_workers`: seconds with one process over seconds with two, starting them included; 2 is linear,
and it means something on two idle cores only. `useful_share` is what a busy machine does not hide: of all processor
seconds of the run with two processes, the part not spent on starting them and on talking to them; above 0.9 the work is
within 10 % of linear.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rdkit import Chem, rdBase
from rdkit.Chem import Atom, Bond, BondStereo, BondType, ChiralType, HybridizationType, Mol

from mphil.chem.read_rows import read_batch, read_rows
from mphil.chem.schema import featurize
from mphil.tables.pool import CHUNK, run

# The features as they are commonly written: the position of a value in a list.
CHIRALITY = [ChiralType.CHI_UNSPECIFIED, ChiralType.CHI_TETRAHEDRAL_CW, ChiralType.CHI_TETRAHEDRAL_CCW, "other"]
HYBRIDS = ("UNSPECIFIED", "S", "SP", "SP2", "SP3", "SP3D", "SP3D2")
HYBRIDISATION = [*(getattr(HybridizationType, name) for name in HYBRIDS), "other"]
BOND_TYPE = ["misc", BondType.SINGLE, BondType.DOUBLE, BondType.TRIPLE, BondType.AROMATIC]
STEREO = [getattr(BondStereo, f"STEREO{name}") for name in ("NONE", "Z", "E", "CIS", "TRANS", "ANY")]
NUMBERS, DEGREES, HYDROGENS, RADICALS = (list(range(size)) for size in (119, 11, 9, 5))
CHARGES = list(range(-5, 7))


def position(values: list[Any], value: Any, other: int = -1) -> int:
    try:
        return values.index(value)
    except ValueError:
        return other % len(values)


def atom_codes(atom: Atom) -> list[int]:
    return [
        position(NUMBERS, atom.GetAtomicNum()),
        position(CHIRALITY, atom.GetChiralTag()),
        position(DEGREES, atom.GetTotalDegree()),
        position(CHARGES, atom.GetFormalCharge()),
        position(HYDROGENS, atom.GetTotalNumHs()),
        position(RADICALS, atom.GetNumRadicalElectrons()),
        position(HYBRIDISATION, atom.GetHybridization()),
        int(atom.GetIsAromatic()),
        int(atom.IsInRing()),
    ]


def bond_codes(bond: Bond) -> list[int]:
    return [
        position(BOND_TYPE, bond.GetBondType(), other=0),
        position(STEREO, bond.GetStereo()),
        int(bond.GetIsConjugated()),
    ]


def plain(mol: Mol) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One molecule, atom by atom and bond by bond."""
    x = np.array([atom_codes(atom) for atom in mol.GetAtoms()], np.uint8)
    edges, features = [], []
    for bond in mol.GetBonds():
        begin, end, codes = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), bond_codes(bond)
        edges += [(begin, end), (end, begin)]
        features += [codes, codes]
    return x, np.array(edges, np.int32).reshape(-1, 2).T, np.array(features, np.uint8).reshape(-1, 3)


def plain_read(smiles: list[str]) -> None:
    for text in smiles:
        mol = Chem.MolFromSmiles(text)
        if mol is not None:
            plain(mol)


def check(mols: list[Mol]) -> None:
    """Both ways must give the same arrays, or their times mean nothing."""
    loops, ours = [plain(mol) for mol in mols], featurize(mols)
    for found, axis, loop in ((ours.x, 0, 0), (ours.edge_index, 1, 1), (ours.edge_attr, 0, 2)):
        np.testing.assert_array_equal(found, np.concatenate([arrays[loop] for arrays in loops], axis=axis))


def in_turns(repeats: int, *works: Callable[[], object]) -> list[float]:
    """Median processor seconds of each, one after the other, again and again."""
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(repeats):
        for seconds, work in zip(taken, works, strict=True):
            start = time.process_time()
            work()
            seconds.append(time.process_time() - start)
    return [median(seconds) for seconds in taken]


def spent(rows: list[str], workers: int) -> tuple[float, float, float]:
    """Seconds on the clock, and processor seconds of this process and of those it started, to read all rows."""
    start, before = time.perf_counter(), os.times()
    run(rows, {"wanted": ["graph"]}, workers=workers)
    after = os.times()
    here = after.user + after.system - before.user - before.system
    there = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - start, here, there


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path, help="CSV (or .csv.gz) with a column `smiles`")
    parser.add_argument(
        "--molecules", type=int, default=4_000, help="for the ratios on one core, spread over the table"
    )
    parser.add_argument("--rows", type=int, default=40_000, help="for the ratio on two cores")
    parser.add_argument("--repeats", type=int, default=5, help="the median is reported")
    options = parser.parse_args()
    opened = gzip.open if options.table.suffix == ".gz" else open
    with opened(options.table, "rt") as file:
        rows = [row["smiles"] for row in csv.DictReader(file)][: options.rows]
    rdBase.DisableLog("rdApp.*")
    smiles = rows[:: max(1, len(rows) // options.molecules)]
    mols, _ = read_rows(smiles, lenient=False)
    check(mols)
    record: dict[str, Any] = {
        "molecules": len(mols),
        "rdkit": rdBase.rdkitVersion,
        "machine": f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores",
        "load": round(os.getloadavg()[0], 1),
    }
    blocks = [mols[first : first + CHUNK] for first in range(0, len(mols), CHUNK)]
    pairs = {
        "featurize": (lambda: [plain(mol) for mol in mols], lambda: [featurize(block) for block in blocks]),
        "read": (lambda: plain_read(smiles), lambda: read_batch(smiles, wanted=["graph"])),
    }
    for name, (loop, ours) in pairs.items():
        slow, fast = in_turns(options.repeats, loop, ours)
        record[name] = {
            "plain_microseconds": round(slow / len(mols) * 1e6, 1),
            "microseconds": round(fast / len(mols) * 1e6, 1),
            "times_faster": round(slow / fast, 2),
        }
    _, _, starting = spent(["C"] * 2 * CHUNK, workers=2)
    one, _, _ = spent(rows, workers=1)
    two, talking, working = spent(rows, workers=2)
    record["two_workers"] = {
        "rows": len(rows),
        "seconds": {"one": round(one, 2), "two": round(two, 2)},
        "times_faster": round(one / two, 2),
        "useful_share": round((working - starting) / (working + talking), 3),
    }
    print(json.dumps(record))


if __name__ == "__main__":
    main()
