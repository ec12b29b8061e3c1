"""The learning rate: rises over the warm-up, then follows its schedule."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mphil.config import TrainConfig
from mphil.methods.base import Progress
from mphil.training.recipe import learning_rate_factor, warmup_steps


def factors(total, **config):
    return [learning_rate_factor(Progress(step=t, total_steps=total), TrainConfig(**config)) for t in range(total)]


def test_constant_without_warmup_is_one_to_the_last_bit():
    assert factors(7) == [1.0] * 7


def test_against_formulas_written_out():
    assert factors(4, schedule="linear") == [1, 0.75, 0.5, 0.25]
    assert factors(4, schedule="cosine") == pytest.approx([1, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2])
    assert factors(5, warmup=0.4) == [0.5, 1, 1, 1, 1]
    assert factors(6, warmup=0.34, schedule="linear") == [0.5, 1, 1, 0.75, 0.5, 0.25]


@given(st.integers(1, 60), st.sampled_from(["constant", "cosine", "linear"]), st.floats(0, 1, exclude_max=True))
def test_up_to_one_and_down_again_but_never_to_zero(total, schedule, warmup):
    found = factors(total, schedule=schedule, warmup=warmup)
    top = warmup_steps(total, TrainConfig(warmup=warmup))
    assert all(0 < factor <= 1 for factor in found)
    assert found[:top] == sorted(found[:top])
    assert found[top:] == sorted(found[top:], reverse=True)
    if top:
        assert found[top - 1] == 1
    if top < total:
        assert found[top] == 1
