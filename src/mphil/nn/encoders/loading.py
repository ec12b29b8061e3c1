"""From `package.module:Class` to the class, without ever importing code that a stored model names."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from torch import nn

from mphil.errors import UsageError
from mphil.plugins import VARIABLE, load_plugins

OWN = "torch_geometric.nn"
"""A dependency of this package, which a stored model may name: it is imported when it is needed."""

_admitted: dict[str, type[nn.Module]] = {}
"""Classes that the user of this process has asked for."""


def import_class(kind: str) -> type[nn.Module]:
    """The class that a user asked for; its module is imported.

    Only for what was typed by the user of this process: importing runs code.
    """
    module, _, name = kind.partition(":")
    load_plugins()
    try:
        found = getattr(importlib.import_module(module), name, None)
    except Exception as error:  # importing a module may fail in any way
        raise UsageError(
            f"encoder.kind={kind!r}: {module} cannot be imported ({type(error).__name__}: {error}); "
            "install it, put its folder on PYTHONPATH, or give its file with --plugin"
        ) from error
    _admitted[kind] = _checked_class(kind, found)
    return _admitted[kind]


def known_class(kind: str) -> type[nn.Module]:
    """The class, if its module was imported for another reason, or is PyG's: a stored model must not import code.

    Raises:
        UsageError: the module is not imported, or the class is no network.
    """
    if kind in _admitted:
        return _admitted[kind]
    module, _, name = kind.partition(":")
    trusted = load_plugins()
    if module == OWN:
        importlib.import_module(OWN)
    if module not in sys.modules:
        raise UsageError(
            f"encoder.kind={kind!r}: the module {module} is not imported, and a stored model must not import code by "
            f"itself; if you trust that module, set {VARIABLE}={module} or give its file with --plugin"
        )
    # A module may run code of its own when it is asked for a name that it does not have.
    found = getattr(sys.modules[module], name, None) if module in trusted else vars(sys.modules[module]).get(name)
    return _checked_class(kind, found)


def _checked_class(kind: str, found: Any) -> type[nn.Module]:
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        what = "there is no such name" if found is None else f"it is a {type(found).__name__}"
        if isinstance(found, type):
            what = "it is another kind of class"
        raise UsageError(f"encoder.kind={kind!r}: a subclass of torch.nn.Module is expected, and {what}")
    return found
