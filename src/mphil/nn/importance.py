"""Which nodes a prediction rests on."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mphil.task import Task


def node_contribution(nodes: Tensor, head: Callable[[Tensor], Tensor], task: Task) -> Tensor:
    r"""First-order share of every node in the decision.

    .. math:: c_v = \Big\langle \frac{\partial f}{\partial h_v},\, h_v \Big\rangle

    Args:
        nodes: (n_nodes, d) node features.
        head: from node features to (n_graphs, outputs) logits.
        task: says how logits become the margin :math:`f` of the decision.

    Returns:
        (n_nodes,) contributions.
    """
    with torch.enable_grad():
        nodes = nodes.detach().requires_grad_()
        margin = decision_margin(head(nodes), task)
        (gradient,) = torch.autograd.grad(margin.sum(), nodes)
    return (gradient * nodes).sum(1).detach()


def decision_margin(logits: Tensor, task: Task) -> Tensor:
    """(n_graphs,) how far the decision is from tipping.

    Multi-class: the winning logit above the mean of all; binary: the distance from 0, averaged over tasks. Of a
    regression, which decides nothing, the predicted value itself, averaged over tasks.
    """
    if task.kind == "regression":
        return logits.mean(1)
    if task.kind == "multiclass":
        return logits.amax(1) - logits.mean(1)
    return logits.abs().mean(1)
