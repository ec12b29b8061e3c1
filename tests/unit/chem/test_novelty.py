from __future__ import annotations

import pytest

from mphil.chem.novelty import Seen, contents

SEEN = Seen.of(["Cc1ccccc1", "C1CCNCC1", "c1ccc2[nH]ccc2c1", "not a molecule"])


@pytest.mark.parametrize(
    ("smiles", "missing"),
    [
        ("CCCc1ccccc1CC1CCNCC1", []),
        ("Brc1ccccc1", ["no training molecule has the element Br"]),
        ("c1cc[nH]c1", ["no training molecule has the ring system pyrrole"]),
        ("C1CC2CC1CC2N", ["no training molecule has the ring system C1CC2CCC1C2"]),
        ("[Na+].[Cl-].F.Br", [f"no training molecule has the element {symbol}" for symbol in ("Br", "Cl", "F")]),
    ],
)
def test_what_is_new_is_named(smiles, missing):
    assert SEEN.missing(smiles) == missing


def test_a_part_of_a_known_ring_system_is_not_known():
    assert SEEN.missing("c1ccc2ccccc2c1") == ["no training molecule has the ring system naphthalene"]


def test_the_spelling_does_not_matter():
    assert contents("c1cc2ccccc2[nH]1")[1].keys() == contents("c1ccc2[nH]ccc2c1")[1].keys()
    assert contents("C1CC[C@H](C)CC1")[1].keys() == contents("CC1CCCCC1")[1].keys()


def test_nothing_seen_is_all_new():
    assert len(Seen.of([]).missing("CO")) == 2
