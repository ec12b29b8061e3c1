"""SMILES as they arrive from the world: cut, doubled, misspelt, pasted from a document."""

from __future__ import annotations

import random

SEEDS = (
    "CC(=O)Oc1ccccc1C(=O)O",
    "C[C@@H](N)C(=O)N[C@H](CS)C(=O)[O-]",
    "Cn1c(=O)c2c(ncn2C)n(C)c1=O",
    "F/C=C\\Br",
    "[Na+].[Cl-].OS(=O)(=O)O",
    "C1CC2CCC1CC2.C%10CCCCC%10",
    "[2H]C([2H])([2H])[13CH2]O[Si](C)(C)C",
    "O=C1O[Al]23(OC1=O)(OC(=O)C(=O)O2)OC(=O)C(=O)O3",
    "c1ccc2c(c1)[nH]c1ccccc12",
    "[NH3][Pt@SP1](Cl)(Cl)[NH3]",
    "C12C3C4C1C5C2C3C45",
    "*c1ccc([*:1])cc1",
    "N->[Fe]<-N",
    "OC[C@H]1O[C@@H](O[C@H]2[C@H](O)[C@@H](O)C(O)O[C@@H]2CO)[C@H](O)[C@@H](O)[C@@H]1O",
)
LONGEST = 5_000
ALPHABET = "CNOPSFIBcnops[]()=#$:/\\@+-.%0123456789HKZ*~&!?,;<>{}|^'\"_ \t\n\r\0\x7f\u0421\u00e9\u200b\ufeff\ud800"
PIECES = (
    "%(12345)",
    "[C+200]",
    "[C-99]",
    "[#6]",
    "C:C",
    " |$a$|",
    "@@",
    "[H]",
    "[999C]",
    "c1",
    "((",
    "))",
    "[C@TB20]",
    ">>",
    "..",
)


def mutated(number: int, seed: int) -> list[str]:
    """That many different strings, the same for the same seed."""
    rng = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < number:
        text = rng.choice(SEEDS)
        for _ in range(rng.choice((1, 1, 2, 3, 8))):
            text = _mutate(text, rng)[: 2 * LONGEST]
        found[text[:LONGEST]] = None
    return list(found)


def _mutate(text: str, rng: random.Random) -> str:
    start, end = sorted(rng.randint(0, len(text)) for _ in range(2))
    return rng.choice(
        (
            text[:start] + rng.choice(ALPHABET) + text[start:],
            text[:start] + rng.choice(ALPHABET) + text[start + 1 :],
            text[:start] + text[start + 1 :],
            text[:start] + text[end:],
            text[:end] + text[start:],
            text[:start] + text[start:end] * rng.choice((2, 3, 40)) + text[end:],
            text[:start] + rng.choice(PIECES) + text[start:],
            text[:start] + text[start:end][::-1] + text[end:],
            text[:start] + rng.choice(SEEDS) + text[start:],
            text[:start] + text[start:end].swapcase() + text[end:],
        )
    )
