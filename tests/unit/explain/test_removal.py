from __future__ import annotations

import numpy as np
import pytest
import torch

from mphil.errors import DataError
from mphil.explain import removal
from mphil.explain.removal import RankedSubstructure, disagreement, rank_substructures
from mphil.task import Task
from tests.graphs import random_store

from .conftest import built


def removed(store, graph: int, atoms: set[int]):
    """The molecule without some atoms, put together by hand as a batch of its own."""
    one = store.batch(torch.tensor([graph]))
    stay = [node for node in range(len(one.x)) if node not in atoms]
    number = {old: new for new, old in enumerate(stay)}
    edges = [i for i, (a, b) in enumerate(one.edge_index.T.tolist()) if a in number and b in number]
    one.x, one.edge_attr = one.x[stay], one.edge_attr[edges]
    one.edge_index = torch.tensor([[number[int(v)] for v in row[edges]] for row in one.edge_index]).view(2, -1)
    one.batch, one.ptr = torch.zeros(len(stay), dtype=torch.long), torch.tensor([0, len(stay)])
    return one


@pytest.mark.parametrize("name", ["erm", "mphil"])
def test_importance_and_drop_by_hand(molecules, name):
    method = built(name, molecules)
    importance = np.linspace(0, 1, int(molecules.n_nodes[2]))
    found = rank_substructures(method, molecules, 2, importance)
    assert found
    before = method.predict(molecules.batch(torch.tensor([2]))).sigmoid().item()
    side = before > 0.5
    for part in found:
        after = method.predict(removed(molecules, 2, set(part.atoms))).sigmoid().item()
        drop = before - after if side else (1 - before) - (1 - after)
        assert part.drop == pytest.approx(drop, abs=1e-5)
        assert part.change == pytest.approx(after - before, abs=1e-5), "of the positive label, whatever is predicted"
        assert part.importance == pytest.approx(sum(importance[a] for a in part.atoms) / len(part.atoms))


def test_order_is_by_importance_and_among_equals_by_drop(molecules):
    method = built("erm", molecules)
    found = rank_substructures(method, molecules, 3, np.random.default_rng(0).random(int(molecules.n_nodes[3])))
    assert len(found) > 5
    assert [part.importance for part in found] == sorted((part.importance for part in found), reverse=True)
    # Where no atom stands out, what happens without a part decides.
    flat = rank_substructures(method, molecules, 3, np.zeros(int(molecules.n_nodes[3])))
    assert [round(part.drop, 3) for part in flat] == sorted((round(part.drop, 3) for part in flat), reverse=True)


def test_parts_have_names(molecules):
    found = rank_substructures(built("erm", molecules), molecules, 0, np.zeros(int(molecules.n_nodes[0])))
    assert any(part.name for part in found)
    assert all(part.title == (part.name or part.smiles) for part in found)


def part(name: str, atoms: range, importance: float, drop: float) -> RankedSubstructure:
    return RankedSubstructure("ring", "C1CC1", tuple(atoms), importance, drop, -drop, name)


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ([], ""),
        ([part("furan", range(5), 0.9, 0.3), part("nitrile", range(5, 7), 0.1, 0.01)], ""),
        ([part("furan", range(5), 0.9, 0.01), part("benzofuran", range(9), 0.5, 0.3)], ""),
        (
            [part("furan", range(5), 0.9, 0.01), part("nitrile", range(5, 7), 0.1, 0.3)],
            "the most coloured part is furan (change of the probability without it -0.010), but the prediction depends "
            "most on nitrile (-0.300)",
        ),
        ([part("furan", range(5), 0.9, -0.2), part("nitrile", range(5, 7), 0.1, 0.0)], "furan, speaks against"),
        ([part("furan", range(5), 0.9, 0.001), part("nitrile", range(5, 7), 0.1, 0.0)], "No single part decides"),
    ],
)
def test_disagreement_is_told(parts, told):
    said = disagreement(parts)
    assert (told in said) if told else (said == "")


def test_several_classes_and_several_tasks(molecules):
    for task in (Task("multiclass", 3, "accuracy"), Task("multitask", 2, "roc_auc")):
        method = built("erm", molecules, task)
        logits = method.predict(molecules.batch(torch.tensor([0])))
        found = rank_substructures(method, molecules, 0, np.zeros(int(molecules.n_nodes[0])))
        part = found[0]
        after = method.predict(removed(molecules, 0, set(part.atoms)))
        if task.kind == "multiclass":
            best = int(logits.argmax())
            drop = (logits.softmax(1) - after.softmax(1))[0, best]
        else:
            sign = torch.where(logits > 0, 1.0, -1.0)
            drop = (sign * (logits.sigmoid() - after.sigmoid())).mean()
        assert part.drop == pytest.approx(drop.item(), abs=1e-5)


def test_a_large_molecule_is_bounded(molecules, monkeypatch):
    monkeypatch.setattr(removal, "MOST", 3)
    importance = np.linspace(0, 1, int(molecules.n_nodes[0]))
    few = rank_substructures(built("erm", molecules), molecules, 0, importance)
    monkeypatch.undo()
    every = rank_substructures(built("erm", molecules), molecules, 0, importance)
    assert len(few) == 3
    best = sorted((part.importance for part in every), reverse=True)[:3]
    assert sorted((part.importance for part in few), reverse=True) == pytest.approx(best)


@pytest.mark.parametrize(("change", "told"), [(0.25, "+0.250"), (-0.0004, "+0.000"), (-0.25, "-0.250")])
def test_change_for_a_reader(change, told):
    assert RankedSubstructure("ring", "C1CC1", (0, 1, 2), 0.5, 0.0, change).told_change == told


def test_graphs_that_are_no_molecules_are_refused():
    store = random_store("binary")
    with pytest.raises(DataError, match="no SMILES"):
        rank_substructures(built("erm", store), store, 0, np.zeros(3))
