from __future__ import annotations

import pytest
from rdkit import Chem

from mphil.chem.common import largest_shared


def test_what_is_shared_matches_in_every_molecule():
    molecules = ["CC(=O)Nc1ccc(O)cc1", "CC(=O)Nc1ccccc1F", "O=C(CBr)Nc1ccccc1"]
    shared = largest_shared(molecules)
    assert shared.complete
    assert shared.atoms == 10
    pattern = Chem.MolFromSmarts(shared.smarts)
    for smiles, match in zip(molecules, shared.matches, strict=True):
        assert len(match) == shared.atoms == len(set(match))
        assert set(match) in [set(m) for m in Chem.MolFromSmiles(smiles).GetSubstructMatches(pattern)]


def test_bonds_of_a_ring_are_shared_with_the_whole_ring_or_not_at_all():
    shared = largest_shared(["c1ccccc1CCCC", "c1ccncc1CCCC"])
    assert shared.atoms == 5
    assert not any(bond.IsInRing() for bond in Chem.MolFromSmarts(shared.smarts).GetBonds())


@pytest.mark.parametrize("molecules", [[], ["CCO"], ["CCO", "CCN"], ["CCCC", "c1ccccc1"]])
def test_next_to_nothing(molecules):
    assert largest_shared(molecules) is None
