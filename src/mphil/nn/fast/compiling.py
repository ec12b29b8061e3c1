"""From C sources to a shared library: for the processor at hand, or for the packages that are installed elsewhere.

Wheels hold a library for each level of x86-64 processors; `python -m mphil.nn.fast.compiling` builds them for a package
that was installed without. Nothing has to be compiled where the package then runs.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
"""Where the sources are: `*.c`, and the header they share."""
PACKAGED = "built"
"""Folder beside the sources for libraries that came with the package."""
FLAGS = "-O3 -std=c11 -ffp-contract=fast -fno-math-errno -fno-trapping-math -fopenmp-simd -pthread -shared -fPIC"
PRECISIONS = ("float", "double")
LEVELS = {
    "x86-64-v4": "avx2 bmi1 bmi2 f16c fma movbe abm avx512f avx512bw avx512cd avx512dq avx512vl",
    "x86-64-v3": "avx2 bmi1 bmi2 f16c fma movbe abm",
    "x86-64": "",
}
"""Architectures that packages are built for, the best first, with the instructions they need, as Linux names them."""
X86_64 = ("x86_64", "AMD64")
"""What systems call the architecture of `LEVELS`."""
SECONDS = 60
"""How long the compiler may take on an idle machine; it needs a few."""


class CompileError(Exception):
    """Why there is no library; the message completes "pure torch, since ..."."""


def compiler() -> str | None:
    """The C compiler: `CC`, cc, gcc or clang, whichever is found first."""
    found = map(shutil.which, (os.environ.get("CC", "cc"), "gcc", "clang"))
    return next(filter(None, found), None)


@functools.cache
def compiler_version() -> str | None:
    """The first line that the C compiler says about itself; None without one."""
    using = compiler()
    return None if using is None else _asked_version(using).partition("\n")[0]


def compile_library(using: str, precision: str, out: Path, architecture: str = "native") -> Path:
    """Build the loops of one precision; only we may write to the file.

    Raises:
        CompileError: the compiler refuses them, or takes too long.
    """
    sources = map(str, sorted(FOLDER.glob("*.c")))
    command = [using, *FLAGS.split(), f"-march={architecture}", f"-DREAL={precision}", *sources, "-o", str(out), "-lm"]
    limit = patience()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        raise CompileError(f"{using} took more than {limit:.0f} s") from None
    if done.returncode:
        told = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[0]
        raise CompileError(f"{using} could not compile the loops: {told}")
    out.chmod(0o700)
    return out


def patience() -> float:
    """Seconds that the compiler may take now: more on a machine whose cores are shared with other programs."""
    try:
        load = os.getloadavg()[0]
    except OSError:
        load = 0.0
    return SECONDS * max(1.0, (load + 1) / (os.cpu_count() or 1))


def put_in_place(built: Path, file: Path) -> None:
    """Move a library to where it is looked for, with its checksum; two processes that do so put the same code there."""
    noted = built.with_suffix(".sha256")
    noted.write_text(hashlib.sha256(built.read_bytes()).hexdigest())
    noted.chmod(0o600)
    noted.replace(checksum(file))
    built.replace(file)


def checksum(file: Path) -> Path:
    """The file with the checksum of a library."""
    return file.with_suffix(".sha256")


def native_name(precision: str, using: str | None) -> str:
    """Name of a library for this processor; without a compiler a pattern for those that any compiler made."""
    code = _short(_sources() + FLAGS.encode() + _processor().encode())
    return f"{precision}-{code}-{'*' if using is None else _short(_asked_version(using).encode())}.so"


def packaged_file(precision: str, architecture: str) -> Path:
    """Where the library of a package is."""
    return FOLDER / PACKAGED / f"{precision}-{architecture}-{_short(_sources() + FLAGS.encode())}.so"


def level() -> str | None:
    """The best of `LEVELS` that this processor has; None for processors of another family."""
    if platform.machine() not in X86_64:
        return None
    has = set(_processor().split())
    return next((name for name, needed in LEVELS.items() if has.issuperset(needed.split())), None)


def build_package(folder: Path | None = None) -> list[Path]:
    """Build the libraries of a package for all levels, replacing older ones.

    Args:
        folder: where they go; None = into the package that this is.

    Raises:
        CompileError: there is no compiler, or it refuses.
    """
    using = compiler()
    if using is None:
        raise CompileError("there is no C compiler (install gcc, or set CC)")
    folder = folder or FOLDER / PACKAGED
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o755)
    made = []
    with tempfile.TemporaryDirectory(dir=folder) as draft:
        for precision in PRECISIONS:
            for architecture in LEVELS:
                file = folder / packaged_file(precision, architecture).name
                put_in_place(compile_library(using, precision, Path(draft) / "kernels.so", architecture), file)
                file.chmod(0o755)
                checksum(file).chmod(0o644)
                made.append(file)
    return made


def _asked_version(using: str) -> str:
    asked = subprocess.run([using, "--version"], capture_output=True, text=True, timeout=patience(), check=False)
    return asked.stdout


def _sources() -> bytes:
    return b"".join(file.read_bytes() for file in sorted(FOLDER.glob("*.[ch]")))


def _processor() -> str:
    """Model and instruction sets, since the home folder may be shared by machines that differ in them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))


def _short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


if __name__ == "__main__":
    build_package()
