"""The scripts that measure speed name loops that there are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mphil.nn.fast.loading import declared

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def scripts():
    sys.path.append(str(FOLDER))  # its neighbours
    import speed
    import threads

    yield speed, threads
    sys.path.remove(str(FOLDER))


def test_loops_by_their_names(scripts):
    speed, threads = scripts
    assert {*speed.FLOPS, *threads.SHARED} <= set(declared())


def test_what_a_product_costs(scripts):
    assert scripts[0].FLOPS["chained_product"]({"rows": 2, "depth": 3, "columns": 5}) == 60
