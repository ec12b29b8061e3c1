"""Run every promise over every kind of task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from mphil.methods.base import METHODS, Method
from mphil.task import Kind
from mphil.testing.checks import CLASS_CHECKS, TRIAL_CHECKS
from mphil.testing.trial import TASKS, Trial


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
