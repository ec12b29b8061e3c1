"""Compiles the loops of the fast path into the wheel, so that nothing is compiled where it is installed."""

import platform
import runpy
import shutil
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

FAST = Path("mphil", "nn", "fast")
COMPILING = runpy.run_path(str(Path("src") / FAST / "compiling.py"))


class Package(Distribution):
    """Of this platform where the loops can be compiled; elsewhere they are built on first use, or plain torch runs."""

    def has_ext_modules(self) -> bool:
        return COMPILING["compiler"]() is not None and platform.machine() in COMPILING["X86_64"]


class BuildLoops(build_py):
    """Copies the package and adds the libraries; a compiler that refuses them costs the libraries alone."""

    def run(self) -> None:
        super().run()
        if self.distribution.has_ext_modules() and not self.editable_mode:
            folder = Path(self.build_lib) / FAST / COMPILING["PACKAGED"]
            try:
                COMPILING["build_package"](folder)
            except COMPILING["CompileError"] as error:
                shutil.rmtree(folder, ignore_errors=True)
                self.warn(f"the package has no compiled loops: {error}")


class PlatformWheel(bdist_wheel):
    """For any Python 3: the libraries are loaded by ctypes and know nothing of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(distclass=Package, cmdclass={"build_py": BuildLoops, "bdist_wheel": PlatformWheel})
