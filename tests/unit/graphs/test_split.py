import pytest
import torch

from mphil.errors import DataError
from mphil.graphs.split import PARTS, Split


def split(provenance=None, **changes):
    parts = dict(zip(PARTS, [[0, 1, 2], [3], [4], [5, 6], [7]], strict=True)) | changes
    tensors = {part: torch.tensor(graphs, dtype=torch.long) for part, graphs in parts.items()}
    return Split(**tensors, provenance={"seed": 0} if provenance is None else provenance)


def test_parts_sizes_and_order():
    parts = split()
    assert [part for part, _ in parts] == ["train", "id_val", "id_test", "ood_val", "ood_test"]
    assert parts.sizes == {"train": 3, "id_val": 1, "id_test": 1, "ood_val": 2, "ood_test": 1}
    assert parts["ood_val"].tolist() == [5, 6]


def test_all_but_train_may_be_empty():
    assert split(id_val=[], id_test=[], ood_val=[], ood_test=[]).sizes["id_val"] == 0
    with pytest.raises(DataError, match="training part is empty"):
        split(train=[])


@pytest.mark.parametrize("first", PARTS)
@pytest.mark.parametrize("second", PARTS)
def test_no_graph_is_in_two_parts(first, second):
    graphs = {first: [90, 91]} if first != second else {}
    graphs[second] = [91, 92] if first != second else [91, 90, 91]
    earlier, later = sorted((first, second), key=PARTS.index)
    with pytest.raises(DataError, match=f"graph 91 is in {earlier} and in {later}"):
        split(**graphs)


@pytest.mark.parametrize(
    "bad", [torch.tensor([0.0]), torch.tensor([[8]]), torch.tensor([True]), torch.tensor([8]).int()]
)
def test_parts_are_vectors_of_positions(bad):
    parts = dict(split())
    with pytest.raises(DataError, match="ood_test must be a vector of integers"):
        Split(**parts | {"ood_test": bad})


def test_counting_from_the_end_would_hide_an_overlap():
    with pytest.raises(DataError, match="id_val has the negative position -1"):
        split(id_val=[-1])


def test_digest_is_stable_and_sees_every_change():
    base = split().digest()
    assert base == split().digest()
    changed = [
        split(provenance={"seed": 1}),
        split(provenance={}),
        split(train=[0, 2, 1]),
        split(train=[0, 1]),
        split(id_val=[4], id_test=[3]),
        split(id_val=[], id_test=[3, 4]),
        split(ood_test=[8]),
    ]
    assert len({base, *(other.digest() for other in changed)}) == 1 + len(changed)


def test_digest_of_provenance_does_not_depend_on_key_order():
    assert split({"a": 1, "b": 2}).digest() == split({"b": 2, "a": 1}).digest()


def test_digest_is_the_same_on_every_machine():
    assert split().digest().startswith("0f0005e1726cbf5a")
