"""Every method in the table, with its defaults and with each of its presets, keeps every promise of the contract."""

from __future__ import annotations

import pytest

from mphil.methods import METHODS
from mphil.methods.base import resolve_hyperparameters
from mphil.testing import method_checks


def settings_of(name):
    """The defaults and every preset that differs from them."""
    method = METHODS[name]
    found = {"defaults": resolve_hyperparameters(method, None, {})}
    for preset in method.presets:
        resolved = resolve_hyperparameters(method, preset, {})
        if resolved not in found.values():
            found[preset] = resolved
    return found


IN_FULL = {"erm", "mphil", "mphil+"}


def marks(name, settings, check):
    """For most methods, presets, binary tasks (a multitask of one) and what takes longest are for `make test-all`."""
    slow = settings != "defaults" or check.name.startswith("binary")
    slow = slow or (name == "disco" and not check.name.startswith("multiclass"))
    return [pytest.mark.slow] if slow and name not in IN_FULL else []


CHECKS = [
    pytest.param(
        check,
        id=f"{name}-{settings}-{check.name.replace(': ', '-').replace(' ', '_')}",
        marks=marks(name, settings, check),
    )
    for name in METHODS
    for settings, args in settings_of(name).items()
    for check in method_checks(name, args=args)
]


@pytest.mark.parametrize("check", CHECKS)
def test_contract(check):
    check()


def test_the_table_is_not_empty():
    assert {"erm", "mphil"} <= set(METHODS)
