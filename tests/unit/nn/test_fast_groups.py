"""Normalisation inside groups: the definition written out, gradients, and the compiled loop against plain torch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from mphil.errors import DataError
from mphil.nn.fast.library import status
from mphil.nn.fast.linear import Linear
from mphil.nn.fast.normalise import EPS, NO_STEPS, Steps, normalise_by_group, plain_normalise_by_group

compiled = pytest.mark.skipif(status().library is None, reason=status().reason)
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}


def written_out(rows: list[list[float]], group: list[int]) -> list[list[float]]:
    """The definition, group by group and column by column."""
    out = [list(row) for row in rows]
    for g in set(group):
        members = [m for m, of in enumerate(group) if of == g]
        for c in range(len(rows[0])):
            mean = sum(rows[m][c] for m in members) / len(members)
            variance = sum((rows[m][c] - mean) ** 2 for m in members) / len(members)
            for m in members:
                out[m][c] = (rows[m][c] - mean) / (variance + EPS) ** 0.5
    return out


def case(seed: int, sizes: list[int], width: int, joined: bool, dtype: torch.dtype = torch.float64):
    """Random arguments of `normalise_by_group`: values, other, ends, group, number of groups."""
    draw = torch.Generator().manual_seed(seed)
    group = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes, dtype=torch.long))

    def numbers(rows: int) -> Tensor:
        return torch.randn(rows, width, generator=draw, dtype=torch.float64).to(dtype).requires_grad_()

    if not joined:
        return numbers(len(group)), None, None, group, len(sizes)
    return (
        numbers(4),
        numbers(5),
        torch.stack([torch.randint(n, group.shape, generator=draw) for n in (4, 5)]),
        group,
        len(sizes),
    )


@pytest.mark.parametrize("joined", [False, True], ids=["rows", "ends"])
def test_definition(joined):
    values, other, ends, group, n = case(0, [3, 0, 1, 4], 3, joined)
    rows = values if ends is None else values[ends[0]] + other[ends[1]]
    expected = torch.tensor(written_out(rows.tolist(), group.tolist()), dtype=torch.float64)
    torch.testing.assert_close(normalise_by_group(values, group, n, other=other, ends=ends), expected)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float64", "float32"])
@settings(max_examples=25)
@given(
    seed=st.integers(0, 1000),
    sizes=st.lists(st.integers(0, 6), min_size=1, max_size=5),
    width=st.integers(1, 19),
    joined=st.booleans(),
    relu=st.booleans(),
    dropped=st.booleans(),
)
def test_compiled_is_plain(dtype, seed, sizes, width, joined, relu, dropped):
    values, other, ends, group, n = case(seed, sizes, width, joined, dtype)
    draws = torch.randint(-1000, 1000, (len(group), width)).to(torch.int16) if dropped else None
    steps = Steps(relu, draws=draws, least=-200, kept=0.6)
    towards = torch.randn(len(group), width).to(dtype)
    inputs = [v for v in (values, other) if v is not None]
    found = normalise_by_group(values, group, n, steps, other=other, ends=ends)
    plain = plain_normalise_by_group(values, other, ends, group, n, steps)
    # Where a value is 0 but for rounding, which side of the ReLU it falls on is anybody's guess.
    towards = towards * ((plain.abs() > 1e-3) | (not relu))
    tolerance = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    torch.testing.assert_close(found * (towards != 0), plain * (towards != 0), **tolerance)
    if not relu:
        for mine, theirs in zip(*(torch.autograd.grad(o, inputs, towards) for o in (found, plain)), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=10 * TOLERANCE[dtype], atol=300 * TOLERANCE[dtype])


@pytest.mark.parametrize("joined", [False, True], ids=["rows", "ends"])
@pytest.mark.parametrize("relu", [False, True])
def test_gradients(joined, relu):
    values, other, ends, group, n = case(3, [3, 4, 0], 3, joined)
    draws = torch.arange(21).view(7, 3).to(torch.int16)
    inputs = [v for v in (values, other) if v is not None]

    def function(*given: Tensor) -> Tensor:
        steps = Steps(relu, draws=draws, least=5, kept=0.7)
        return normalise_by_group(given[0], group, n, steps, other=given[1] if joined else None, ends=ends)

    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)


def test_groups_that_are_mixed_up():
    values, group = torch.randn(9, 2, dtype=torch.float64), torch.tensor([0, 2, 0, 2, 2, 3, 0, 2, 2])
    expected = torch.tensor(written_out(values.tolist(), group.tolist()), dtype=torch.float64)
    torch.testing.assert_close(normalise_by_group(values, group, 5), expected)


def test_one_member_becomes_exactly_nothing():
    values = torch.randn(3, 40) * 1e3
    assert (normalise_by_group(values, torch.arange(3), 3, Steps(relu=True)) == 0).all()


def test_no_members():
    values = torch.randn(4, 3, requires_grad=True)
    none = torch.zeros(2, 0, dtype=torch.long)
    out = normalise_by_group(values, none[0], 2, other=values, ends=none)
    assert out.shape == (0, 3)
    out.sum().backward()
    assert values.grad is not None
    assert (values.grad == 0).all()


def test_rows_with_gaps_between_them():
    wide = torch.randn(6, 8, dtype=torch.float64)
    group = torch.tensor([0, 0, 0, 1, 1, 1])
    found = normalise_by_group(wide[:, :5], group, 2)
    torch.testing.assert_close(found, normalise_by_group(wide[:, :5].contiguous(), group, 2))


@compiled
def test_an_end_that_does_not_exist():
    values = torch.randn(3, 2)
    with pytest.raises(DataError, match="edge_index"):
        normalise_by_group(
            values, torch.zeros(1, dtype=torch.long), 1, NO_STEPS, other=values, ends=torch.tensor([[0], [3]])
        )


def test_a_linear_map_without_bias():
    torch.manual_seed(0)
    layer, x = Linear(5, 3, bias=False).double(), torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(layer(x), x @ layer.weight.T)
    assert gradcheck(lambda x, weight: torch.func.functional_call(layer, {"weight": weight}, x), (x, layer.weight))
