"""The compiled loops: those of the package, or built once by the system's C compiler and kept; loaded on first use."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from mphil.graphs.cache import cache_folder
from mphil.nn.fast.compiling import (
    CompileError,
    checksum,
    compile_library,
    compiler,
    level,
    native_name,
    packaged_file,
    put_in_place,
)
from mphil.nn.fast.loading import Loops, MissingFunction, Untrusted, load_library, open_folder, read_checked

PRECISIONS = {torch.float32: "float", torch.float64: "double"}

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Status:
    """What runs and why: the compiled library and the file it is in, or None and the reason.

    Attributes:
        library: its functions.
        reason: which file it is in, or why there is none.
        made: `here`, or for which processors it was packaged.
    """

    library: Loops | None
    reason: str
    made: str = "here"


def kernels(like: Tensor) -> Loops | None:
    """The compiled loops for tensors such as this one, or None when plain torch has to do."""
    precision = PRECISIONS.get(like.dtype) if like.is_cpu else None
    # Whoever traces a model, to export it, cannot look into a loop of ours.
    return None if precision is None or torch.compiler.is_compiling() else status(precision).library


@functools.cache
def status(precision: str = "float") -> Status:
    """Load the loops of one precision, building them if need be; asked once in the life of a process.

    Set `MPHIL_FAST=0` to do without them.
    """
    if os.environ.get("MPHIL_FAST", "1") == "0":
        return Status(None, "MPHIL_FAST=0 asks for it")
    try:
        return _load(precision)
    except (CompileError, Untrusted, OSError) as error:
        _LOG.warning("pure torch, which is slower, since %s; see `mphil doctor`", error)
        return Status(None, str(error))


@functools.cache
def products_pay() -> bool:
    """Whether our products were seen to be faster than a BLAS on processors like this one."""
    library = status().library
    return library is not None and bool(library.products_pay())


def path_taken(device: str) -> str:
    """Which path training takes on a device, for records: `compiled` (here, or packaged), or `pure torch, since ...`.

    Example:
        >>> path_taken("cuda:0")
        'pure torch, since the loops run on a CPU only'
    """
    if device.partition(":")[0] != "cpu":
        return "pure torch, since the loops run on a CPU only"
    if status().library is None:
        return f"pure torch, since {status().reason}"
    return "compiled" if status().made == "here" else f"compiled, {status().made}"


def dense_rows(matrix: Tensor) -> Tensor:
    """A matrix as the loops can take it: the numbers of a row side by side, rows at equal distances."""
    return matrix if matrix.stride(1) == 1 and matrix.stride(0) >= matrix.shape[1] else matrix.contiguous()


def _load(precision: str) -> Status:
    if os.name != "posix":  # who owns a library, and what a link is, is only asked there
        raise CompileError("the compiled loops are for POSIX systems")
    architecture, using = level(), compiler()
    name = native_name(precision, using)
    kept = cache_folder() / "kernels"
    if architecture is not None and (found := _packaged(precision, architecture)) is not None:
        return found
    # Without a compiler, whatever one has made of these sources for this processor will do.
    for file in sorted(kept.glob(name)) if using is None else [kept / name]:
        if (found := _found(file, precision)) is not None:
            return found
    if using is None:
        raise CompileError("there is no C compiler (install gcc, or set CC)")
    try:
        return _build(using, precision, kept / name)
    except OSError as error:
        _LOG.warning("%s: nothing can be kept here (%s)", kept, error)
    return _build_aside(using, precision, name)


def _build_aside(using: str, precision: str, name: str) -> Status:
    """Keep the library among temporary files, for the next process of the same user; if need be, for this one only."""
    file = Path(tempfile.gettempdir()) / f"mphil-{os.getuid()}" / "kernels" / name
    try:
        file.parent.parent.mkdir(exist_ok=True, mode=0o700)
        return _found(file, precision) or _build(using, precision, file)
    except (Untrusted, OSError):
        with tempfile.TemporaryDirectory() as draft:
            library = load_library(compile_library(using, precision, Path(draft) / "kernels.so"))
        return Status(_declare(library, file, precision), "compiled for this process only")


def _build(using: str, precision: str, file: Path) -> Status:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=".draft-") as draft:
        built = compile_library(using, precision, Path(draft) / "kernels.so")
        library = load_library(built)
        put_in_place(built, file)
    return Status(_declare(library, file, precision), f"compiled, {file}")


def _packaged(precision: str, architecture: str) -> Status | None:
    """A library that came with the package: whoever could change it could change this line too, so it is as trusted."""
    file = packaged_file(precision, architecture)
    try:
        whole = hashlib.sha256(file.read_bytes()).hexdigest().encode() == checksum(file).read_bytes()
        library = _declare(ctypes.CDLL(str(file)), file, precision) if whole else None
    except (OSError, CompileError):
        return None
    return None if library is None else Status(library, f"compiled, {file}", f"packaged for {architecture}")


def _found(file: Path, precision: str) -> Status | None:
    library = _kept(file)
    return None if library is None else Status(_declare(library, file, precision), f"compiled, {file}")


def _kept(file: Path) -> ctypes.CDLL | None:
    """The library of a file, or None if there is none or half of one, which would end the process."""
    try:
        with open_folder(file.parent) as within:
            handle, digest = read_checked(checksum(file).name, file.parent, within)
            os.close(handle)
        return load_library(file, digest.decode("ascii", "replace"))
    except OSError:
        return None


def _declare(library: ctypes.CDLL | None, file: Path, precision: str) -> Loops | None:
    """The functions of a library, with what they take.

    Raises:
        CompileError: one of them is missing.
    """
    try:
        return None if library is None else Loops(library, precision)
    except MissingFunction as error:
        raise CompileError(f"{file} has {error}; remove the file, and it is built again") from None
