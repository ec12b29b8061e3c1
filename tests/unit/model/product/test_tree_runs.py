"""The random forest on fingerprints."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score

from mphil.chem.describe import morgan_fingerprints
from mphil.chem.parse import parse_smiles
from mphil.graphs.split import Split
from mphil.model.product import tree_runs
from mphil.model.product.tree_runs import TREES, forest_scores
from mphil.task import Task
from tests.products import molecules

SMILES = molecules()
BITS = morgan_fingerprints([parse_smiles(one) for one in SMILES])
BINARY = Task("binary", 1, "roc_auc")


def split():
    """Every ring system in every part."""
    order = torch.arange(len(SMILES)).reshape(9, 12).T.flatten()
    return Split(*(part.sort().values for part in order.split([60, 12, 12, 12, 12])))


def nitrogen():
    return torch.tensor([[float("N" in one or "n" in one)] for one in SMILES])


def test_against_sklearn_alone():
    y, parts = nitrogen(), split()
    y[parts.train[3]] = torch.nan
    rows = [i for i in parts.train.tolist() if i != int(parts.train[3])]
    bits = np.array([[byte >> b & 1 for byte in row for b in range(8)] for row in BITS.tolist()])
    found = forest_scores(BITS, y, parts, BINARY, seed=4)
    plain = RandomForestClassifier(TREES, random_state=4).fit(bits[rows], y[rows, 0].numpy())
    for part in ("id_test", "ood_test"):
        graphs = parts[part].numpy()
        alone = roc_auc_score(y[graphs, 0].numpy(), plain.predict_proba(bits[graphs])[:, 1])
        assert found[part] == pytest.approx(alone)
    assert found == forest_scores(BITS, y, parts, BINARY, seed=4)


def test_any_parts_can_be_scored_and_the_scores_do_not_depend_on_the_others():
    y, names = nitrogen(), ("ood_test", "ood_val", "id_val", "id_test")
    found = forest_scores(BITS, y, split(), BINARY, parts=names)
    assert tuple(found) == names
    assert forest_scores(BITS, y, split(), BINARY, parts=("id_val",)) == {"id_val": found["id_val"]}


def test_it_learns_what_is_in_the_bits_and_nothing_from_noise():
    noise = torch.from_numpy(np.random.default_rng(0).integers(0, 2, (len(SMILES), 1))).float()
    told = forest_scores(BITS, nitrogen(), split(), BINARY)
    assert told["id_test"] > 0.9
    guessed = [forest_scores(BITS, noise, split(), BINARY)[part] for part in ("id_test", "ood_test")]
    assert min(guessed) < 0.75


def test_classes_that_training_never_saw():
    task = Task("multiclass", 4, "accuracy")
    y = torch.tensor([[float(len(one) % 3)] for one in SMILES])
    y[split().ood_test] = 3
    found = forest_scores(BITS, y, split(), task)
    assert 0 <= found["id_test"] <= 1


def test_tasks_apart():
    task = Task("multitask", 3, "roc_auc")
    y = torch.cat([nitrogen(), 1 - nitrogen(), torch.full((len(SMILES), 1), torch.nan)], dim=1)
    done = []
    found = forest_scores(BITS, y, split(), task, advance=done.append)
    assert done == [1, 1, 1]
    assert found["id_test"] == pytest.approx(forest_scores(BITS, nitrogen(), split(), BINARY)["id_test"], abs=0.05)


def test_parts_that_are_empty_and_labels_that_are_alike():
    empty = torch.empty(0, dtype=torch.long)
    parts = Split(torch.arange(60), empty, empty, empty, torch.arange(60, 70))
    found = forest_scores(BITS, torch.ones(len(SMILES), 1), parts, BINARY)
    assert found == {"id_test": None, "ood_test": None}


def test_of_very_many_rows_some_are_drawn(monkeypatch):
    monkeypatch.setattr(tree_runs, "MOST_ROWS", 20)
    first, again = (forest_scores(BITS, nitrogen(), split(), BINARY, seed=1) for _ in range(2))
    assert first == again
