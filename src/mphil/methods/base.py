"""The contract between a method and everything around it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, get_args

import torch
from torch import Tensor, nn

from mphil.config import EncoderConfig, check_arguments
from mphil.errors import UnknownName, UsageError
from mphil.graphs.store import Batch
from mphil.nn.descriptors import Descriptors
from mphil.nn.encoders import require_weights
from mphil.nn.readout import Readout
from mphil.nn.threads import one_thread
from mphil.registry import Registry
from mphil.task import Kind, Task

ROUNDING = 1e-9
"""Keeps a quotient that should be a whole number from falling just below it."""


@dataclass(frozen=True)
class Progress:
    """Where training stands; every schedule is a pure function of it. Steps and epochs count inside the stage."""

    step: int = 0
    epoch: int = 0
    total_steps: int = 1
    total_epochs: int = 1
    stage: str = "main"

    @property
    def fraction(self) -> float:
        """0 at the first step, towards 1 at the last."""
        return self.step / max(1, self.total_steps)


def passed(fraction: float, share: float) -> int:
    """How many intervals of this share of the training are over at a fraction of it.

    Example:
        >>> passed(0.0, 0.1), passed(0.3, 0.1), passed(0.59, 0.1)
        (0, 3, 5)
    """
    return math.floor(fraction / share + ROUNDING)


@dataclass(frozen=True)
class Parts:
    """What a method may look at between steps, as batches in stored order.

    Attributes:
        train: the training part.
        validation: the OOD validation part; it may be empty.
    """

    train: Iterable[Batch]
    validation: Iterable[Batch] = ()


class Losses(dict[str, Tensor]):
    """Named scalar terms, already weighted; their sum is what is minimised."""

    def __init__(self, **terms: Tensor) -> None:
        super().__init__(terms)

    @property
    def total(self) -> Tensor:
        return torch.stack(list(self.values())).sum()


class Method(nn.Module):
    """A way to learn a classifier of graphs, or a regression.

    A method implements `loss` and `predict`. Keyword-only arguments of `__init__`, typed and with defaults, are its
    hyperparameters. The class facts are set by `@register`.

    Attributes:
        task: what is asked.
        pool: the readout that `encoder.readout` names.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    needs: ClassVar[frozenset[str]]
    tasks: ClassVar[frozenset[Kind]]
    refuses: ClassVar[Mapping[Kind, str]]
    search_space: ClassVar[Mapping[str, Any]]
    presets: ClassVar[Mapping[str, Mapping[str, Any]]]
    parallel: ClassVar[bool] = False

    def __init__(self, task: Task, encoder: EncoderConfig) -> None:
        super().__init__()
        self.task = task
        self.pool = Readout(encoder.readout, encoder.width)

    @property
    def takes_descriptors(self) -> bool:
        """Whether batches must hold what describes whole molecules, see `mphil.nn.descriptors`."""
        return any(isinstance(module, Descriptors) for module in self.modules())

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        """The terms to minimise on this batch."""
        raise NotImplementedError

    def predict(self, batch: Batch) -> Tensor:
        """(n_graphs, task.n_outputs) logits; of a regression, predictions in standard deviations from the mean."""
        raise NotImplementedError

    def embed(self, batch: Batch) -> Tensor:
        """(n_graphs, p) the vector a graph is classified by."""
        raise UsageError(f"{self.name} has no embedding")

    def node_importance(self, batch: Batch) -> Tensor:
        """(n_nodes,) how much each node speaks for the prediction; comparable inside one graph."""
        raise UsageError(f"{self.name} does not explain its predictions")

    def ood_score(self, batch: Batch) -> Tensor:
        """(n_graphs,) larger = further from what was seen in training."""
        raise UsageError(f"{self.name} has no out-of-distribution score")

    def param_groups(self) -> dict[str, list[nn.Parameter]]:
        """Parameters by group; each group has an optimiser of its own."""
        return {"all": list(self.parameters())}

    def learning_rates(self) -> dict[str, float]:
        """Factor of the learning rate for groups that do not move at 1."""
        return {}

    def steps(self, batch: Batch, progress: Progress) -> Iterator[tuple[str, Losses]]:
        """What to minimise, one after the other, on a batch: (group to move, its losses)."""
        yield "all", self.loss(batch, progress)

    def stages(self) -> dict[str, float]:
        """Earlier stages of training, in order: name and epochs, as a share of the epochs of the main stage."""
        return {}

    def prepare(self, parts: Parts) -> None:
        """Called before the first step of a new or a resumed run: what follows from the training graphs alone."""
        for module in self.modules():
            if isinstance(module, Descriptors):
                module.fit(parts.train)

    def begin_epoch(self, parts: Parts, progress: Progress) -> None:
        """Called before every epoch of every stage."""

    def end_stage(self, parts: Parts, progress: Progress) -> None:
        """Called after the last epoch of an earlier stage; what it leaves behind must be in the state."""


@contextmanager
def evaluating(method: nn.Module) -> Iterator[None]:
    """In evaluation mode, without gradients, in one thread; afterwards mode and threads are what they were."""
    was_training = method.training
    method.eval()
    try:
        with torch.no_grad(), one_thread():
            yield
    finally:
        method.train(was_training)


METHODS: Registry[type[Method]] = Registry("method", "mphil.methods", group="mphil.methods")
M = TypeVar("M", bound=type[Method])
ONLY_CLASSES = "only its loss for classes is implemented"


def register(
    name: str,
    *,
    paper: str,
    needs: Iterable[str] = (),
    refuses: Mapping[Kind, str] | None = None,
    search_space: Mapping[str, Any] | None = None,
    presets: Mapping[str, Mapping[str, Any]] | None = None,
    parallel: bool = False,
    regression: bool = False,
) -> Callable[[M], M]:
    """Class decorator: put a method into the table of methods, with the facts about it.

    Args:
        name: what people type.
        paper: where the method was published.
        needs: what the data must have: `env` (environment labels), `molecules`; and `edge_weight` if its encoder must
            take weights of edges or nodes.
        refuses: the kinds of task it is not defined for, with the reason.
        search_space: hyperparameters worth tuning, with the values to try.
        presets: named sets of hyperparameters.
        parallel: processes may share a batch: the sum of their losses is the loss of the whole (see `nn/world.py`).
        regression: it also learns measured numbers.
    """

    def add(cls: M) -> M:
        cls.name, cls.paper = name, paper
        known = dict(refuses or {})
        if not regression:
            known.setdefault("regression", ONLY_CLASSES)
        cls.needs, cls.refuses = frozenset(needs), known
        cls.tasks = frozenset(kind for kind in get_args(Kind) if kind not in cls.refuses)
        cls.search_space, cls.presets = dict(search_space or {}), dict(presets or {})
        cls.parallel = parallel
        METHODS.add(name, cls, cls.__module__)
        return cls

    return add


def summary(cls: type[Method]) -> str:
    """One line about a method: behind the colon in the first line of its module, or else the first of its docstring."""
    module = (inspect.getdoc(inspect.getmodule(cls)) or "").partition("\n")[0].partition(": ")[2]
    return module or (inspect.getdoc(cls) or "").partition("\n")[0]


def resolve_hyperparameters(cls: type[Method], preset: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Signature, then preset, then what the user gave; an unknown name is an error with a suggestion."""
    if preset is not None and preset not in cls.presets:
        raise UnknownName(f"preset of method {cls.name}", preset, cls.presets)
    chosen = dict(cls.presets[preset]) if preset else {}
    return check_arguments(cls.__init__, chosen | dict(given), f"method {cls.name}")


def able(kind: Kind) -> list[str]:
    """Names of the methods that a kind of task can be learned with."""
    return [name for name in METHODS if kind in METHODS[name].tasks]


def build_method(name: str, task: Task, encoder: EncoderConfig, args: Mapping[str, Any]) -> Method:
    """Build a method by name, refusing tasks it is not defined for and encoders that lack what it needs."""
    cls = METHODS[name]
    if task.kind not in cls.tasks:
        raise UsageError(
            f"{name} is not defined for {task.kind} tasks: {cls.refuses[task.kind]}; "
            f"it supports {', '.join(sorted(cls.tasks))}; methods that can: {', '.join(able(task.kind))}"
        )
    if "edge_weight" in cls.needs:
        require_weights(encoder, name)
    return cls(task, encoder, **resolve_hyperparameters(cls, None, args))


class Staged(Method):
    """A method whose earlier stages each train a network of their own, which stands still afterwards.

    The parameters of a stage are the group of its name; the main stage moves all that belong to no earlier one. Their
    `loss` looks at `progress.stage`.
    """

    def stage_networks(self) -> dict[str, nn.Module]:
        """The network that each earlier stage trains."""
        raise NotImplementedError

    def param_groups(self) -> dict[str, list[nn.Parameter]]:
        groups = {stage: list(network.parameters()) for stage, network in self.stage_networks().items()}
        earlier = {parameter for group in groups.values() for parameter in group}
        return groups | {"main": [parameter for parameter in self.parameters() if parameter not in earlier]}

    def steps(self, batch: Batch, progress: Progress) -> Iterator[tuple[str, Losses]]:
        yield progress.stage, self.loss(batch, progress)
