"""A shared library that nobody else can have written, and its functions, called with the names of their arguments."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mphil.nn.fast import compiling

DESCRIPTORS = Path("/proc/self/fd")
"""Where open files have names, so that a library can be loaded by its descriptor; absent on some systems."""

_REMEDY = "remove it, or set MPHIL_CACHE to a folder of your own"


class Untrusted(Exception):
    """Why a file or a folder is not trusted: its name, the reason and the remedy."""

    def __init__(self, path: Path, reason: str, remedy: str = _REMEDY) -> None:
        super().__init__(f"{path} {reason}; {remedy}")


@contextmanager
def open_folder(folder: Path) -> Iterator[int]:
    """A descriptor of a folder that only we can write to.

    The folder above it may be shared, as long as it belongs to us or to root and others cannot remove what is ours.

    Raises:
        Untrusted: it is a link, belongs to another user, or others may write to it.
        OSError: it cannot be opened.
    """
    above = folder.parent.resolve()
    _check(above, above.stat(), stat.S_IWOTH)
    handle = _open(folder, os.O_DIRECTORY)
    try:
        _check(folder, os.fstat(handle), stat.S_IWGRP | stat.S_IWOTH)
        yield handle
    finally:
        os.close(handle)


def read_checked(name: str, folder: Path, within: int) -> tuple[int, bytes]:
    """Open a file of a folder without following links, and read it.

    Args:
        name: of the file.
        folder: where it is, for messages.
        within: descriptor of the folder.

    Returns:
        a descriptor of the file, which the caller closes, and the contents.

    Raises:
        Untrusted: it is no regular file, belongs to another user, or others may write to it.
        OSError: it cannot be opened.
    """
    handle = _open(folder / name, os.O_NONBLOCK, within)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise Untrusted(folder / name, "is not a regular file")
        _check(folder / name, found, stat.S_IWGRP | stat.S_IWOTH)
        with os.fdopen(os.dup(handle), "rb") as stream:
            return handle, stream.read()
    except BaseException:
        os.close(handle)
        raise


def load_library(file: Path, digest: str | None = None) -> ctypes.CDLL | None:
    """Load a library that belongs to us; what stands at its path by then does not matter.

    Args:
        file: the library, in a folder that only we can write to.
        digest: what its SHA-256 must be; None takes any.

    Returns:
        the library, or None when its contents are others.

    Raises:
        Untrusted: another user could have written it.
        OSError: it cannot be opened or loaded.
    """
    with open_folder(file.parent) as within:
        handle, content = read_checked(file.name, file.parent, within)
    if digest is not None and hashlib.sha256(content).hexdigest() != digest:
        os.close(handle)
        return None
    named = DESCRIPTORS / str(handle)
    # The loader takes a name that it has seen for the same library, so the number must not be used again: the
    # descriptor stays open for as long as the process lives.
    return ctypes.CDLL(str(named if named.exists() else file))


def _open(path: Path, flags: int, within: int | None = None) -> int:
    try:
        name = path if within is None else path.name
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=within)
    except OSError:
        if path.is_symlink():
            raise Untrusted(path, "is a link, which is not followed") from None
        raise


def _check(path: Path, found: os.stat_result, forbidden: int) -> None:
    if found.st_uid not in (os.getuid(), 0):
        raise Untrusted(path, f"belongs to another user (number {found.st_uid})")
    sticky = stat.S_ISDIR(found.st_mode) and forbidden == stat.S_IWOTH and found.st_mode & stat.S_ISVTX
    if found.st_mode & forbidden and not sticky:
        remedy = f"`chmod go-w` it if you trust what is in it, or {_REMEDY}"
        raise Untrusted(path, f"can be written by others (mode {stat.S_IMODE(found.st_mode):04o})", remedy)


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
