"""Copies of graphs with the surroundings of a node hidden."""

import pytest
import torch

from mphil.nn.occlusion import hide_each, occlusion
from tests.graphs import random_store, whole

PATH = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])


@pytest.fixture
def batch():
    return whole(random_store("binary", graphs=8, nodes="categorical", edges="categorical"))


def path():
    """A path of five nodes behind a single node."""
    batch = whole(random_store("binary", graphs=2))
    batch.x, batch.edge_index = torch.arange(6.0).unsqueeze(1), PATH + 1
    batch.batch, batch.ptr = torch.tensor([0, 1, 1, 1, 1, 1]), torch.tensor([0, 1, 6])
    return batch


@pytest.mark.parametrize("most", [1, 7, 20, 10**6])
def test_every_node_has_a_copy_of_its_graph(batch, most):
    parts = list(hide_each(batch, most))
    assert torch.cat([part.graph for part in parts]).tolist() == batch.batch.tolist()
    largest = int(batch.ptr.diff().max())
    assert all(len(part.node) <= max(most, largest) + largest for part in parts)
    assert (len(parts) == 1) == (most == 10**6)
    for part in parts:
        copies = part.batch
        assert copies.batch.tolist() == torch.arange(len(part.graph)).repeat_interleave(copies.ptr.diff()).tolist()
        assert torch.equal(copies.x, batch.x[part.node])
        assert torch.equal(copies.edge_attr, batch.edge_attr[part.edge])
        assert torch.equal(part.node[copies.edge_index], batch.edge_index[:, part.edge])
        assert torch.equal(batch.batch[part.node], part.graph[copies.batch])
        assert torch.equal(copies.batch[copies.edge_index[0]], copies.batch[copies.edge_index[1]])
        sizes = torch.bincount(batch.batch[batch.edge_index[0]], minlength=batch.num_graphs)[part.graph]
        assert torch.bincount(copies.batch[copies.edge_index[0]], minlength=len(part.graph)).tolist() == sizes.tolist()


def test_a_node_is_hidden_with_its_neighbours_and_silences_theirs():
    (part,) = hide_each(path())
    hidden, near = ([one[mask].tolist() for one, mask in split(part, marks)] for marks in (part.hidden, part.near))
    assert hidden == [[0], [1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5]]
    assert near == [[0], [1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5], [2, 3, 4, 5], [3, 4, 5]]


def split(part, marks):
    sizes = part.batch.ptr.diff().tolist()
    return zip(part.node.split(sizes), marks.split(sizes), strict=True)


def test_hidden_nodes_are_the_mean_of_their_graph():
    batch = path()
    (part,) = hide_each(batch)
    found = part.blank(batch.x).squeeze(1).split(part.batch.ptr.diff().tolist())
    assert [row.tolist() for row in found[:3]] == [[0.0], [3.0, 3.0, 3.0, 4.0, 5.0], [3.0, 3.0, 3.0, 4.0, 5.0]]


def test_silenced_nodes_are_no_maximum():
    (part,) = hide_each(path())
    values = part.node.float().unsqueeze(1)
    found = part.silence(values).squeeze(1).split(part.batch.ptr.diff().tolist())
    assert [row.tolist() for row in found[:2]] == [[0.0], [1.0, 1.0, 1.0, 4.0, 5.0]]
    assert found[-1].tolist() == [1.0, 2.0, 1.0, 1.0, 1.0]


def test_a_node_costs_the_mean_of_the_neighbourhoods_it_is_in():
    costs = torch.tensor([5.0, 1.0, 2.0, 3.0, 4.0, 6.0])
    found = occlusion(path(), lambda part: costs)
    assert found.tolist() == pytest.approx([5.0, 1.5, 2.0, 3.0, 13 / 3, 5.0], abs=2e-4)


def test_rounding_costs_nothing(batch):
    assert not occlusion(batch, lambda part: 1e-4 * torch.rand(len(part.graph))).any()


def test_a_batch_without_nodes(batch):
    empty = whole(random_store("binary", graphs=8)[:0])
    assert occlusion(empty, lambda part: torch.zeros(len(part.graph))).shape == (0,)
