"""The compiled loops: built once by the system's C compiler, kept in the cache folder, loaded on first use."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mphil.data.cache import cache_folder
from mphil.nn.fast.trusted import Untrusted, load_library, open_folder, read_checked

FOLDER = Path(__file__).parent
"""Where the sources are: `*.c`, and the header they share."""
FLAGS = "-O3 -march=native -std=c11 -ffp-contract=fast -fno-math-errno -fno-trapping-math -fopenmp-simd -shared -fPIC"
PRECISIONS = {torch.float32: "float", torch.float64: "double"}
MOST_SECONDS = 60
"""How long the compiler may take; it needs about one."""

_LOG = logging.getLogger(__name__)
_POINTER, _INTEGER, _REAL = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "aggregate": (ctypes.c_int, [_POINTER] * 8 + [_INTEGER] * 5),
    "aggregate_backward": (ctypes.c_int, [_POINTER] * 11 + [_INTEGER] * 5),
    "statistics": (_REAL, [_POINTER] * 8 + [_REAL] * 2 + [_INTEGER] * 3),
    "normalise": (ctypes.c_int, [_POINTER] * 5 + [_INTEGER, _REAL] + [_INTEGER] * 5),
    "normalise_backward": (ctypes.c_int, [_POINTER] * 8 + [_INTEGER, _REAL, _INTEGER, _REAL] + [_INTEGER] * 5),
    "normalise_groups": (ctypes.c_int, [_POINTER] * 8 + [_INTEGER, _REAL, _INTEGER, _REAL] + [_INTEGER] * 6),
    "normalise_groups_backward": (ctypes.c_int, [_POINTER] * 10 + [_INTEGER, _REAL] + [_INTEGER] * 6),
    "random_words": (None, [_POINTER] + [_INTEGER] * 2),
    "products_pay": (ctypes.c_int, []),
    "product": (ctypes.c_int, [_POINTER] * 5 + [_INTEGER] * 7),
    "thin_product": (ctypes.c_int, [_POINTER] * 3 + [_INTEGER] * 5),
    "thin_backward": (ctypes.c_int, [_POINTER] * 5 + [_INTEGER] * 6),
    "perceptron": (_REAL, [_POINTER] * 14 + [_REAL] * 2 + [_INTEGER] * 7),
    "perceptron_backward": (ctypes.c_int, [_POINTER] * 14 + [_REAL] + [_INTEGER] * 8),
    "kinds": (ctypes.c_int64, [_POINTER] * 3 + [_INTEGER] * 2),
    "classes": (ctypes.c_int64, [_POINTER] * 6 + [_INTEGER] * 2),
    "nearest": (ctypes.c_int, [_POINTER] * 4 + [_INTEGER] * 3),
}


class Unavailable(Exception):
    """Why there are no compiled loops; the message completes "pure torch, since ..."."""


@dataclass(frozen=True)
class Status:
    """What runs and why: the compiled library and the file it is in, or None and the reason."""

    library: ctypes.CDLL | None
    reason: str


def kernels(like: Tensor) -> ctypes.CDLL | None:
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
    except (Unavailable, Untrusted, OSError) as error:
        _LOG.warning("pure torch, which is slower, since %s; see `mphil doctor`", error)
        return Status(None, str(error))


@functools.cache
def products_pay() -> bool:
    """Whether our products were seen to be faster than a BLAS on processors like this one."""
    library = status().library
    return library is not None and bool(library.products_pay())


def path_taken(device: str) -> str:
    """Which path training takes on a device, for records: `compiled`, or `pure torch, since ...`.

    Example:
        >>> path_taken("cuda:0")
        'pure torch, since the loops run on a CPU only'
    """
    if device.partition(":")[0] != "cpu":
        return "pure torch, since the loops run on a CPU only"
    return "compiled" if status().library is not None else f"pure torch, since {status().reason}"


def address(tensor: Tensor | None) -> int | None:
    """Where the numbers of a contiguous tensor are; None stands for a null pointer."""
    return None if tensor is None else tensor.data_ptr()


def dense_rows(matrix: Tensor) -> Tensor:
    """A matrix as the loops can take it: the numbers of a row side by side, rows at equal distances."""
    return matrix if matrix.stride(1) == 1 and matrix.stride(0) >= matrix.shape[1] else matrix.contiguous()


def compiler() -> str | None:
    """The C compiler: `CC`, cc, gcc or clang, whichever is found first."""
    found = map(shutil.which, (os.environ.get("CC", "cc"), "gcc", "clang"))
    return next(filter(None, found), None)


@functools.cache
def compiler_version() -> str | None:
    """The first line that the C compiler says about itself; None without one."""
    using = compiler()
    if using is None:
        return None
    said = subprocess.run([using, "--version"], capture_output=True, text=True, timeout=MOST_SECONDS, check=False)
    return said.stdout.partition("\n")[0]


def _load(precision: str) -> Status:
    using = compiler()
    if using is None:
        raise Unavailable("there is no C compiler (install gcc, or set CC)")
    file = cache_folder() / "kernels" / f"{precision}-{_fingerprint(using)}.so"
    library = _kept(file)
    if library is None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.TemporaryDirectory(dir=file.parent, prefix=".draft-") as draft:
                built = _compile(using, precision, Path(draft))
                built.chmod(0o700)
                library = load_library(built)
                _write_checksum(built, Path(draft)).replace(_checksum(file))
                # Two processes may both be building it: the same code, put in place whole by either.
                built.replace(file)
        except OSError as error:
            _LOG.warning("%s: nothing can be kept here (%s)", file.parent, error)
            with tempfile.TemporaryDirectory() as draft:
                built = _compile(using, precision, Path(draft))
                built.chmod(0o700)
                library = load_library(built)
                return Status(_declare(library, file), "compiled for this process only")
    return Status(_declare(library, file), f"compiled, {file}")


def _kept(file: Path) -> ctypes.CDLL | None:
    """The library of a file, or None if there is none or half of one, which would end the process."""
    try:
        with open_folder(file.parent) as within:
            handle, digest = read_checked(_checksum(file).name, file.parent, within)
            os.close(handle)
        return load_library(file, digest.decode("ascii", "replace"))
    except OSError:
        return None


def _declare(library: ctypes.CDLL | None, file: Path) -> ctypes.CDLL | None:
    """Tell ctypes what our functions take.

    Raises:
        Unavailable: one of them is missing.
    """
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(library, name, None)
        if function is None:
            raise Unavailable(f"{file} has no function {name!r}; remove the file, and it is built again")
        function.restype, function.argtypes = result, arguments
    return library


def _checksum(file: Path) -> Path:
    return file.with_suffix(".sha256")


def _write_checksum(built: Path, folder: Path) -> Path:
    out = folder / "checksum"
    out.write_text(hashlib.sha256(built.read_bytes()).hexdigest())
    out.chmod(0o600)
    return out


def _compile(compiler: str, precision: str, folder: Path) -> Path:
    out = folder / "kernels.so"
    command = [
        compiler,
        *FLAGS.split(),
        f"-DREAL={precision}",
        *map(str, sorted(FOLDER.glob("*.c"))),
        "-o",
        str(out),
        "-lm",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{compiler} took more than {MOST_SECONDS} s") from None
    if done.returncode:
        told = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[0]
        raise Unavailable(f"{compiler} could not compile the loops: {told}")
    return out


def _fingerprint(compiler: str) -> str:
    """Hash of all that decides the machine code: sources, flags, compiler and processor."""
    version = subprocess.run([compiler, "--version"], capture_output=True, timeout=MOST_SECONDS, check=False).stdout
    sources = b"".join(file.read_bytes() for file in sorted(FOLDER.glob("*.[ch]")))
    sha = hashlib.sha256(sources + FLAGS.encode() + version + _processor().encode())
    return sha.hexdigest()[:16]


def _processor() -> str:
    """Model and instruction sets, since the home folder may be shared by machines that differ in them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))
