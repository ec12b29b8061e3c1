"""Compiles the loops of the fast path into the wheel, so that nothing is compiled where it is installed."""

import runpy
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

FAST = Path("mphil", "nn", "fast")
COMPILING = runpy.run_path(str(Path("src") / FAST / "compiling.py"))


class Package(Distribution):
    """Of this platform if the loops can be compiled; otherwise they are built on first use."""

    def has_ext_modules(self) -> bool:
        return COMPILING["compiler"]() is not None


class BuildLoops(build_py):
    def run(self) -> None:
        super().run()
        if self.distribution.has_ext_modules() and not self.editable_mode:
            COMPILING["build_package"](Path(self.build_lib) / FAST / COMPILING["PACKAGED"])


class PlatformWheel(bdist_wheel):
    """For any Python 3: the libraries are loaded by ctypes and know nothing of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(distclass=Package, cmdclass={"build_py": BuildLoops, "bdist_wheel": PlatformWheel})
