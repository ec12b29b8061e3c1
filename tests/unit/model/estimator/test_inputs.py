"""What may be given as X and y."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from rdkit.Chem import AddHs, MolFromSmiles
from scipy.sparse import csr_matrix
from sklearn.exceptions import DataConversionWarning
from torch_geometric.data import Data

from mphil.errors import MphilError
from mphil.model.estimator.inputs import InputError, read_labels, read_rows

GRAPH = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]))


@pytest.mark.parametrize(
    "given",
    [
        ["OCC", "C"],
        ("OCC", "C"),
        np.array(["OCC", "C"]),
        np.array(["OCC", "C"], dtype=object),
        np.array([["OCC"], ["C"]], dtype=object),
        pd.Series(["OCC", "C"], index=[7, 3]),
        pd.DataFrame({"smiles": ["OCC", "C"]}, index=["a", "b"]),
    ],
    ids=["list", "tuple", "array", "objects", "column", "series", "frame"],
)
def test_smiles_in_whatever_holds_them(given):
    rows = read_rows(given)
    assert (rows.kind, rows.values) == ("molecules", ["OCC", "C"])


def test_molecules_are_taken_by_their_spelling():
    given = [MolFromSmiles("OCC"), "C", AddHs(MolFromSmiles("C")), None, float("nan")]
    assert read_rows(given).values == ["CCO", "C", "[H]C([H])([H])[H]", "", ""]


def test_gaps_of_a_table_are_rows_that_cannot_be_read():
    table = pd.DataFrame({"smiles": ["OCC", None, "C"], "one": [1, 0, None], "two": [0, 1, 1], "name": ["a", "b", "a"]})
    assert read_rows(table["smiles"]).values == ["OCC", "", "C"]
    labels = read_labels(table[["one", "two"]], 3)
    np.testing.assert_array_equal(labels.y, [[1, 0], [0, 1], [np.nan, 1]])
    assert read_labels(table["name"], 3).classes.tolist() == ["a", "b"]


def test_graphs():
    assert read_rows([GRAPH, GRAPH]).kind == "graphs"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "CCO",
            "X is a str; estimators of mphil take SMILES, RDKit molecules or PyG graphs, one a row: put it into a list",
        ),
        (MolFromSmiles("C"), "X is a Mol"),
        (GRAPH, "X is a Data"),
        (3, "X is a int"),
        ([], "X has no rows"),
        (np.zeros((20, 5)), r"X is a matrix of shape \(20, 5\); estimators of mphil take SMILES"),
        (csr_matrix((20, 1)), r"X is a matrix of shape \(20, 1\)"),
        (np.zeros((2, 1, 1)), "X is a matrix of shape"),
        ([[1.0, 2.0]], "row 0 of X is a list"),
        (["CCO", 7], "row 1 of X is a int"),
        (["CCO", GRAPH], "row 1 of X is a graph among molecules"),
    ],
    ids=["text", "molecule", "graph", "number", "empty", "matrix", "sparse", "cube", "lists", "among", "mixed"],
)
def test_anything_else_is_refused(given, message):
    with pytest.raises(InputError, match=message) as raised:
        read_rows(given)
    assert isinstance(raised.value, ValueError)
    assert isinstance(raised.value, MphilError)


def test_classes_of_any_kind():
    for given, classes in ((["b", "a", "b"], ["a", "b"]), ([5, 3, 5], [3, 5]), ([True, False, True], [False, True])):
        labels = read_labels(given, 3)
        assert labels.classes.tolist() == classes
        assert labels.y.tolist() == [[1], [0], [1]]
        assert (labels.task.kind, labels.task.metric) == ("binary", "roc_auc")
    several = read_labels(["x", "z", "y"], 3)
    assert (several.task.kind, several.y.ravel().tolist()) == ("multiclass", [0, 2, 1])


def test_several_columns_with_gaps():
    labels = read_labels([[0, 1], [float("nan"), 0]], 2)
    assert (labels.task.kind, labels.task.n_outputs) == ("multitask", 2)
    np.testing.assert_array_equal(labels.y, [[0, 1], [np.nan, 0]])
    assert [target.name for target in labels.targets(np.array([1]))] == ["label_0", "label_1"]


def test_a_column_vector_is_told_of():
    with pytest.warns(DataConversionWarning):
        assert read_labels(np.array([[0], [1]]), 2).task.kind == "binary"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "requires y to be passed"),
        ([1, 1, 1], "one class only"),
        ([0, 1], "X has 3 rows and y has 2"),
        ([0.5, 1.5, 2.25], "continuous"),
        ([0, 1, float("nan")], "NaN"),
        ([[0, 1], [2, 0], [0, 0]], "y holds 2 in row 1, column 0"),
        ([["a", "b"], ["a", "a"], ["b", "b"]], "no text"),
    ],
    ids=["none", "one-class", "length", "measurements", "missing", "counts", "texts"],
)
def test_labels_that_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        read_labels(given, 3)
