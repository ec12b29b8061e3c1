"""Everything that can go wrong on purpose: one exception tree, one exit code per kind of fault."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class MphilError(Exception):
    """Base of all errors raised deliberately; the message is written for the person at the keyboard."""

    exit_code = 1


class UsageError(MphilError):
    """The request cannot be carried out as it was given: an unknown name, an impossible option."""

    exit_code = 2


class DataError(MphilError):
    """The data cannot be used: no labels, one class only, a loss that became NaN."""

    exit_code = 3


class IntegrityError(MphilError):
    """Something stored is not what was written: a flipped bit, a truncated file, a folder in use."""

    exit_code = 4


class Stopped(MphilError):
    """A user ended the command (Ctrl-C, SIGTERM); the message says what is left of the work."""

    exit_code = 130


class UnknownName(UsageError):
    """A name that is not in a list of names; the message offers the nearest ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known) or 'none'}"
        super().__init__(f"unknown {kind} {name!r}; {hint}")
        self.name = name
        self.suggestions = near
