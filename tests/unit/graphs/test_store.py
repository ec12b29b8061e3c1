"""The store against PyG's own batching, and its files against damage."""

import dataclasses
import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data

from mphil.errors import DataError, IntegrityError
from mphil.graphs.features import Features, Strings
from mphil.graphs.store import GraphStore, pointer

NAN = float("nan")
PER_NODE, PER_EDGE, PER_GRAPH = "node_truth", "edge_truth", "weight"


def random_graphs(sizes, seed, floats, bonds=True, n_tasks=2):
    """PyG graphs of (nodes, edges) each, with every attribute a store knows."""
    generator = torch.Generator().manual_seed(seed)

    def codes(rows, columns):
        values = torch.randint(7, (rows, columns), generator=generator)
        return values / 8 if floats else values

    graphs = []
    for number, (nodes, edges) in enumerate(sizes):
        y = torch.randint(2, (1, n_tasks), generator=generator).float()
        y[torch.rand(1, n_tasks, generator=generator) < 0.3] = NAN
        graph = Data(
            x=codes(nodes, 3),
            edge_index=torch.randint(nodes, (2, edges), generator=generator),
            y=y,
            env=torch.tensor([number % 3 - 1]),
            smiles="Cé" * (number % 4),
            node_truth=torch.randint(2, (nodes,), generator=generator).bool(),
            edge_truth=torch.rand(edges, 2, generator=generator),
            weight=torch.rand(1, generator=generator),
        )
        if bonds:
            graph.edge_attr = codes(edges, 2)
        graphs.append(graph)
    return graphs


SIZES = st.lists(st.tuples(st.integers(1, 5), st.sampled_from([0, 0, 1, 4, 9])), min_size=1, max_size=8)
GRAPHS = st.builds(random_graphs, SIZES, st.integers(0, 2**20), st.booleans(), st.booleans())


def stored(graphs):
    return GraphStore.from_pyg(graphs, extras=(PER_NODE, PER_EDGE, PER_GRAPH))


STORES = GRAPHS.map(stored)
few = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def same(one, other):
    """Equal with NaN equal to NaN, dtype included."""
    if isinstance(one, list):
        return one == other
    return one.dtype == other.dtype and torch.equal(one.nan_to_num(nan=-9), other.nan_to_num(nan=-9))


def assert_same_store(one, other):
    assert one.digest() == other.digest()
    assert len(one) == len(other)
    for item in dataclasses.fields(GraphStore):
        left, right = getattr(one, item.name), getattr(other, item.name)
        if item.name in ("node_ptr", "edge_ptr"):
            assert torch.equal(left - left[0], right - right[0])
        elif isinstance(left, torch.Tensor):
            assert same(left, right), item.name
        elif item.name == "extras":
            assert left.keys() == right.keys()
            assert all(same(left[name], right[name]) for name in left)
        elif item.name == "smiles":
            assert list(left) == list(right)
        else:
            assert left == right, item.name


@pytest.fixture
def store():
    return stored(random_graphs([(3, 4), (1, 0), (4, 6), (2, 2)], seed=3, floats=False))


@given(GRAPHS, st.data())
@few
def test_batch_equals_pyg(graphs, data):
    store = stored(graphs)
    chosen = data.draw(st.lists(st.integers(0, len(graphs) - 1), max_size=6))
    ours = store.batch(torch.tensor(chosen, dtype=torch.long), extras=True)
    assert ours.index.tolist() == chosen
    if not chosen:
        assert ours.num_nodes == 0
        return
    theirs = Batch.from_data_list([graphs[i] for i in chosen])
    for name in ("x", "edge_index", "y", "env", "batch", "ptr", PER_NODE, PER_EDGE, PER_GRAPH):
        assert same(ours[name], theirs[name]), name
    if theirs.edge_attr is None:
        assert ours.edge_attr is None
    else:
        assert same(ours.edge_attr, theirs.edge_attr)


@given(GRAPHS)
@few
def test_pyg_batches_what_to_pyg_gives(graphs):
    store = stored(graphs)
    theirs = Batch.from_data_list(store.to_pyg())
    ours = store.batch(torch.arange(len(graphs)))
    for name in ("x", "edge_index", "y", "env", "batch", "ptr"):
        assert same(ours[name], theirs[name]), name
    assert torch.equal(theirs.id, store.index), "PyG must not add node offsets to the numbers of the graphs"
    assert theirs.smiles == [graph.smiles for graph in graphs]


@given(STORES)
@few
def test_pyg_round_trip(store):
    assert_same_store(stored(store.to_pyg()), store)


@given(STORES, st.data())
@few
def test_slicing_is_selecting(store, data):
    bounds = st.one_of(st.none(), st.integers(-10, 10))
    outer, inner = (slice(data.draw(bounds), data.draw(bounds)) for _ in range(2))
    sliced = store[outer][inner]
    chosen = torch.arange(len(store))[outer][inner]
    assert sliced.index.tolist() == chosen.tolist()
    assert_same_store(sliced, store.select(chosen))
    if len(chosen):
        order = torch.randperm(len(chosen))
        assert_same_store(sliced.select(order), store.select(chosen[order]))
        one, other = sliced.batch(order), store.batch(chosen[order])
        assert all(same(one[name], other[name]) for name in one.keys())  # noqa: SIM118 (Data is no mapping)


def test_slice_is_a_view_and_selection_a_copy(store):
    assert store[1:3].x.untyped_storage().data_ptr() == store.x.untyped_storage().data_ptr()
    assert store.select(torch.tensor([1])).x.untyped_storage().data_ptr() != store.x.untyped_storage().data_ptr()
    with pytest.raises(IndexError, match="step 1"):
        store[::2]
    with pytest.raises(IndexError):
        store.select(torch.tensor([4]))


@given(STORES)
@settings(few, max_examples=10)
def test_saved_and_loaded_is_identical(tmp_path_factory, store):
    folder = tmp_path_factory.mktemp("saved") / "store"
    store.save(folder)
    loaded = GraphStore.load(folder)
    assert_same_store(loaded, store)
    assert_same_store(loaded[1:], store[1:])
    loaded[1:].save(folder)
    assert_same_store(GraphStore.load(folder), store[1:])
    assert [path.name for path in folder.parent.iterdir()] == ["store"]


def test_loading_maps_the_files_and_never_writes_to_them(tmp_path, store):
    store.save(tmp_path / "store")
    loaded = GraphStore.load(tmp_path / "store")
    loaded.x[:] = 0
    assert_same_store(GraphStore.load(tmp_path / "store"), store)


def test_batch_does_not_alias_the_store(store):
    before = store.digest()
    batch = store.batch(torch.arange(4), extras=True)
    for name in batch.keys():  # noqa: SIM118 (Data is no mapping)
        if name != "smiles":
            batch[name].zero_()
    assert store.digest() == before


def test_bare_graphs_get_a_constant_feature():
    store = GraphStore.from_pyg([Data(num_nodes=3), Data(num_nodes=2, edge_index=torch.tensor([[0], [1]]))])
    assert store.node_features == Features.constant()
    assert store.edge_features == Features.none()
    assert store.x.tolist() == [[1.0]] * 5
    assert store.n_nodes.tolist() == [3, 2]
    assert store.n_edges.tolist() == [0, 1]
    assert store.y.isnan().all()
    assert store.env.tolist() == [-1, -1]


def test_labels_of_every_shape_become_rows():
    y = [torch.tensor([[1, 0]]), torch.tensor([1.0, NAN]), [0, 1], None]
    store = GraphStore.from_pyg(Data(num_nodes=1, y=row) for row in y)
    assert store.y.nan_to_num(nan=-1).tolist() == [[1, 0], [1, -1], [0, 1], [-1, -1]]


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        ([], "no graphs"),
        ([Data(x=torch.ones(1, 1)), Data(num_nodes=2)], "graph 1 has no x"),
        ([Data(x=torch.ones(1, 1)), Data(x=torch.ones(1, 2))], "x has 1 columns in some graphs and 2 in others"),
        ([Data(num_nodes=1, y=[0]), Data(num_nodes=1, y=[0, 1])], "some graphs have 1 labels and others 2"),
        (
            [Data(num_nodes=1), Data(num_nodes=2, edge_index=torch.tensor([[0], [2]]))],
            "graph 1 has 2 nodes and an edge",
        ),
        ([Data(num_nodes=2, edge_index=torch.tensor([[0], [-1]]))], "graph 0 has 2 nodes and an edge"),
    ],
)
def test_unusable_datasets(graphs, message):
    with pytest.raises(DataError, match=message):
        GraphStore.from_pyg(graphs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.ones(9, 3)}, "x has 9 rows where the 4 graphs of the store need 10"),
        ({"edge_index": torch.zeros(2, 11, dtype=torch.int)}, "edge_index has 11 rows"),
        ({"edge_index": torch.zeros(12, 2, dtype=torch.int)}, "edge_index must have shape"),
        ({"edge_attr": torch.ones(11, 2)}, "edge_attr has 11 rows"),
        ({"edge_ptr": torch.tensor([0, 12])}, "edge_ptr has 2 rows"),
        ({"y": torch.ones(3, 2)}, "y has 3 rows"),
        ({"y": torch.ones(4)}, "labels must be floats"),
        ({"y": torch.ones(4, 2, dtype=torch.long)}, "labels must be floats"),
        ({"env": torch.ones(3)}, "env has 3 rows"),
        ({"index": torch.ones(3)}, "index has 3 rows"),
        ({"smiles": ["C"]}, "smiles has 1 rows"),
        ({"extras": {"node_truth": torch.ones(4)}}, "node_truth has 4 rows where the 4 graphs of the store need 10"),
        ({"extras": {"edge_truth": torch.ones(4)}}, "edge_truth has 4 rows"),
        ({"extras": {"weight": torch.ones(10)}}, "weight has 10 rows"),
    ],
)
def test_parts_that_do_not_fit_are_refused(store, change, message):
    with pytest.raises(DataError, match=message):
        dataclasses.replace(store, **change)


def test_digest_sees_every_change(store):
    def plus_one(tensor):
        changed = tensor.clone()
        changed.view(-1)[-1] = ~changed.view(-1)[-1] if changed.dtype == torch.bool else changed.view(-1)[-1] + 1
        return changed

    changes = [{name: plus_one(getattr(store, name))} for name in ("x", "edge_index", "edge_attr", "env", "index")]
    changes += [{"extras": store.extras | {name: plus_one(store.extras[name])}} for name in store.extras]
    changes += [
        {"y": torch.ones(4, 2)},
        {"edge_attr": None},
        {"extras": {}},
        {"smiles": None},
        {"smiles": ["C", "é", "", "CC"]},
        {"smiles": ["C", "é", "C", "C"]},
        {"x": store.x.int()},
        {"node_ptr": torch.tensor([0, 2, 4, 8, 10])},
        {"edge_ptr": torch.tensor([0, 5, 5, 10, 12])},
        {"node_features": Features("categorical", (9, 9, 9), "v2")},
        {"edge_features": Features("categorical", (9, 9))},
    ]
    digests = {store.digest(), *(dataclasses.replace(store, **change).digest() for change in changes)}
    assert len(digests) == 1 + len(changes)


@pytest.fixture
def saved(tmp_path, store):
    store.save(tmp_path / "store")
    return tmp_path / "store"


SAVED_FILES = [
    "store.json",
    *(f"{name}.npy" for name in ("x", "edge_index", "edge_attr", "node_ptr", "edge_ptr", "y", "env", "index")),
    *(f"extra.{name}.npy" for name in (PER_NODE, PER_EDGE, PER_GRAPH)),
    "smiles_bytes.npy",
    "smiles_ptr.npy",
]


def test_files_are_the_ones_damaged_below(saved):
    assert sorted(path.name for path in saved.iterdir()) == sorted(SAVED_FILES)


@pytest.mark.parametrize("name", SAVED_FILES)
def test_missing_truncated_and_garbled_files(saved, name):
    path: Path = saved / name
    sound = path.read_bytes()
    garbled = random.Random(name).randbytes(len(sound))
    for damaged in (None, b"", sound[:5], sound[:70], sound[:-1], garbled, b"\x93NUMPY\x01\x00" + garbled):
        path.unlink(missing_ok=True)
        if damaged is not None:
            path.write_bytes(damaged)
        with pytest.raises(IntegrityError, match="delete it and build again"):
            GraphStore.load(saved)
    path.write_bytes(sound)
    GraphStore.load(saved)


@pytest.mark.parametrize("name", [name for name in SAVED_FILES if name.endswith(".npy")])
def test_flipped_bytes_are_found(saved, name):
    path: Path = saved / name
    sound = path.read_bytes()
    data_begins = len(sound) - np.load(path).nbytes
    for position in {data_begins, (data_begins + len(sound)) // 2, len(sound) - 1}:
        damaged = bytearray(sound)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        with pytest.raises(IntegrityError):
            GraphStore.load(saved)


@pytest.mark.parametrize("text", ["[]", "3", "{}", '{"format": 1}', '{"format": 1, "arrays": {}}'])
def test_descriptions_that_are_none(saved, text):
    (saved / "store.json").write_text(text)
    with pytest.raises(IntegrityError, match="delete it and build again"):
        GraphStore.load(saved)


def test_other_format_and_stray_files(saved):
    np.save(saved / "stray.npy", np.zeros(3))
    with pytest.raises(IntegrityError, match="missing or of another size"):
        GraphStore.load(saved)
    (saved / "stray.npy").unlink()
    meta = json.loads((saved / "store.json").read_text())
    (saved / "store.json").write_text(json.dumps(meta | {"format": 2}))
    with pytest.raises(IntegrityError, match="store format 2, this version reads 1"):
        GraphStore.load(saved)


def test_missing_store(tmp_path):
    with pytest.raises(IntegrityError, match="no readable graph store"):
        GraphStore.load(tmp_path / "nowhere")


@given(st.lists(st.text("Cé漢=", max_size=5), max_size=6), st.slices(6))
@few
def test_strings_are_a_list_of_strings(texts, span):
    encoded = [text.encode() for text in texts]
    strings = Strings(np.frombuffer(b"".join(encoded), np.uint8), np.cumsum([0, *map(len, encoded)]))
    assert list(strings) == texts
    assert list(strings[span]) == texts[span]
    assert [strings[i] for i in range(-len(texts), 0)] == texts
    with pytest.raises(IndexError):
        strings[len(texts)]


def test_pointer():
    assert pointer(torch.tensor([2, 0, 3])).tolist() == [0, 2, 2, 5]
    assert pointer(torch.empty(0, dtype=torch.long)).tolist() == [0]
