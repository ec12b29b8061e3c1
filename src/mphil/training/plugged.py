"""Which plug-ins a run or a bundle is made with, and whether they are here."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from mphil.benchmarks.catalogue import BENCHMARKS
from mphil.config import RunConfig
from mphil.errors import UsageError
from mphil.methods.base import METHODS
from mphil.nn.encoders import ENCODERS
from mphil.registry import Plugin, describe

NOT_PLUGINS = ("mphil", "torch", "torch_geometric")
"""Packages that are always here; an encoder may be named by a class of theirs."""
_LOG = logging.getLogger(__name__)


def needed_plugins(config: RunConfig) -> list[Plugin]:
    """The code outside mphil that a run with these settings needs: its benchmark, its method, its encoder."""
    found = [_plugin("benchmark", config.benchmark.name), *model_plugins(config.method.name, config.encoder.kind)]
    return [plugin for plugin in found if plugin is not None]


def model_plugins(method: str, encoder: str) -> list[Plugin]:
    """The code outside mphil that a trained model needs: its method and its encoder."""
    found = [_plugin("method", method), _plugin("encoder", encoder)]
    return [plugin for plugin in found if plugin is not None]


def check_plugins(owner: str, plugins: Iterable[Plugin]) -> None:
    """Refuse to go on without a plug-in, and say if one has changed; nothing that is missing is imported by itself.

    Args:
        owner: the folder that needs them.
        plugins: what was recorded with it.

    Raises:
        UsageError: one is missing; the message names it and says what to do.
    """
    for wanted in plugins:
        found = _plugin(wanted.kind, wanted.name)
        if found is None:
            raise UsageError(
                f"{owner}: the {wanted.kind} {wanted.name!r} is no part of mphil, and its plug-in (module "
                f"{wanted.module}, SHA-256 {wanted.digest[:12] or 'unknown'}) is not loaded; if you trust it, "
                f"{wanted.remedy}"
            )
        if wanted.digest and found.digest and found.digest != wanted.digest:
            _LOG.warning(
                "%s: %s has changed since: results may differ from those of the %s %r then",
                owner,
                found.file or found.module,
                wanted.kind,
                wanted.name,
            )


def _plugin(kind: str, name: str) -> Plugin | None:
    """What is known of something by name; None if it comes with mphil, or is not known at all."""
    if kind == "benchmark":
        return BENCHMARKS.plugin(name)
    if kind == "method":
        return METHODS.plugin(name)
    module, is_class, _ = name.partition(":")
    if not is_class:
        return ENCODERS.plugin(name)
    return None if module.partition(".")[0] in NOT_PLUGINS else describe(kind, name, module)
