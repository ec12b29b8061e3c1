"""Scores of nodes, and explanations of single molecules."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from rdkit import Chem

from mphil.errors import DataError, UnknownName, UsageError
from mphil.explain.atoms import (
    Explanation,
    explain_molecules,
    gradient_scores,
    node_scores,
    random_scores,
    relative,
    ways,
)
from mphil.explain.removal import RankedSubstructure
from mphil.methods.base import Method
from mphil.methods.erm import ERM
from mphil.nn.readout import decision_margin
from mphil.tables.from_smiles import molecule_store
from mphil.task import Task
from tests.graphs import TASKS, random_store, small_encoder, whole

from .conftest import built

STEP = 1e-6


def margins(method, batch) -> torch.Tensor:
    with torch.no_grad():
        return decision_margin(method.predict(batch), method.task)


class TestGradient:
    @pytest.mark.parametrize("name", ["erm", "mphil", "gsat", "grea"])
    @pytest.mark.parametrize("kind", ["multiclass", "binary", "multitask"])
    def test_is_the_slope_along_the_features_of_each_node(self, name, kind):
        """Floats go into the first layer as they are: finite differences of the input are the oracle."""
        store = random_store(kind, graphs=4, nodes="float")
        method = built(name, store, TASKS[kind]).double()
        batch = whole(store, torch.float64)
        found = gradient_scores(method, batch)
        for node in range(len(batch.x)):
            ends = []
            for step in (STEP, -STEP):
                moved = batch.clone()
                moved.x = batch.x.clone()
                moved.x[node] *= 1 + step
                ends.append(margins(method, moved).sum())
            assert found[node].item() == pytest.approx(float(ends[0] - ends[1]) / (2 * STEP), rel=1e-4, abs=1e-7)

    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            *((name, "gin") for name in ("erm", "mphil", "gsat", "disc")),
            *(("erm", kind) for kind in ("gcn", "gat", "gps", "torch_geometric.nn:GraphSAGE")),
        ],
    )
    def test_scores_of_a_graph_add_up_to_the_slope_along_its_embedding(self, name, kind, molecules):
        """Codes are embedded by tables, also where nodes that look alike share a row: all are stretched at once."""
        method = built(name, molecules, kind=kind).double()
        batch = whole(molecules[:6], torch.float64)
        found = gradient_scores(method, batch)
        sums = torch.zeros(6, dtype=found.dtype).index_add(0, batch.batch, found)
        width = sum(molecules.node_features.sizes)
        tables = [value for value in method.parameters() if value.shape[0] == width]
        assert tables
        ends = []
        for step in (STEP, -STEP):
            with torch.no_grad():
                for table in tables:
                    table.mul_(1 + step)
            ends.append(margins(method, batch))
            with torch.no_grad():
                for table in tables:
                    table.div_(1 + step)
        slope = (ends[0] - ends[1]) / (2 * STEP)
        torch.testing.assert_close(sums.double(), slope, rtol=1e-4, atol=1e-6)

    def test_leaves_no_trace(self, molecules):
        method, batch = built("mphil", molecules), whole(molecules)
        before = method.predict(batch)
        first, second = gradient_scores(method, batch), gradient_scores(method, batch)
        torch.testing.assert_close(first, second)
        assert not first.requires_grad
        assert torch.equal(method.predict(batch), before)
        assert not any(module._forward_hooks or module._forward_pre_hooks for module in method.modules())
        assert all(parameter.grad is None for parameter in method.parameters())

    def test_a_method_that_embeds_parts_anew_is_refused(self, molecules):
        method = built("gil", molecules)
        with pytest.raises(UsageError, match="gil embeds parts"):
            node_scores(method, whole(molecules), "gradient")
        assert not any(module._forward_hooks or module._forward_pre_hooks for module in method.modules())


class TestRandom:
    def test_a_graph_has_the_same_draws_in_every_batch(self, molecules):
        together = random_scores(whole(molecules), seed=4)
        alone = [random_scores(molecules.batch(torch.tensor([i])), seed=4) for i in range(len(molecules))]
        assert torch.equal(torch.cat(alone), together)
        assert not torch.equal(random_scores(whole(molecules), seed=5), together)
        assert together.min() >= 0
        assert together.max() < 1


class TestWays:
    def test_the_methods_own_way_comes_first(self, molecules):
        assert ways(built("mphil", molecules)) == ("own", "contribution", "gradient", "random")
        assert ways(built("gsat", molecules)) == ("own", "gradient", "random")

    def test_a_method_that_does_not_explain_itself_gets_gradients(self, molecules):
        class Silent(ERM):
            node_importance = Method.node_importance

        torch.manual_seed(0)
        method = Silent(Task("binary", 1, "roc_auc"), small_encoder(molecules)).eval()
        assert ways(method) == ("gradient", "random")
        batch = whole(molecules)
        torch.testing.assert_close(node_scores(method, batch), gradient_scores(method, batch))

    def test_each_way_is_what_it_says(self, molecules):
        method, batch = built("mphil", molecules), whole(molecules)
        torch.testing.assert_close(node_scores(method, batch), method.node_importance(batch).detach())
        torch.testing.assert_close(node_scores(method, batch, "contribution"), method.node_contribution(batch))
        assert torch.equal(node_scores(method, batch, "random", seed=3), random_scores(batch, 3))

    def test_asked_in_evaluation_mode(self, molecules):
        method = built("mphil", molecules, dropout=0.5).train()
        first, second = (node_scores(method, whole(molecules)) for _ in range(2))
        assert torch.equal(first, second)
        assert method.training

    def test_what_is_not_there_is_refused(self, molecules):
        with pytest.raises(UnknownName, match="did you mean gradient"):
            node_scores(built("erm", molecules), whole(molecules), "gradien")
        with pytest.raises(UsageError, match="erm has no node scores of the kind 'contribution'; use own, gradient"):
            node_scores(built("erm", molecules), whole(molecules), "contribution")


class TestRelative:
    @settings(max_examples=40)
    @given(arrays.arrays(np.float64, st.integers(1, 12), elements=st.floats(-100, 100, width=16)), st.integers(1, 11))
    def test_between_the_least_and_the_most_of_each_graph(self, values, cut):
        ptr = torch.tensor([0, min(cut, len(values)), len(values)])
        found = relative(torch.from_numpy(values), ptr).numpy()
        for part, before in ((found[:cut], values[:cut]), (found[cut:], values[cut:])):
            if not len(part):
                continue
            spread = before.max() - before.min()
            if spread > 1e-5 * np.abs(before).max():
                np.testing.assert_allclose(part, (before - before.min()) / spread, atol=1e-12)
            else:
                assert not part.any()

    def test_rounding_makes_nobody_stand_out(self):
        assert not relative(torch.tensor([0.7, 0.7 + 1e-7, 0.7]), torch.tensor([0, 3])).any()


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
