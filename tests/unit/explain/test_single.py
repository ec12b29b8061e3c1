from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from rdkit import Chem

from mphil.errors import DataError
from mphil.explain.single import Explanation, explain_molecules
from mphil.explain.substructures import RankedSubstructure
from mphil.tables.from_smiles import molecule_store
from tests.graphs import random_store

from .conftest import built

DRUG = "CC(C)NCC(O)COc1cccc2ccccc12"


def canonical(smiles: str) -> str:
    return Chem.MolToSmiles(Chem.MolFromSmiles(smiles))


def spellings(smiles: str, count: int) -> list[str]:
    return list(Chem.MolToRandomSmilesVect(Chem.MolFromSmiles(smiles), count, randomSeed=7))


def by_rank(explanation: Explanation) -> dict[int, float]:
    """Weight by canonical rank: atoms that are images of each other share a rank and must share a weight."""
    mol = Chem.MolFromSmiles(explanation.smiles)
    found: dict[int, set[float]] = {}
    for rank, weight in zip(Chem.CanonicalRankAtoms(mol, breakTies=False), explanation.weights, strict=True):
        found.setdefault(rank, set()).add(round(float(weight), 5))
    assert all(max(values) - min(values) < 1e-4 for values in found.values())
    return {rank: min(values) for rank, values in found.items()}


@pytest.mark.parametrize(("name", "smiles"), [("mphil", f"{DRUG}.Cl"), ("erm", DRUG)], ids=["salt", "plain"])
def test_all_spellings_have_the_same_atoms(molecules, name, smiles):
    method = built(name, molecules)
    written = spellings(smiles, 20)
    assert len(set(written)) > 15
    store, _ = molecule_store([canonical(text) for text in written], None)
    found = explain_molecules(method, store, written)
    first = by_rank(found[0])
    assert len(set(first.values())) > 3
    for explanation in found:
        assert by_rank(explanation) == pytest.approx(first, abs=1e-4)
        parts = [(part.kind, part.smiles, round(part.drop, 4)) for part in explanation.substructures]
        assert parts == [(part.kind, part.smiles, round(part.drop, 4)) for part in found[0].substructures]


def test_substructures_name_their_atoms_as_written(molecules):
    written = spellings(DRUG, 5)
    store, _ = molecule_store([canonical(DRUG)] * 5, None)
    for explanation in explain_molecules(built("erm", molecules), store, written):
        mol = Chem.MolFromSmiles(explanation.smiles)
        ring = next(part for part in explanation.substructures if part.smiles == "*c1cccc2ccccc12")
        assert {mol.GetAtomWithIdx(atom).GetIsAromatic() for atom in ring.atoms} == {True}
        assert len(ring.atoms) == 10


def test_atoms_the_model_never_saw_are_unmarked(molecules):
    """The model saw the parent, the user wrote the salt."""
    store, _ = molecule_store([canonical(DRUG)], None)
    method = built("erm", molecules)
    (plain,) = explain_molecules(method, store)
    (salt,) = explain_molecules(method, store, [f"Cl.{plain.seen}"])
    assert np.isnan(salt.scores[0])
    assert salt.weights[0] == 0
    np.testing.assert_allclose(salt.scores[1:], plain.scores)
    assert [part.atoms for part in salt.substructures] == [
        tuple(atom + 1 for atom in part.atoms) for part in plain.substructures
    ]
    assert "Cl" in re.search("<title>(.*?)</title>", salt.svg()).group(1)


def test_scores_are_those_of_the_method(molecules):
    method = built("mphil", molecules)
    found = explain_molecules(method, molecules)
    batch = molecules.batch(torch.arange(len(molecules)))
    np.testing.assert_allclose(
        np.concatenate([one.scores for one in found]), method.node_importance(batch).detach(), rtol=1e-4, atol=1e-6
    )
    assert {one.by for one in found} == {"own"}
    assert all(one.weights.max() == 1 and one.weights.min() == 0 for one in found)


def test_the_first_part_is_outlined_only_if_it_does_something():
    def drawn(drop: float) -> str:
        part = RankedSubstructure("group", "*O", (2,), 1.0, drop, -drop)
        return Explanation("CCO", "CCO", "own", np.zeros(3), np.zeros(3), (part,)).svg()

    assert "mask" in drawn(0.2)
    assert "mask" not in drawn(-0.2)
    assert "mask" not in drawn(1e-5)


def test_progress_is_told(molecules):
    steps: list[int] = []
    explain_molecules(built("erm", molecules), molecules[:3], advance=steps.append)
    assert steps == [1, 1, 1]


def test_nothing_to_explain(molecules):
    assert explain_molecules(built("erm", molecules), molecules[:0]) == []


def test_what_does_not_fit_is_refused(molecules):
    method = built("erm", molecules)
    with pytest.raises(DataError, match="2 written molecules for 20 graphs"):
        explain_molecules(method, molecules, ["C", "CC"])
    graphs = random_store("binary")
    with pytest.raises(DataError, match="no SMILES"):
        explain_molecules(built("erm", graphs), graphs)
