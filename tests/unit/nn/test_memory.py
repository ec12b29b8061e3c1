"""A row for every training graph, found by its number, saved with the weights."""

import torch

from mphil.nn.memory import Memory


def test_rows_are_found_by_number_whatever_the_order():
    memory = Memory(2)
    memory.write(torch.tensor([7, 2]), torch.tensor([[7.0, 70.0], [2.0, 20.0]]))
    memory.write(torch.tensor([3]), torch.tensor([[3.0, 30.0]]))
    assert memory.read(torch.tensor([2, 3, 7, 2]))[:, 0].tolist() == [2.0, 3.0, 7.0, 2.0]


def test_a_graph_never_written_is_zero():
    memory = Memory(1)
    memory.write(torch.tensor([1]), torch.ones(1, 1))
    assert memory.read(torch.tensor([0, 1, 100])).flatten().tolist() == [0.0, 1.0, 0.0]


def test_it_takes_any_size_on_loading_and_keeps_no_gradient():
    memory, other = Memory(1), Memory(1)
    memory.write(torch.arange(4), torch.rand(4, 1, requires_grad=True))
    assert not memory.values.requires_grad
    other.write(torch.arange(9), torch.ones(9, 1))
    other.load_state_dict(memory.state_dict())
    assert torch.equal(other.values, memory.values)
    memory.write(torch.tensor([0]), torch.full((1, 1), 5.0))
    assert other.values[0] != 5.0


def test_nothing_written_is_nothing_saved():
    memory = Memory(3)
    memory.write(torch.empty(0, dtype=torch.long), torch.empty(0, 3))
    assert memory.state_dict()["values"].shape == (0, 3)
