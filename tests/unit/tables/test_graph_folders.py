import pytest
import torch
from torch_geometric.data import Data

from mphil.errors import DataError, IntegrityError, UsageError
from mphil.tables.graph_folders import open_graphs, survey_graphs

TU = {
    "A": "1, 2\n2, 1\n4, 3\n3, 4\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n2\n2\n2\n",
    "graph_labels": "-1\n1\n",
    "node_labels": "3\n4\n3\n3\n5\n",
    "edge_attributes": "0.5\n0.5\n1\n1\n2\n2\n",
}


def folder_of(folder, **changes):
    for name, text in (TU | changes).items():
        if text is not None:
            (folder / f"TOY_{name}.txt").write_text(text)
    return folder


def test_tu_folder(tmp_path):
    (tmp_path / "raw").mkdir()
    folder_of(tmp_path / "raw")
    store = open_graphs(tmp_path)
    assert store.n_nodes.tolist() == [2, 3]
    assert store.edge_index.tolist() == [[0, 1, 1, 0, 1, 2], [1, 0, 0, 1, 2, 1]]
    assert store.y.tolist() == [[0.0], [1.0]]
    assert store.x.flatten().tolist() == [3, 4, 3, 3, 5]
    assert store.node_features.kind == "categorical"
    assert store.edge_attr.flatten().tolist() == [0.5, 0.5, 1, 1, 2, 2]


def test_tu_folder_reads_as_pyg_does(tmp_path):
    """PyG's reader of the same files as oracle."""
    from torch_geometric.io import read_tu_data

    folder_of(tmp_path)
    theirs, slices, _ = read_tu_data(str(tmp_path), "TOY")
    ours = open_graphs(tmp_path)
    assert ours.node_ptr.tolist() == slices["x"].tolist()
    assert ours.edge_ptr.tolist() == slices["edge_index"].tolist()
    for graph in range(2):  # PyG sorts the edges of a graph, we keep their order
        part = slice(*slices["edge_index"][graph : graph + 2].tolist())
        mine, other = ours.edge_index[:, part].T.tolist(), theirs.edge_index[:, part].T.tolist()
        assert sorted(mine) == sorted(other)
    assert ours.y.flatten().tolist() == theirs.y.tolist()


def test_a_list_of_graphs_and_a_saved_store(tmp_path):
    graphs = [Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2 + i % 2, y=i % 2) for i in range(4)]
    store = open_graphs(graphs)
    store.save(tmp_path / "store")
    again = open_graphs(tmp_path / "store")
    assert again.digest() == store.digest()
    survey = survey_graphs(again)
    assert survey.keys.array().tolist() == [0, 1, 0, 1]
    assert survey.targets[0].counts() == {"0": 2, "1": 2}
    assert survey.size.tolist() == [2, 3, 2, 3]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"graph_indicator": "1\n3\n2\n2\n2\n"}, "must count from 1 and ascend"),
        ({"graph_indicator": "0\n1\n1\n1\n1\n"}, "must count from 1"),
        ({"A": "1, 9\n"}, "two of the 5 nodes"),
        ({"A": "1\n"}, "two of the 5 nodes"),
        ({"A": "1, 3\n", "edge_attributes": "1\n"}, "TOY_A.txt:1: an edge between two graphs"),
        ({"graph_labels": "1\n"}, "1 labels for 2 graphs"),
        ({"graph_labels": None}, "TOY_graph_labels.txt: this file is missing"),
        ({"graph_labels": "a\nb\n"}, "not a table of numbers"),
        ({"A": "1, 2\n1\n"}, "not a table of numbers"),
        ({"node_labels": "1\n"}, "1 lines where 5 are needed"),
    ],
)
def test_contradictions(tmp_path, changes, text):
    with pytest.raises(DataError, match=text):
        open_graphs(folder_of(tmp_path, **changes))


def test_what_is_not_read(tmp_path):
    with pytest.raises(UsageError, match="no such folder"):
        open_graphs(tmp_path / "nowhere")
    with pytest.raises(DataError, match="no graph store"):
        open_graphs(tmp_path)
    (tmp_path / "processed").mkdir()
    (tmp_path / "processed" / "data.pt").write_bytes(b"\x80\x04.")
    with pytest.raises(DataError, match="pickles"):
        open_graphs(tmp_path)
    (tmp_path / "store.json").write_text("{}")
    with pytest.raises(IntegrityError):
        open_graphs(tmp_path)
