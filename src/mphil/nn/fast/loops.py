"""The functions of a compiled library, called with the names that their C source gives to the arguments."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mphil.nn.fast import compiling

HEADER = "kernels.h"
"""Declares the functions that C sources call of each other, which are not for us."""
_DEFINED = re.compile(r"^(int|double|void|int64_t) (\w+)\(([^)]*)\) \{", re.MULTILINE)
_SCALARS = {"int64_t": ctypes.c_int64, "double": ctypes.c_double, "int": ctypes.c_int, "void": None}
_NUMBERS = {
    "int64_t": torch.int64,
    "uint64_t": torch.int64,
    "int32_t": torch.int32,
    "int16_t": torch.int16,
    "float": torch.float32,
    "double": torch.float64,
}
"""What a pointer points to, by its C type: bytes when it is none of these."""
_REAL = {"float": torch.float32, "double": torch.float64}


@dataclass(frozen=True)
class Parameter:
    """An argument of a C function: its name, its type, and whether it is an array of them."""

    name: str
    kind: str
    array: bool


@functools.cache
def declared() -> dict[str, tuple[str, list[Parameter]]]:
    """The functions that the sources define for us: name to the type of the result, and the arguments in their order.

    Example:
        >>> result, (threads,) = declared()["set_threads"]
        >>> result, threads
        ('int64_t', Parameter(name='threads', kind='int64_t', array=False))
    """
    among_themselves = (compiling.FOLDER / HEADER).read_text()
    return {
        name: (result, [_parameter(text) for text in given.split(",") if text != "void"])
        for file in sorted(compiling.FOLDER.glob("*.c"))
        for result, name, given in _DEFINED.findall(file.read_text())
        if not re.search(rf"\b{name}\(", among_themselves)
    }


class MissingFunction(Exception):
    """A library is not one of ours; the message completes "FILE has ..."."""


class Loops:
    """The functions of a library as attributes. Arguments are given by name, arrays as tensors or numpy arrays.

    A name that the C source does not have, one that is missing, and an array of other numbers are a `TypeError`; None
    is a null pointer. Rows of an array must be contiguous, and as far apart as the arguments say.

    Args:
        library: with all functions of `declared`.
        precision: `float` or `double`, what the sources call `real`.

    Raises:
        MissingFunction: the library lacks one.
    """

    def __init__(self, library: ctypes.CDLL, precision: str) -> None:
        for name, (result, parameters) in declared().items():
            function = getattr(library, name, None)
            if function is None:
                raise MissingFunction(f"no function {name!r}")
            setattr(self, name, _function(function, result, parameters, precision))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AttributeError(f"the loops have no {name!r}; they have {', '.join(declared())}")


def _parameter(text: str) -> Parameter:
    found = re.fullmatch(r"\s*(?:const )?(?:unsigned )?(\w+) (?:\*(?:restrict )?)?(\w+)\s*", text)
    if found is None:
        raise ValueError(f"an argument of a loop is declared in a way that is not understood: {text.strip()!r}")
    return Parameter(found[2], found[1], "*" in text)


def _function(function: Any, result: str, parameters: list[Parameter], precision: str) -> Callable[..., Any]:
    function.restype = _SCALARS[result]
    function.argtypes = [ctypes.c_void_p if one.array else _SCALARS[one.kind] for one in parameters]
    names = frozenset(one.name for one in parameters)
    order = [(one.name, one.array, _numbers(one, precision)) for one in parameters]

    def call(**given: Any) -> Any:
        if given.keys() != names:
            missing, strange = sorted(names - given.keys()), sorted(given.keys() - names)
            raise TypeError(f"{function.__name__}: arguments {missing} are missing, {strange} are unknown")
        values = []
        for name, array, numbers in order:
            value = given[name]
            values.append(_address(value, numbers) if array and value is not None else value)
        return function(*values)

    return call


def _numbers(parameter: Parameter, precision: str) -> torch.dtype | None:
    return _REAL[precision] if parameter.kind == "real" else _NUMBERS.get(parameter.kind)


def _address(array: Any, numbers: torch.dtype | None) -> int:
    """Where an array begins."""
    if isinstance(array, Tensor):
        found, begins = array.dtype, array.data_ptr()
    else:
        found, begins = getattr(torch, array.dtype.name), array.ctypes.data
    if numbers is not None and found is not numbers:
        raise TypeError(f"an array of {array.dtype} where the loops want {numbers}")
    return int(begins)
