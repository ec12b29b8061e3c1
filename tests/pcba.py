"""Files in the format of MoleculeNet's PCBA, made up; and, as a program, the memory it takes to build one.

`python -m tests.pcba ROWS FOLDER` writes the file, builds both benchmarks from it and prints what it saw as JSON.
"""

import gzip
import json
import os
import resource
import sys
import threading
from pathlib import Path

import numpy as np

TASKS = tuple(f"PCBA-{number}" for number in range(1000, 1128))
MISSING, ACTIVE = 0.39, 0.014
"""Shares of the real table: labels that are missing, and actives among the others."""

RINGS = ("c1ccc({})cc1", "c1cc({})ccn1", "C1CCN({})CC1", "c1csc({})n1", "c1ccc2nc({})ccc2c1", "N1CCN({})CC1", "C1CC1{}")
LINKS = ("C(=O)N", "CC", "S(=O)(=O)N", "OCC", "NC(=O)C", "CSC", "C(=O)O")
TAILS = ("C", "CC", "OC", "F", "Cl", "C#N", "C(F)(F)F", "N(C)C")
CHAINS = ("C", "CC", "CCC", "CCCC")
MOLECULES = len(RINGS) ** 3 * len(LINKS) ** 2 * len(TAILS) * len(CHAINS)
STRIDE = 104_729
"""A prime that does not divide `MOLECULES`: neighbouring rows have little in common, and no two are the same."""


def molecule(row: int) -> str:
    """Three rings in a chain of links, with a tail at one end and a chain at the other."""
    number = row * STRIDE % MOLECULES
    chosen = []
    for choices in (TAILS, RINGS, LINKS, RINGS, LINKS, RINGS, CHAINS):
        number, place = divmod(number, len(choices))
        chosen.append(choices[place])
    tail, inner, first, middle, second, outer, chain = chosen
    return chain + outer.format(second + middle.format(first + inner.format(tail)))


def write_pcba(path: Path, rows: int, *, compressed: bool = True) -> None:
    """Write a table: 128 label columns, `mol_id`, `smiles`; labels are `0`, `1` or nothing."""
    rng = np.random.default_rng(0)
    cells = np.array([",", "0,", "1,"])
    with gzip.open(path, "wt", compresslevel=1) if compressed else path.open("w") as file:
        file.write(",".join((*TASKS, "mol_id", "smiles")) + "\n")
        for row in range(rows):
            chance = rng.random((2, len(TASKS)))
            label = np.where(chance[0] < MISSING, 0, np.where(chance[1] < ACTIVE, 2, 1))
            file.write("".join(cells[label]) + f"CID{row},{molecule(row)}\n")


def tree_memory(process: int) -> int:
    """Resident bytes of a process and of all that descend from it; one that ends meanwhile counts as nothing."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        tasks = list(Path(f"/proc/{process}/task").iterdir())
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return pages * resource.getpagesize() + sum(map(tree_memory, children))


class MemoryWatch(threading.Thread):
    """Remembers the largest memory of this process and its children, seen five times a second.

    What the system reports of children that have ended would not do: it counts the moment before they became
    themselves, when they shared all memory of their parent.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.2):
            self.peak = max(self.peak, tree_memory(os.getpid()))

    def finish(self) -> int:
        self._over.set()
        self.join()
        return max(self.peak, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def measure(rows: int, folder: Path) -> dict[str, object]:
    """Sizes of both benchmarks, and the peak memory of this process and its workers together, in bytes."""
    from mphil.benchmarks.catalogue import benchmark

    write_pcba(folder / "pcba.csv.gz", rows)
    watch = MemoryWatch()
    watch.start()
    seen = {}
    for name in ("good-pcba-scaffold", "good-pcba-size"):
        data = benchmark(name)
        seen[name] = {
            "sizes": data.split.sizes,
            "labels": list(data.store.y.shape),
            "mean_atoms": float(data.store.n_nodes.double().mean()),
        }
    return {"benchmarks": seen, "peak": watch.finish()}


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), Path(sys.argv[2]))))
