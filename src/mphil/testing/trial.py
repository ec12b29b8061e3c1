"""One method on one kind of task, trained the way the trainer does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.features import Features
from mphil.graphs.store import Batch, GraphStore
from mphil.methods.base import Losses, Method, Parts, Progress
from mphil.task import Kind, Task
from mphil.testing.graphs import labelled_molecules, random_graphs

TASKS: dict[Kind, Task] = {
    "multiclass": Task("multiclass", 3, "accuracy"),
    "binary": Task("binary", 1, "roc_auc"),
    "multitask": Task("multitask", 4, "average_precision"),
    "regression": Task("regression", 2, "rmse", (6.0, -200.0), (1.5, 40.0)),
}
ATOMS, BONDS = Features("categorical", (6, 3, 2)), Features("categorical", (4, 2))
Trace = list[dict[str, Tensor]]
"""What happened in training: for every step of an optimiser, the loss terms and gradients by name."""


def require(condition: bool | Tensor, message: str) -> None:
    """Raise AssertionError with this message unless the condition holds."""
    if not condition:
        raise AssertionError(message)


@dataclass(frozen=True)
class Trial:
    """A method's class, how to build it, and twelve small graphs to try it on.

    Attributes:
        cls: the method.
        args: its hyperparameters.
        task: what is asked of the graphs.
        encoder: settings of its network.
        graphs: the data.
        seed: of weights and training.
    """

    cls: type[Method]
    args: Mapping[str, Any]
    task: Task
    encoder: EncoderConfig
    graphs: GraphStore
    seed: int

    @classmethod
    def of(
        cls,
        method: type[Method],
        kind: Kind,
        args: Mapping[str, Any],
        seed: int,
        encoder: Mapping[str, Any] | None = None,
    ) -> Trial:
        """Structure alone for multi-class tasks; molecules, and a virtual node, for the others."""
        task = TASKS[kind]
        bare = kind == "multiclass" and "molecules" not in method.needs
        if "molecules" in method.needs:
            graphs = labelled_molecules(task, seed=seed)
        else:
            node, edge = (Features.constant(), Features.none()) if bare else (ATOMS, BONDS)
            graphs = random_graphs(task, node, edge, seed=seed)
        usual = {"kind": "gin" if bare else "vgin", "layers": 3, "width": 12, "dropout": 0.2}
        features = {"node": graphs.node_features, "edge": graphs.edge_features}
        return cls(method, args, task, EncoderConfig(**usual | dict(encoder or {}) | features), graphs, seed)

    def build(self, other_weights: bool = False) -> Method:
        """A new instance, with the weights of this trial's seed or with different ones."""
        torch.manual_seed(self.seed + other_weights)
        return self.cls(self.task, self.encoder, **self.args)

    def batch(self, graphs: Tensor | None = None, **replaced: Tensor) -> Batch:
        """All graphs, or some of them, as a batch; keywords replace its tensors."""
        batch = self.graphs.batch(torch.arange(len(self.graphs)) if graphs is None else graphs)
        batch.update(replaced)
        return batch

    def started(self, batch: Batch) -> Method:
        """A new instance at the beginning of the main stage, whose epochs consist of this batch."""
        method = self.build().to(batch.y.dtype).train()
        self.pass_stages(method, batch)
        return method

    def prepare(self, method: Method, batch: Batch) -> Parts:
        """Let a method look at its training graphs, as the trainer does when a run begins or is taken up again."""
        parts = Parts([batch], [batch])
        torch.manual_seed(self.seed)
        method.prepare(parts)
        return parts

    def pass_stages(self, method: Method, batch: Batch, until: str = "main") -> Trace:
        """Take a method through its earlier stages to the first step of the stage `until`."""
        parts, trace = self.prepare(method, batch), Trace()
        for stage in [*method.stages(), "main"]:
            method.begin_epoch(parts, Progress(stage=stage))
            if stage == until:
                break
            trace += self.train(method, batch, steps=2, stage=stage)
            torch.manual_seed(self.seed)
            method.end_stage(parts, Progress(step=2, epoch=2, total_steps=2, total_epochs=2, stage=stage))
        return trace

    def trained(self) -> Method:
        """An instance after a few steps of training, in evaluation mode."""
        batch = self.batch()
        method = self.started(batch)
        self.train(method, batch, steps=2)
        return method.eval()

    def train(self, method: Method, batch: Batch, steps: int = 1, stage: str = "main") -> Trace:
        """Take steps in the method's present mode, an epoch each, drawing the random numbers of their number."""
        groups = method.param_groups()
        optimizers = {name: torch.optim.Adam(parameters, lr=1e-3, fused=True) for name, parameters in groups.items()}
        names = {parameter: name for name, parameter in method.named_parameters()}
        trace: Trace = []
        for step in range(steps):
            torch.manual_seed(self.seed + step)
            progress = Progress(step, epoch=step, total_steps=steps + 1, total_epochs=steps + 1, stage=stage)
            for group, losses in method.steps(batch, progress):
                require(group in groups, f"steps() names the group {group!r}; param_groups() has {', '.join(groups)}")
                optimizers[group].zero_grad()
                check_losses(losses)
                losses.total.backward()  # type: ignore[no-untyped-call]
                gradients = {f"gradient of {names[p]}": p.grad.clone() for p in groups[group] if p.grad is not None}
                for name, gradient in gradients.items():
                    require(gradient.isfinite().all(), f"the {name} is not finite; mask what is undefined beforehand")
                trace.append({f"loss {term}": value.detach() for term, value in losses.items()} | gradients)
                optimizers[group].step()
        return trace


def check_losses(losses: Losses) -> None:
    """Losses are named, finite scalars."""
    require(isinstance(losses, Losses) and len(losses) > 0, "loss() must return Losses with at least one term")
    for term, value in losses.items():
        require(value.dim() == 0, f"the loss term {term!r} has shape {tuple(value.shape)}; reduce it to a scalar")
        require(value.isfinite(), f"the loss term {term!r} is {float(value.detach())}; guard it against this case")


def outputs(method: Method, batch: Batch) -> dict[str, Tensor]:
    """The prediction and whatever else the method offers, computed as at inference."""
    with torch.no_grad():
        values = {"predict": method.predict(batch)}
        for name in ("embed", "node_importance", "ood_score"):
            try:
                values[name] = getattr(method, name)(batch)
            except UsageError:
                continue
    return values


def snapshot(tensors: Mapping[str, Any]) -> dict[str, Tensor]:
    """Copies of all tensors of a state or a batch."""
    return {name: value.detach().clone() for name, value in tensors.items() if isinstance(value, Tensor)}


def differing(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> list[str]:
    """Names of the tensors that are not the same in every bit; two NaN are the same."""
    names = sorted(before.keys() | after.keys())
    return [n for n in names if n not in before or n not in after or not identical(before[n], after[n])]


def identical(left: Tensor, right: Tensor) -> bool:
    """Same shape, type and values, NaN included."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    return bool(((left == right) | ((left != left) & (right != right))).all())
