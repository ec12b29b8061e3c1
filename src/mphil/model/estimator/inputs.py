"""What people hand to an estimator: SMILES, RDKit molecules or PyG graphs, in whatever holds them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mphil.chem.spelling import is_molecule, spelling
from mphil.errors import MphilError
from mphil.graphs.batch import is_graph
from mphil.graphs.store import GraphStore

ACCEPTED = "estimators of mphil take SMILES, RDKit molecules or PyG graphs, one a row"
SHOWN = 5
"""Rows that a message names one by one."""

OnBad = Literal["raise", "skip"]


class InputError(MphilError, ValueError):
    """Something is wrong with what was given; also a ValueError, which is what users of scikit-learn catch."""

    exit_code = 3


class UnreadableRows(UserWarning):
    """Some rows hold no molecule that can be read: they are left out of training, or get no answer."""


@contextmanager
def value_errors() -> Iterator[None]:
    """Errors of the library leave the block as `InputError`."""
    try:
        yield
    except InputError:
        raise
    except MphilError as error:
        raise InputError(str(error)) from error


@dataclass(frozen=True)
class Rows:
    """The rows of X.

    Attributes:
        kind: what they are.
        values: (n,) SMILES, or graphs.
    """

    kind: Literal["molecules", "graphs"]
    values: list[Any]

    def __len__(self) -> int:
        return len(self.values)

    def store(self) -> GraphStore:
        """Rows that are graphs, as a store."""
        return GraphStore.from_pyg(self.values)


def read_rows(X: Any) -> Rows:
    """Make rows of X: a list, an array, a column of a table.

    A molecule may be text or an object of RDKit; a row with nothing in it (None, NaN) counts as a molecule that cannot
    be read.

    Raises:
        InputError: X is empty, or something else.

    Example:
        >>> read_rows(["CCO", "C"]).kind
        'molecules'
    """
    values = _values(X)
    if not values:
        raise InputError(f"X has no rows (0 sample(s)); {ACCEPTED}, and at least one is needed")
    if all(is_graph(value) for value in values):
        return Rows("graphs", values)
    return Rows("molecules", [_text(row, value) for row, value in enumerate(values)])


def tell(problems: Mapping[int, str], rows: int, on_bad: OnBad, consequence: str, *, depth: int) -> None:
    """Say which rows cannot be read: as an error, or as a warning with what becomes of them.

    Args:
        problems: row, from 0, to what is wrong with it.
        rows: how many rows there are.
        on_bad: which of the two.
        consequence: what a warning says of these rows, such as `they are left out`.
        depth: calls between the user's line, which a warning points at, and this one.
    """
    if not problems:
        return
    named = ", ".join(map(str, sorted(problems)[:SHOWN])) + (", ..." if len(problems) > SHOWN else "")
    first = min(problems)
    what = f"{len(problems)} of {rows} rows cannot be read: {named} (row {first}: {problems[first]})"
    if on_bad == "raise":
        raise InputError(f"{what}; correct them, or use on_bad='skip'")
    warnings.warn(f"{what}; {consequence}", UnreadableRows, stacklevel=depth + 1)


def _values(X: Any) -> list[Any]:
    if isinstance(X, str) or is_graph(X) or is_molecule(X) or not hasattr(X, "__len__"):
        raise InputError(f"X is a {type(X).__name__}; {ACCEPTED}: put it into a list")
    shape = getattr(X, "shape", None)
    if shape is not None and len(shape) != 1:
        if len(shape) != 2 or shape[1] != 1 or not hasattr(X, "__array__"):
            raise InputError(f"X is a matrix of shape {tuple(shape)}; {ACCEPTED}")
        return list(np.asarray(X, dtype=object)[:, 0])
    return list(X)


def _text(row: int, value: Any) -> str:
    if isinstance(value, str):
        return value
    if is_molecule(value):
        return spelling(value)
    if value is None or (isinstance(value, float) and value != value):
        return ""
    kind = type(value).__name__
    among = "a graph among molecules" if is_graph(value) else f"a {kind}"
    raise InputError(f"row {row} of X is {among}; {ACCEPTED}")


def groups_of(groups: Sequence[Any] | None, rows: int) -> list[str] | None:
    """(n,) the domain of each row as text."""
    if groups is None:
        return None
    if len(groups) != rows:
        raise InputError(f"{len(groups)} groups for {rows} rows; give one for each")
    return [str(group) for group in groups]
