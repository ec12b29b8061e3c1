"""Plug-ins in tests: code that registers, as a file and as an installed package; afterwards nothing is left of it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mphil.benchmarks import BENCHMARKS
from mphil.methods import METHODS
from mphil.nn.encoders import ENCODERS

TABLES = (METHODS, ENCODERS, BENCHMARKS)
ENTRY_POINTS = """[mphil.methods]
third-erm = third_party:ThirdERM

[mphil.encoders]
third-gin = third_party:ThirdGIN

[mphil.benchmarks]
third-motif = third_party
"""
SOURCE = '''"""ThirdERM: ERM with a weight."""

from mphil.benchmarks import benchmark
from mphil.benchmarks import register as register_benchmark
from mphil.methods import Losses, register
from mphil.methods.erm import ERM
from mphil.nn.encoders import register_encoder
from mphil.nn.encoders.gin import GIN
from mphil.nn.losses import task_loss


@register("third-erm", paper="none", search_space={"weight": [0.5, 1.0]})
class ThirdERM(ERM):
    """ERM with a weight."""

    def __init__(self, task, encoder, *, weight: float = 1.0):
        super().__init__(task, encoder)
        self.weight = weight

    def loss(self, batch, progress):
        return Losses(classification=self.weight * task_loss(self.predict(batch), batch.y, self.task))


@register_encoder("third-gin")
class ThirdGIN(GIN):
    """GIN under another name."""


def build(*, graphs: int = 120, seed: int = 0):
    return benchmark("good-motif-basis", graphs=graphs, seed=seed)


register_benchmark("third-motif", build, summary="Motif under another name.", source="generated")
'''
SUITE = """title = "Third party"
benchmarks = ["third-motif"]
methods = ["third-erm"]
seeds = [0]

[settings.encoder]
kind = "third-gin"
width = 4
layers = 2

[settings.train]
epochs = 1
batch_size = 24
"""
SETTINGS = ("encoder.kind=third-gin", "encoder.width=4", "encoder.layers=2", "train.epochs=1", "train.batch_size=24")
QUICK = [word for text in SETTINGS for word in ("--set", text)]


@contextmanager
def forgotten() -> Iterator[None]:
    """What is imported and registered inside is forgotten afterwards."""
    for table in TABLES:
        len(table)
    modules = set(sys.modules)
    kept = [(vars(table), {name: _copy(value) for name, value in vars(table).items()}) for table in TABLES]
    try:
        yield
    finally:
        for values, before in kept:
            values.update(before)
        for name in set(sys.modules) - modules:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(tempfile.gettempdir()):
                del sys.modules[name]


def _copy(value: object) -> object:
    return value.copy() if isinstance(value, dict | set) else value


def install(folder: Path, source: str = SOURCE, points: str = ENTRY_POINTS) -> None:
    """What pip leaves of a package `mphil-third 0.1` with one module, `third_party`."""
    (folder / "third_party.py").write_text(source)
    about = folder / "mphil_third-0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mphil-third\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text(points)
