"""For tests of methods that mask nodes: build one, write its risks out label by label, take steps as in training."""

from __future__ import annotations

from math import exp, isnan, log

import torch

from mphil.methods import METHODS, Progress
from tests.graphs import TASKS, random_store, small_encoder, whole
from tests.unit.nn import reference

KINDS = sorted(TASKS)


def made(name, kind="multiclass", *, missing=0.0, graphs=7, seed=0, encoder=None, nodes="float", edges="none", **args):
    """A small method in double precision and evaluation mode, with batch statistics of its own, and a batch for it."""
    store = random_store(kind, graphs=graphs, missing=missing, nodes=nodes, edges=edges, seed=seed)
    torch.manual_seed(seed)
    method = METHODS[name](TASKS[kind], small_encoder(store, **(encoder or {})), **args).double().eval()
    for key, value in method.state_dict().items():
        if key.endswith("running_mean"):
            value.copy_(torch.randn_like(value) / 5)
        elif key.endswith("running_var"):
            value.copy_(torch.rand_like(value) + 0.5)
    batch = whole(store, torch.float64)
    batch.y = batch.y.double()
    return method, batch


def written_losses(logits, y, task):
    """{(b, t): cross-entropy} of every known label, one at a time."""
    found = {}
    for b, row in enumerate(y.tolist()):
        for t, label in enumerate(row):
            if isnan(label):
                continue
            values = logits[b].tolist()
            if task.kind == "multiclass":
                found[b, t] = -log(reference.softmax(values)[int(label)])
            else:
                found[b, t] = log(1 + exp(-values[t] if label == 1 else values[t]))
    return found


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else 0.0


def written_risk(logits, y, task):
    """Mean cross-entropy over the known labels."""
    return mean(written_losses(logits, y, task).values())


def pooled(nodes, weight, batch, how="mean"):
    """(B, d) readout of weighted nodes, one graph after the other."""
    rows = []
    for b in range(len(batch.y)):
        own = [v for v in range(len(nodes)) if batch.batch[v] == b]
        total = sum(nodes[v] * weight[v] for v in own)
        rows.append(total / len(own) if how == "mean" else total)
    return torch.stack(rows)


def written_gap(mask, owner, target):
    """Mean over the owners of | mean of their mask - target |."""
    by_owner = {}
    for value, b in zip(mask.tolist(), owner.tolist(), strict=True):
        by_owner.setdefault(b, []).append(value)
    return mean(abs(mean(values) - target) for values in by_owner.values())


def same(found, expected):
    torch.testing.assert_close(found.detach(), torch.as_tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-10)


def train(method, batch, epochs, lr=1e-2, total=None, after_step=lambda epoch, group: None):
    """Take an epoch of one batch after the other, a group at a time, with an optimiser for each."""
    method.train()
    groups = method.param_groups()
    optimizers = {name: torch.optim.Adam(parameters, lr=lr) for name, parameters in groups.items()}
    for epoch in epochs:
        torch.manual_seed(epoch)
        progress = Progress(step=epoch, epoch=epoch, total_steps=total or 100, total_epochs=total or 100)
        for group, losses in method.steps(batch, progress):
            optimizers[group].zero_grad()
            losses.total.backward()
            optimizers[group].step()
            after_step(epoch, group)
    return method


def changed(before, method):
    """Names of the parameters and buffers that are not what they were in a state."""
    return {name for name, value in method.state_dict().items() if not torch.equal(value, before[name])}


def state(method):
    return {name: value.clone() for name, value in method.state_dict().items()}


def gradient(loss, module):
    """Largest absolute gradient that a loss sends to a module."""
    found = torch.autograd.grad(loss, list(module.parameters()), retain_graph=True, allow_unused=True)
    return max((float(g.abs().max()) for g in found if g is not None), default=0.0)


def learns_by_heart(name, epochs=32, **args):
    """Whether a method fits the labels of a handful of graphs that differ."""
    method, batch = made(name, graphs=9, encoder={"width": 24, "readout": "mean"}, **args)
    train(method, batch, range(epochs))
    with torch.no_grad():
        right = method.eval().predict(batch).argmax(1) == batch.y[:, 0]
    return right.double().mean() > 0.8
