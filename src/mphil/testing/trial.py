"""One method on one kind of task, on small random graphs with everything that real data contain and tests forget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.features import Features
from mphil.graphs.store import Batch, GraphBatch, GraphStore
from mphil.methods.base import Losses, Method, Parts, Progress
from mphil.tables.from_smiles import molecule_store
from mphil.task import Kind, Task

N_NODES = (7, 1, 9, 4, 6, 11, 5, 8, 3, 10, 2, 6)
"""Nodes of the graphs unless told otherwise: one has a single node, three have no edges, others have isolated nodes."""

MOLECULES = (
    "CC(=O)NCCc1ccccc1",
    "C",
    "COc1ccc(CN2CCOCC2)cc1",
    "CCOC(=O)C",
    "O",
    "CC(C)NC(=O)c1ccncc1",
    "CCO",
    "O=S(=O)(NC1CC1)c1ccccc1",
    "CC#N",
    "[Na+].CC(=O)[O-]",
    "N",
    "CC1CCN(C(=O)C)CC1",
)
"""Two molecules are a single atom, one is in two pieces, some have bonds that a chemist would cut."""


def random_graphs(
    task: Task,
    node: Features | None = None,
    edge: Features | None = None,
    *,
    n_nodes: Sequence[int] = N_NODES,
    seed: int = 0,
) -> GraphStore:
    """Graphs for tests: random edges, features and labels, three environments.

    Every fifth graph has no edges. All classes occur when there are enough graphs. About a third of the labels of a
    multi-task problem or a regression are missing.

    Args:
        task: what the labels are for.
        node: what the nodes carry; constants when left out.
        edge: what the edges carry; nothing when left out.
        n_nodes: nodes of each graph.
        seed: of everything random.

    Example:
        >>> store = random_graphs(Task("multiclass", 3, "accuracy"))
        >>> len(store), store.n_nodes.tolist()[:3]
        (12, [7, 1, 9])
    """
    generator = torch.Generator().manual_seed(seed)
    node, edge = node or Features.constant(), edge or Features.none()
    graphs = []
    for number, n in enumerate(n_nodes):
        pairs = torch.randint(0, n, (2, 0 if number % 5 == 4 else n), generator=generator)
        pairs = pairs[:, pairs[0] != pairs[1]]
        attr = random_features(edge, pairs.shape[1], generator)
        graphs.append(
            GraphBatch(
                x=random_features(node, n, generator),
                edge_index=torch.cat([pairs, pairs.flip(0)], dim=1),
                edge_attr=None if attr is None else torch.cat([attr, attr]),
                y=_label(task, number, generator),
                env=number // 2 % 3,
            )
        )
    return GraphStore.from_pyg(graphs, node_features=node, edge_features=edge)


def labelled_molecules(task: Task, *, seed: int = 0) -> GraphStore:
    """Twelve small molecules with their SMILES; labels and environments as in `random_graphs`."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.stack([_label(task, number, generator) for number in range(len(MOLECULES))])
    env = torch.arange(len(MOLECULES)) // 2 % 3
    return molecule_store(MOLECULES, y, env=env, workers=0, progress=False)[0]


def random_features(features: Features, rows: int, generator: torch.Generator) -> Tensor | None:
    """(rows, columns) values of this kind, or None when there are none."""
    if features.kind == "none":
        return None
    if features.kind == "constant":
        return torch.ones(rows, features.width)
    if features.kind == "float":
        return torch.randn(rows, features.width, generator=generator)
    return torch.stack([torch.randint(0, size, (rows,), generator=generator) for size in features.sizes], dim=1)


def to_dtype(batch: GraphBatch, dtype: torch.dtype) -> GraphBatch:
    """A copy of the batch with all its floating-point tensors in another precision."""
    return batch.clone().apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)


def _label(task: Task, number: int, generator: torch.Generator) -> Tensor:
    if task.kind == "regression":
        labels = torch.from_numpy(
            task.to_units(torch.randn(task.n_tasks, generator=generator).double().numpy())
        ).float()
    elif task.kind == "multitask":
        labels = torch.randint(0, 2, (task.n_tasks,), generator=generator).float()
    else:
        return torch.tensor([float(number % task.n_classes)])
    return labels.masked_fill(torch.rand(task.n_tasks, generator=generator) < 1 / 3, float("nan"))


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

    def batch(self, graphs: Tensor | None = None, **replaced: Tensor) -> GraphBatch:
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
