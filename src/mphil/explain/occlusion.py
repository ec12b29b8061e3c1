"""What a method says of a graph when some of its nodes are not there."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from mphil.graphs.store import Batch
from mphil.methods.base import Method, evaluating
from mphil.task import Task
from mphil.training.metrics import probabilities


def keep_nodes(batch: Batch, kept: Tensor) -> Batch:
    """The graphs with some of their nodes and the edges between these; the others say nothing and do not count.

    For a network in evaluation mode this is the same as a `node_weight` of 0 together with a readout that passes over
    such nodes. The features of the nodes that stay are those of the whole graph.

    Args:
        batch: the graphs.
        kept: (n_nodes,) bool.

    Returns:
        a batch with as many graphs, whose nodes are numbered anew.

    Example:
        >>> from mphil.tables.from_smiles import molecule_store
        >>> batch = molecule_store(["CCO"], None)[0].batch(torch.tensor([0]))
        >>> part = keep_nodes(batch, torch.tensor([True, True, False]))
        >>> part.ptr.tolist(), part.edge_index.tolist()
        ([0, 2], [[0, 1], [1, 0]])
    """
    number = kept.long().cumsum(0) - 1
    edges = kept[batch.edge_index].all(0)
    part = copy.copy(batch)
    part.x, part.batch = batch.x[kept], batch.batch[kept]
    part.edge_index = number[batch.edge_index[:, edges]]
    if batch.edge_attr is not None:
        part.edge_attr = batch.edge_attr[edges]
    sizes = torch.bincount(part.batch, minlength=batch.ptr.numel() - 1)
    part.ptr = torch.cat([batch.ptr.new_zeros(1), sizes.cumsum(0)])
    return part


def class_probabilities(logits: Tensor, task: Task) -> Tensor:
    """(n_graphs, n_tasks, n_classes) from (n_graphs, n_outputs) logits.

    Example:
        >>> class_probabilities(torch.tensor([[0.0]]), Task("binary", 1, "roc_auc")).tolist()
        [[[0.5, 0.5]]]
    """
    chances = probabilities(logits.double(), task.kind)
    return chances.unsqueeze(1) if task.kind == "multiclass" else torch.stack([1 - chances, chances], dim=-1)


def predicted_numbers(outputs: Tensor, task: Task) -> Tensor:
    """(n_graphs, n_tasks) numbers of a regression in the unit of each task, from its outputs."""
    return torch.from_numpy(task.to_units(outputs.double().cpu().numpy()))


def predicted_classes(method: Method, batch: Batch) -> Tensor:
    """(n_graphs, n_tasks) the class that a method takes each graph for, in every task."""
    with evaluating(method):
        return class_probabilities(method.predict(batch), method.task).argmax(-1)


def chance_of(method: Method, batch: Batch, classes: Tensor) -> Tensor:
    """(n_graphs,) probability that a method gives to (n_graphs, n_tasks) classes, averaged over the tasks."""
    with evaluating(method):
        chances = class_probabilities(method.predict(batch), method.task)
    return chances.gather(-1, classes.unsqueeze(-1)).squeeze(-1).mean(1)
