"""The promises of a method, one function each, and all of them over every kind of task.

What is broken is said in the words of its author.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, get_args, get_type_hints

import torch
from torch import Tensor

from mphil.config import keyword_arguments
from mphil.errors import MphilError
from mphil.graphs.store import ranges
from mphil.methods.base import METHODS, Method, Progress, resolve_hyperparameters
from mphil.task import Kind
from mphil.testing.trial import TASKS, Trial, check_losses, differing, outputs, require, snapshot, to_dtype

NEEDS = frozenset({"env", "molecules", "edge_weight"})
NEGLIGIBLE = 1e-10
"""Share of the largest gradient entry below which a gradient in float64 is rounding."""
TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-10}


def class_facts(method: type[Method]) -> None:
    """`@register` was applied, with facts that mean something."""
    for fact in ("name", "paper", "needs", "tasks", "refuses", "search_space", "presets"):
        require(hasattr(method, fact), f"the class has no {fact!r}; decorate it with @register")
    require(bool(method.name and method.paper), "name and paper must not be empty")
    require(method.needs <= NEEDS, f"needs is {sorted(method.needs)}; known are {sorted(NEEDS)}")
    kinds = frozenset(get_args(Kind))
    require(bool(method.tasks) and method.tasks <= kinds, f"tasks is {sorted(method.tasks)}; use {sorted(kinds)}")
    require(bool(inspect.getdoc(method)), "the class needs a docstring: what it minimises, with the formula")


def hyperparameters(method: type[Method]) -> None:
    """Options are keyword-only, typed, with defaults that survive JSON; presets and search space know them."""
    _, *parameters = inspect.signature(method.__init__).parameters.values()
    options = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    leading = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    require(leading == ["task", "encoder"], f"__init__ must be (self, task, encoder, *, ...), not {leading}")
    hints = get_type_hints(method.__init__)
    for option in options:
        require(option.default is not option.empty, f"give the hyperparameter {option.name!r} a default")
        require(option.name in hints, f"give the hyperparameter {option.name!r} a type hint")
    defaults = keyword_arguments(method.__init__)
    try:
        require(json.loads(json.dumps(defaults)) == defaults, "defaults change in JSON; use numbers, strings, lists")
        require(resolve_hyperparameters(method, None, defaults) == defaults, "defaults do not match their type hints")
        for preset in method.presets:
            resolve_hyperparameters(method, preset, {})
    except (MphilError, TypeError) as error:
        raise AssertionError(f"defaults and presets must be JSON values of the declared types: {error}") from error
    unknown = sorted(method.search_space.keys() - defaults.keys())
    require(not unknown, f"search_space names {unknown}, which are no hyperparameters")


def finite_loss(trial: Trial) -> None:
    """The loss of every stage is finite, in training and in evaluation mode."""
    batch = trial.batch()
    for stage in [*trial.build().stages(), "main"]:
        method = trial.build().train()
        trial.pass_stages(method, batch, until=stage)
        for mode in (True, False):
            check_losses(method.train(mode).loss(batch, Progress(stage=stage)))


def stages(trial: Trial) -> None:
    """Earlier stages have names of their own and take a positive share of the epochs."""
    for stage, share in trial.build().stages().items():
        require(stage != "main", "the last stage is called 'main' by itself; stages() names those before it")
        require(share > 0, f"the stage {stage!r} takes {share} of the epochs; leave it out or give it some")


def gradients(trial: Trial) -> None:
    """Every declared parameter is moved by the losses of its own group, and none is forgotten.

    Asked of each tensor over a few epochs of every stage, not of each entry: ReLU and dropout may silence single
    weights. A vector may move by rounding alone, since a bias in front of a batch normalisation or a softmax cancels
    by construction; a matrix must move by more.
    """
    batch = to_dtype(trial.batch(), torch.float64)
    method = trial.build().to(torch.float64).train()
    grouped = [parameter for group in method.param_groups().values() for parameter in group]
    declared = {name: parameter for name, parameter in method.named_parameters() if parameter.requires_grad}
    forgotten = [name for name, parameter in declared.items() if parameter not in set(grouped)]
    require(not forgotten, f"no group of param_groups() has {forgotten}; add them or set requires_grad to False")
    require(len(grouped) == len(set(grouped)), "a parameter is in two groups of param_groups()")

    trace = trial.pass_stages(method, batch) + trial.train(method, batch, steps=8)
    largest = {
        name: max(float(step[key].abs().max()) if key in step else 0.0 for step in trace)
        for name, key in ((name, f"gradient of {name}") for name in declared)
    }
    rounding = NEGLIGIBLE * max(largest.values())
    unmoved = [name for name, size in largest.items() if size <= (rounding if declared[name].dim() > 1 else 0.0)]
    require(not unmoved, f"no gradient reaches {unmoved}; look for a detach() or a part that is never used")


def prediction(trial: Trial) -> None:
    """A prediction is (n_graphs, n_outputs), finite, repeatable, and made without labels and environments."""
    method, batch = trial.trained(), trial.batch()
    hidden = trial.batch(y=torch.full_like(batch.y, torch.nan), env=torch.full_like(batch.env, -1))
    with torch.no_grad():
        logits, again, blind = method.predict(batch), method.predict(batch), method.predict(hidden)
    expected = (len(trial.graphs), trial.task.n_outputs)
    require(logits.shape == expected, f"predict() must return {expected}, not {tuple(logits.shape)}")
    require(logits.isfinite().all(), "predict() returns values that are not finite")
    require(torch.equal(logits, again), "predict() gives two answers in evaluation mode; switch randomness off there")
    require(torch.equal(logits, blind), "predict() looks at batch.y or batch.env, which are unknown at inference")


def batch_independence(trial: Trial) -> None:
    """What is said of a graph does not depend on the graphs beside it, nor on their order."""
    method, n, few = trial.trained(), len(trial.graphs), 5
    order = torch.randperm(n, generator=torch.Generator().manual_seed(trial.seed))
    nodes, _ = ranges(trial.graphs.node_ptr, order)
    for dtype, tolerance in TOLERANCES.items():
        method = method.to(dtype)

        def run(graphs: Tensor, method: Method = method, dtype: torch.dtype = dtype) -> dict[str, Tensor]:
            return outputs(method, to_dtype(trial.batch(graphs), dtype))

        together, shuffled, alone = run(torch.arange(n)), run(order), [run(torch.tensor([i])) for i in range(few)]
        for name, whole in together.items():
            rows = nodes if name == "node_importance" else order
            first = torch.cat([one[name] for one in alone])
            gap = torch.cat([whole[: len(first)] - first, whole[rows] - shuffled[name]]).abs().max()
            require(
                gap <= tolerance * whole.abs().max().clamp_min(1.0),
                f"{name}() of a graph changes by {gap:.1e} with the batch it is in; use no statistic over the "
                "batch in evaluation mode",
            )


def single_graph(trial: Trial) -> None:
    """A batch may hold one graph, in training and in evaluation."""
    method = trial.trained()
    for number in range(3):
        batch = trial.batch(torch.tensor([number]))
        logits = method.eval().predict(batch)
        require(logits.shape == (1, trial.task.n_outputs), f"predict() of one graph returns {tuple(logits.shape)}")
        check_losses(method.loss(batch, Progress()))
        trial.train(method.train(), batch)
        _check_finite_state(method)


def environments(trial: Trial) -> None:
    """One environment in the batch is enough; a method that does not declare `env` never looks at it."""
    batch = trial.batch()
    single = trial.batch(env=torch.zeros_like(batch.env))
    with_one = trial.train(trial.started(single), single)
    if "env" not in trial.cls.needs:
        unknown = trial.batch(env=torch.full_like(batch.env, -1))
        for before, after in zip(with_one, trial.train(trial.started(unknown), unknown), strict=True):
            changed = differing(before, after)
            require(not changed, f"batch.env changes {changed[:3]}; declare needs={{'env'}} or do not look at it")


def missing_labels(trial: Trial) -> None:
    """A graph without a label, a task without labels and a batch without any still give a loss and finite weights."""
    y = trial.batch().y
    one_row, one_task = y.clone(), y.clone()
    one_row[0], one_task[:, 0] = torch.nan, torch.nan
    for labels in (one_row, one_task, torch.full_like(y, torch.nan)):
        batch = trial.batch(y=labels)
        method = trial.started(batch)
        trial.train(method, batch, steps=2)
        _check_finite_state(method)


def untouched_input(trial: Trial) -> None:
    """The batch is read, never written."""
    batch = trial.batch()
    before, keys = snapshot(batch.to_dict()), set(batch.to_dict())
    method = trial.started(batch)
    trial.train(method, batch)
    outputs(method.eval(), batch)
    changed = sorted(keys ^ set(batch.to_dict())) or differing(before, snapshot(batch.to_dict()))
    require(not changed, f"the method changes the batch it is given ({', '.join(changed)}); work on a copy")


def determinism(trial: Trial) -> None:
    """The same seed gives the same weights, losses and gradients, bit for bit."""
    batch = trial.batch()
    first, second = trial.started(batch), trial.started(batch)
    states = [snapshot(method.state_dict()) for method in (first, second)]
    traces = [trial.train(method, batch, steps=2) for method in (first, second)]
    for before, after in [tuple(states), *zip(*traces, strict=True)]:
        changed = differing(before, after)
        require(not changed, f"{changed[:3]} differ under one seed; draw random numbers from torch only")


def state_round_trip(trial: Trial) -> None:
    """A new instance given the state of another, in any stage, predicts and goes on training with the same bits."""
    batch = trial.batch()
    hint = "something learned is not in state_dict(); make it a parameter or register_buffer() it"
    for stage in [*trial.build().stages(), "main"]:
        method, copy = trial.build().train(), trial.build(other_weights=True).train()
        trial.pass_stages(method, batch, until=stage)
        trial.train(method, batch, steps=2, stage=stage)
        state = method.state_dict()
        foreign = [name for name, value in state.items() if not isinstance(value, Tensor)]
        require(not foreign, f"the state holds {foreign}, which are no tensors and cannot be saved")
        copy.load_state_dict(snapshot(state))
        changed = differing(outputs(method.eval(), batch), outputs(copy.eval(), batch))
        require(not changed, f"{changed} differ after a state round trip in stage {stage!r}: {hint}")
        trial.prepare(copy, batch)
        went_on = [trial.train(one.train(), batch, stage=stage) for one in (method, copy)]
        for before, after in zip(*went_on, strict=True):
            changed = differing(before, after)
            require(not changed, f"training goes on differently in stage {stage!r} after a state round trip: {hint}")


def quiet_evaluation(trial: Trial) -> None:
    """In evaluation mode nothing is learned: no buffer moves, no gradient is left, the mode stays."""
    method, batch = trial.trained(), trial.batch()
    method.zero_grad()
    before = snapshot(method.state_dict())
    for name in ("loss()", "predict() or another output"):
        if name == "loss()":
            method.loss(batch, Progress())
        else:
            outputs(method, batch)
        changed = differing(before, snapshot(method.state_dict()))
        require(not changed, f"{name} changes {changed} in evaluation mode; update only `if self.training`")
        require(not any(m.training for m in method.modules()), f"{name} switches the method to training mode")
        left = [n for n, p in method.named_parameters() if p.grad is not None]
        require(not left, f"{name} leaves gradients on {left}; use torch.autograd.grad")


def optional_outputs(trial: Trial) -> None:
    """Embedding, node importance and out-of-distribution score, where offered, have their shapes and are finite."""
    batch = trial.batch()
    n, nodes = len(trial.graphs), batch.x.shape[0]
    for name, value in outputs(trial.trained(), batch).items():
        wanted = (nodes,) if name == "node_importance" else (n,) if name == "ood_score" else (n, *value.shape[1:2])
        require(value.shape == wanted, f"{name}() must return shape {wanted}, not {tuple(value.shape)}")
        require(value.isfinite().all(), f"{name}() returns values that are not finite")
        require(not value.requires_grad, f"{name}() under no_grad returns a tensor that carries a gradient; detach it")


def _check_finite_state(method: Method) -> None:
    broken = [name for name, value in method.state_dict().items() if not value.isfinite().all()]
    require(not broken, f"after a step {broken} are no longer finite")


CLASS_CHECKS = (class_facts, hyperparameters)
TRIAL_CHECKS = (
    stages,
    finite_loss,
    gradients,
    prediction,
    batch_independence,
    single_graph,
    environments,
    missing_labels,
    untouched_input,
    determinism,
    state_round_trip,
    quiet_evaluation,
    optional_outputs,
)


@dataclass(frozen=True)
class Check:
    """One promise of one method, to be called.

    Attributes:
        name: the kind of task and the promise, such as `binary: missing labels`.
        method: whose promise it is.
    """

    name: str
    method: str
    _run: Callable[[], None] = field(repr=False)

    def __call__(self) -> None:
        """Raise AssertionError, with what to do about it, when the promise is broken; other faults count as such."""
        with torch.random.fork_rng(devices=[]):
            try:
                self._run()
            except AssertionError as error:
                raise AssertionError(f"{self}: {error}") from error
            except Exception as error:
                raise AssertionError(f"{self}: raised {type(error).__name__}: {error}") from error

    def __str__(self) -> str:
        return f"method {self.method}, {self.name}"


def method_checks(
    method: str | type[Method],
    *,
    args: Mapping[str, Any] | None = None,
    encoder: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> list[Check]:
    """All checks of a method, not yet run: one test each for pytest.

    Args:
        method: its name, or the class itself, which need not be registered.
        args: hyperparameters other than the defaults.
        encoder: settings of the encoder other than those of the checks, such as `{"kind": "gcn"}`.
        seed: of data, weights and training.
    """
    cls = METHODS[method] if isinstance(method, str) else method
    label = getattr(cls, "name", cls.__name__)
    checks = [Check(f"class: {_words(check)}", label, partial(check, cls)) for check in CLASS_CHECKS]
    kinds = [kind for kind in TASKS if kind in getattr(cls, "tasks", ())]
    return checks + [
        Check(f"{kind}: {_words(check)}", label, partial(_try, check, cls, kind, args or {}, seed, encoder))
        for kind in kinds
        for check in TRIAL_CHECKS
    ]


def check_method(
    method: str | type[Method],
    *,
    args: Mapping[str, Any] | None = None,
    encoder: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> list[str]:
    """Check that a method keeps every promise of the contract, on small generated graphs, for every task it supports.

    Args:
        method: its name, or the class itself, which need not be registered.
        args: hyperparameters other than the defaults.
        encoder: settings of the encoder other than those of the checks, such as `{"kind": "gcn"}`.
        seed: of data, weights and training.

    Returns:
        Names of the checks, all of them passed.

    Raises:
        AssertionError: a promise is broken; the message tells the author of the method what to fix.

    Example:
        >>> checks = check_method("erm")
        >>> checks[0], len(checks)
        ('class: class facts', 54)
    """
    checks = method_checks(method, args=args, encoder=encoder, seed=seed)
    for check in checks:
        check()
    return [check.name for check in checks]


def _try(
    check: Callable[[Trial], None],
    method: type[Method],
    kind: Kind,
    args: Mapping[str, Any],
    seed: int,
    encoder: Mapping[str, Any] | None,
) -> None:
    check(Trial.of(method, kind, args, seed, encoder))


def _words(check: Callable[..., None]) -> str:
    return check.__name__.replace("_", " ")
